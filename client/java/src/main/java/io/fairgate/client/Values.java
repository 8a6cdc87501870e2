package io.fairgate.client;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** What values have in common. */
final class Values {
    private static final long CENTURY_S = 100L * 365 * 24 * 3600;

    private Values() {}

    /** Amounts as the contract carries them. */
    static Map<String, Double> amounts(Map<String, ? extends Number> of) {
        Map<String, Double> amounts = new LinkedHashMap<>();
        of.forEach((name, amount) -> amounts.put(name, amount.doubleValue()));
        return amounts;
    }

    /** Those of centuries are cut. */
    static long nanos(Duration duration) {
        boolean isCenturies = Math.abs(duration.getSeconds()) >= CENTURY_S;
        return isCenturies
                ? TimeUnit.SECONDS.toNanos(Long.signum(duration.getSeconds()) * CENTURY_S)
                : duration.toNanos();
    }

    /** The number's name, or the first, which stands for what a newer gate says. */
    static <E extends Enum<E>> E numbered(E[] names, int number) {
        return number >= 0 && number < names.length ? names[number] : names[0];
    }
}
