package io.fairgate.client;

import java.time.Duration;
import java.util.Optional;

/**
 * A provider's word on one of its limits, as in the headers {@code
 * x-ratelimit-{remaining,reset}-*}.
 *
 * @param remaining left after this call, in the dimension's unit, 0 to 1e12; empty: not told
 * @param reset until the running window ends, 0 to 24 h; empty: not told
 */
public record RateLimitStatus(Optional<Double> remaining, Optional<Duration> reset) {
    /** With both told. */
    public static RateLimitStatus of(double remaining, Duration reset) {
        return new RateLimitStatus(Optional.of(remaining), Optional.of(reset));
    }
}
