package io.fairgate.client;

import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/** How long a refusal says to wait. */
final class RetryAfter {
    private static final double MAX_S = 24 * 3600;
    // A bare number above this is an instant since 1970, not a wait: nobody waits thirty years.
    private static final double EPOCH_MIN_S = 1e9;
    private static final double EPOCH_MIN_MS = 1e12;
    private static final String SPAN = "(\\d+(?:\\.\\d+)?)(ms|s|m|h|d)";
    private static final Pattern SPAN_PATTERN = Pattern.compile(SPAN);
    private static final Pattern SPANS_PATTERN = Pattern.compile("(?:" + SPAN + ")+");
    private static final Pattern NUMBER_PATTERN = Pattern.compile("\\d+(?:\\.\\d+)?");
    private static final Map<String, Double> UNITS_S =
            Map.of("ms", 0.001, "s", 1.0, "m", 60.0, "h", 3600.0, "d", 86400.0);
    private static final List<Function<String, Instant>> DATES =
            List.of(
                    text -> OffsetDateTime.parse(text).toInstant(),
                    text -> LocalDateTime.parse(text).toInstant(ZoneOffset.UTC),
                    text ->
                            ZonedDateTime.parse(text, DateTimeFormatter.RFC_1123_DATE_TIME)
                                    .toInstant());

    private RetryAfter() {}

    /**
     * In this order: retry-after-ms; retry-after; retryDelay of a google.rpc.RetryInfo in the body;
     * the longest reset among the limits that have nothing left or do not say. Header names are in
     * lower case.
     */
    static Optional<Duration> of(Map<String, String> headers, Object body, Instant now) {
        Optional<Duration> milliseconds =
                number(headers.get("retry-after-ms")).map(ms -> clamped(ms / 1000));
        return milliseconds
                .or(() -> parse(headers.get("retry-after"), now))
                .or(() -> parse(googleDelay(body), now))
                .or(
                        () ->
                                RateLimits.limits(headers).values().stream()
                                        .filter(
                                                limit ->
                                                        number(limit.get("remaining")).orElse(0.0)
                                                                == 0)
                                        .flatMap(limit -> parse(limit.get("reset"), now).stream())
                                        .max(Duration::compareTo));
    }

    private static String googleDelay(Object body) {
        Object error = Json.get(body, "error");
        // The SDKs give what is in the field "error".
        if (Json.get(error == null ? body : error, "details") instanceof Iterable<?> details) {
            for (Object detail : details) {
                if (Json.get(detail, "retryDelay") instanceof String delay) {
                    return delay;
                }
            }
        }
        return null;
    }

    /**
     * Spans ("6m0s", "20ms"), seconds ("55", "0.5"), seconds or milliseconds since 1970, RFC 3339
     * and HTTP dates. An instant that is over is a wait of 0. Empty: none of these.
     */
    static Optional<Duration> parse(String text, Instant now) {
        if (text == null) {
            return Optional.empty();
        }
        if (SPANS_PATTERN.matcher(text).matches()) {
            return Optional.of(
                    clamped(
                            SPAN_PATTERN
                                    .matcher(text)
                                    .results()
                                    .mapToDouble(RetryAfter::seconds)
                                    .sum()));
        }
        return number(text)
                .map(value -> value >= EPOCH_MIN_MS ? value / 1000 : value)
                .map(value -> value >= EPOCH_MIN_S ? value - seconds(now) : value)
                .or(() -> date(text).map(instant -> seconds(instant) - seconds(now)))
                .map(RetryAfter::clamped);
    }

    private static double seconds(MatchResult span) {
        return Double.parseDouble(span.group(1)) * UNITS_S.get(span.group(2));
    }

    private static double seconds(Instant instant) {
        return instant.toEpochMilli() / 1000.0;
    }

    private static Optional<Instant> date(String text) {
        for (Function<String, Instant> parser : DATES) {
            try {
                return Optional.of(parser.apply(text));
            } catch (DateTimeParseException another) {
                continue;
            }
        }
        return Optional.empty();
    }

    static Optional<Double> number(String text) {
        return text != null && NUMBER_PATTERN.matcher(text).matches()
                ? Optional.of(Double.valueOf(text))
                : Optional.empty();
    }

    /** Whole milliseconds, so that every client says the same. */
    private static Duration clamped(double seconds) {
        return Duration.ofMillis((long) Math.rint(1000 * Math.min(Math.max(0, seconds), MAX_S)));
    }
}
