package io.fairgate.client;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToIntFunction;

/** Estimates the tokens of requests in the shape of OpenAI's or Anthropic's APIs. */
public final class TokenEstimator {
    /** Counts four characters (code points) as one token. */
    public static final TokenEstimator DEFAULT = new TokenEstimator(null, 0);

    private static final int CHARACTERS_PER_TOKEN = 4;
    private static final List<String> TEXT_FIELDS =
            List.of("system", "instructions", "messages", "input", "prompt", "tools", "functions");
    private static final List<String> OUTPUT_FIELDS =
            List.of("max_completion_tokens", "max_output_tokens", "max_tokens");
    // Values that are ids, names of kinds, or data that is not counted by its characters.
    private static final Set<String> NOT_TEXT =
            Set.of(
                    "cache_control",
                    "call_id",
                    "data",
                    "file",
                    "file_data",
                    "id",
                    "image_url",
                    "input_audio",
                    "media_type",
                    "role",
                    "source",
                    "tool_call_id",
                    "tool_use_id",
                    "type",
                    "url");

    private final ToIntFunction<String> count;
    private final int output;

    private TokenEstimator(ToIntFunction<String> count, int output) {
        this.count = count;
        this.output = output;
    }

    /** With a tokenizer, which counts the tokens of a text. */
    public TokenEstimator withCount(ToIntFunction<String> count) {
        return new TokenEstimator(count, output);
    }

    /** With the output to expect where the body sets no bound on it. */
    public TokenEstimator withOutput(int output) {
        return new TokenEstimator(count, output);
    }

    /**
     * What a request may use: its input, and the bound that it sets on its output, times the number
     * of choices ("n").
     *
     * @param body JSON text, decoded JSON (maps and lists) or a JSON library's tree; text that is
     *     no JSON object is a prompt
     */
    public long tokens(Object body) {
        Object request = Json.decoded(body);
        if (!(request instanceof Map)) {
            request = Map.of("prompt", textOf(body));
        }
        List<String> texts = new ArrayList<>();
        for (String field : TEXT_FIELDS) {
            collect(Json.get(request, field), texts);
        }
        int bound = output;
        for (String field : OUTPUT_FIELDS) {
            int said = positive(Json.get(request, field));
            if (said > 0) {
                bound = said;
                break;
            }
        }
        return input(texts) + (long) bound * Math.max(1, positive(Json.get(request, "n")));
    }

    private long input(List<String> texts) {
        if (count != null) {
            return texts.stream().mapToLong(count::applyAsInt).sum();
        }
        long characters =
                texts.stream().mapToLong(text -> text.codePointCount(0, text.length())).sum();
        return (characters + CHARACTERS_PER_TOKEN - 1) / CHARACTERS_PER_TOKEN;
    }

    private static String textOf(Object body) {
        if (body instanceof byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
        return body instanceof CharSequence ? body.toString() : "";
    }

    private static void collect(Object value, List<String> texts) {
        if (value instanceof String text) {
            texts.add(text);
        } else if (value instanceof Iterable<?> list) {
            list.forEach(inner -> collect(inner, texts));
        } else if (value instanceof Map<?, ?> map) {
            map.forEach(
                    (key, inner) -> {
                        if (!NOT_TEXT.contains(key)) {
                            collect(inner, texts);
                        }
                    });
        }
    }

    /** A positive whole number; 0: it is none. */
    private static int positive(Object value) {
        if (!(value instanceof Number number)) {
            return 0;
        }
        double amount = number.doubleValue();
        return amount >= 1 && amount == Math.rint(amount) && amount <= Integer.MAX_VALUE
                ? (int) amount
                : 0;
    }
}
