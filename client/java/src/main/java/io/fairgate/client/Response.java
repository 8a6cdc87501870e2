package io.fairgate.client;

import java.net.http.HttpResponse;
import java.time.Duration;
import java.time.Instant;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * What is needed of a provider's response, in the shapes of OpenAI's and Anthropic's APIs and of
 * those that copy them.
 *
 * @param status of HTTP; 0: not known
 * @param headers names in lower case
 * @param body JSON text, decoded JSON (maps and lists), a JSON library's tree, or a response object
 *     of an SDK; null: none
 */
public record Response(int status, Map<String, String> headers, Object body) {
    /** Copies the headers. */
    public Response {
        headers = Map.copyOf(headers);
    }

    /** Without headers, which tell the waits of refusals and what is left of limits. */
    public static Response of(int status, Object body) {
        return new Response(status, Map.of(), body);
    }

    /** Header names in any case; values are text, or lists of which the first counts. */
    public static Response of(int status, Map<String, ?> headers, Object body) {
        Map<String, String> lowered = new TreeMap<>();
        headers.forEach((name, values) -> Shapes.put(lowered, name, values));
        return new Response(status, lowered, body);
    }

    /** Of {@code java.net.http}, with a body that was read as text or bytes. */
    public static Response of(HttpResponse<?> response) {
        return of(response.statusCode(), response.headers().map(), response.body());
    }

    /** A response object of an SDK: it exists, so the call succeeded. */
    public static Response ofSdk(Object response) {
        return of(200, response);
    }

    /**
     * The HTTP response in an exception or its causes: in any that has {@code statusCode()} and
     * {@code headers()}, as those of OpenAI's and Anthropic's SDKs. Empty: there is none.
     */
    public static Optional<Response> in(Throwable error) {
        Throwable cause = error;
        for (int depth = 0; cause != null && depth < 100; depth++) {
            Optional<Response> found = Shapes.response(cause);
            if (found.isPresent()) {
                return found;
            }
            cause = cause.getCause();
        }
        return Optional.empty();
    }

    /**
     * What the response amounts to in these dimensions, at a time that matters for waits that are
     * dates. Usage that is not told is left out, never zero. Limits are told for these dimensions
     * and for "requests".
     */
    public Settlement settlement(Map<String, Usage> dimensions, Instant now) {
        Object read = Shapes.get(body, "usage") == null ? Json.decoded(body) : body;
        Map<Usage, Double> usage = usage(read == null ? body : read);
        Map<String, Double> actual = new HashMap<>();
        dimensions.forEach(
                (name, kind) -> {
                    if (usage.containsKey(kind)) {
                        actual.put(name, usage.get(kind));
                    }
                });
        CallOutcome outcome = outcome(!usage.isEmpty());
        Optional<Duration> wait =
                outcome == CallOutcome.RATE_LIMITED
                        ? RetryAfter.of(headers, read, now)
                        : Optional.empty();
        return new Settlement(outcome, actual, wait, RateLimits.of(headers, dimensions, now));
    }

    private CallOutcome outcome(boolean isUsageKnown) {
        if (status == 429) {
            return CallOutcome.RATE_LIMITED;
        }
        if (status == 408 || status == 504) {
            return CallOutcome.TIMEOUT;
        }
        if (status >= 500) {
            return CallOutcome.SERVER_ERROR;
        }
        boolean isOk = status >= 200 && status < 300 || status == 0 && isUsageKnown;
        return isOk ? CallOutcome.OK : CallOutcome.UNKNOWN;
    }

    /** Those kinds that are told. */
    private static Map<Usage, Double> usage(Object body) {
        Object usage = Shapes.get(body, "usage");
        if (usage == null) {
            usage = Shapes.get(Shapes.get(body, "message"), "usage"); // first event of a stream
        }
        Double total = amount(usage, "total_tokens");
        Double input = amount(usage, "prompt_tokens", "input_tokens");
        Double output = amount(usage, "completion_tokens", "output_tokens");
        // Anthropic has no total, and counts what went through its cache apart.
        if (total == null && input != null) {
            Double cached = amount(usage, "cache_creation_input_tokens");
            input += cached == null ? 0 : cached;
            total = output == null ? null : Double.valueOf(input + output);
        }
        Map<Usage, Double> found = new EnumMap<>(Usage.class);
        found.put(Usage.TOTAL, total);
        found.put(Usage.INPUT, input);
        found.put(Usage.OUTPUT, output);
        found.values().removeIf(amount -> amount == null);
        return found;
    }

    /** The first of these that is told; null: none. */
    private static Double amount(Object usage, String... names) {
        for (String name : names) {
            if (Shapes.get(usage, name) instanceof Number number
                    && number.doubleValue() >= 0
                    && Double.isFinite(number.doubleValue())) {
                return number.doubleValue();
            }
        }
        return null;
    }
}
