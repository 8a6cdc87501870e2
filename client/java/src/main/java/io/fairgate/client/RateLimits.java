package io.fairgate.client;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What the headers of a response say of the provider's limits. Header names are in lower case. */
final class RateLimits {
    private static final double REMAINING_MAX = 1e12; // the contract's
    // Of a limit: x-ratelimit-reset-tokens, anthropic-ratelimit-input-tokens-reset,
    // x-ratelimit-reset
    private static final Pattern LIMIT_PATTERN =
            Pattern.compile(
                    "(?:x-|anthropic-)?ratelimit(?:-([a-z-]+?))?-(limit|remaining|reset)(?:-([a-z-]+))?");

    private RateLimits() {}

    /**
     * What is told of the limits of these dimensions and of "requests". A limit belongs to the
     * dimension of its name ("input-tokens" is "input_tokens"), else to those that take the usage
     * of that name. A limit without a name is one of requests. What is absent or malformed is left
     * out.
     */
    static Map<String, RateLimitStatus> of(
            Map<String, String> headers, Map<String, Usage> dimensions, Instant now) {
        Map<String, Map<String, String>> limits = limits(headers);
        Map<String, List<String>> candidates = new HashMap<>();
        dimensions.forEach(
                (dimension, usage) -> {
                    List<String> names = new ArrayList<>(List.of(normal(dimension)));
                    limits.keySet().stream()
                            .filter(name -> Usage.DIMENSIONS.get(name) == usage)
                            .forEach(names::add);
                    candidates.put(dimension, names);
                });
        candidates.put("requests", List.of("requests", ""));
        Map<String, RateLimitStatus> told = new HashMap<>();
        candidates.forEach(
                (dimension, names) ->
                        names.stream()
                                .flatMap(name -> status(limits.get(name), now).stream())
                                .findFirst()
                                .ifPresent(status -> told.put(dimension, status)));
        return told;
    }

    /** Empty: it tells nothing, or there is none. */
    private static Optional<RateLimitStatus> status(Map<String, String> limit, Instant now) {
        if (limit == null) {
            return Optional.empty();
        }
        Optional<Double> remaining =
                RetryAfter.number(limit.get("remaining")).filter(left -> left <= REMAINING_MAX);
        Optional<Duration> reset = RetryAfter.parse(limit.get("reset"), now);
        return remaining.isEmpty() && reset.isEmpty()
                ? Optional.empty()
                : Optional.of(new RateLimitStatus(remaining, reset));
    }

    /**
     * The values of "limit", "remaining" and "reset" by the limit's name; the first header in the
     * order of names holds. Negative limits are placeholders, not limits.
     */
    static Map<String, Map<String, String>> limits(Map<String, String> headers) {
        Map<String, Map<String, String>> limits = new TreeMap<>();
        new TreeMap<>(headers)
                .forEach(
                        (header, value) -> {
                            Matcher match = LIMIT_PATTERN.matcher(header);
                            if (match.matches()) {
                                String name =
                                        match.group(1) == null ? match.group(3) : match.group(1);
                                put(limits, name == null ? "" : name, match.group(2), value);
                            } else if (header.equals("ratelimit")) {
                                readListed(limits, value);
                            }
                        });
        limits.values()
                .removeIf(
                        limit ->
                                limit.getOrDefault("limit", "").startsWith("-")
                                        || limit.getOrDefault("remaining", "").startsWith("-"));
        return limits;
    }

    /** Of the IETF's header: "requests";r=50;t=12, "tokens";r=5000;t=30. */
    private static void readListed(Map<String, Map<String, String>> limits, String header) {
        for (String item : header.split(",")) {
            String[] parts = item.split(";", -1);
            String name = parts[0].strip().replaceAll("^\"|\"$", "");
            for (String parameter : parts) {
                String[] pair = parameter.strip().split("=", 2);
                if (pair.length == 2 && pair[0].equals("r")) {
                    put(limits, name, "remaining", pair[1]);
                } else if (pair.length == 2 && pair[0].equals("t")) {
                    put(limits, name, "reset", pair[1]);
                }
            }
        }
    }

    private static void put(
            Map<String, Map<String, String>> limits, String name, String what, String value) {
        if (!value.isEmpty()) {
            limits.computeIfAbsent(normal(name), key -> new HashMap<>()).putIfAbsent(what, value);
        }
    }

    private static String normal(String name) {
        return name.toLowerCase(Locale.ROOT).replace('-', '_');
    }
}
