package io.fairgate.client;

import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * What a call really used, and how it ended.
 *
 * @param outcome how it ended
 * @param actual use by dimension; one that is absent is unknown, and its estimate stays charged
 * @param retryAfter how long the provider asks to wait, 0 to 24 h, with {@code RATE_LIMITED}: the
 *     target pauses for it
 * @param rateLimits by dimension: what the response said of the provider's own count
 */
public record Settlement(
        CallOutcome outcome,
        Map<String, Double> actual,
        Optional<Duration> retryAfter,
        Map<String, RateLimitStatus> rateLimits) {
    /** Copies the maps. */
    public Settlement {
        actual = Map.copyOf(actual);
        rateLimits = Map.copyOf(rateLimits);
    }

    /** How it ended, in your words. */
    public static Settlement of(CallOutcome outcome) {
        return new Settlement(outcome, Map.of(), Optional.empty(), Map.of());
    }

    /** Refused by the provider, which asks to wait. */
    public static Settlement rateLimited(Duration retryAfter) {
        return new Settlement(
                CallOutcome.RATE_LIMITED, Map.of(), Optional.of(retryAfter), Map.of());
    }

    /** With what was used. */
    public Settlement withActual(Map<String, ? extends Number> actual) {
        return new Settlement(outcome, Values.amounts(actual), retryAfter, rateLimits);
    }

    /** With what the provider said of its own count, by dimension. */
    public Settlement withRateLimits(Map<String, RateLimitStatus> rateLimits) {
        return new Settlement(outcome, actual, retryAfter, rateLimits);
    }
}
