package io.fairgate.client;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import com.google.gson.Strictness;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** JSON as maps, lists, strings, numbers and booleans. */
final class Json {
    private static final Gson GSON = new GsonBuilder().setStrictness(Strictness.STRICT).create();

    private Json() {}

    /**
     * Of JSON text, decoded JSON, or a JSON library's tree, which prints itself as JSON; null: it
     * is none of these.
     */
    static Object decoded(Object body) {
        if (body == null
                || body instanceof Map
                || body instanceof Iterable<?> list && isPlain(list)) {
            return body;
        }
        String text =
                body instanceof byte[] bytes
                        ? new String(bytes, StandardCharsets.UTF_8)
                        : body.toString();
        if (text == null || text.isBlank()) {
            return null;
        }
        try {
            return GSON.fromJson(text, Object.class);
        } catch (JsonParseException notJson) {
            return null;
        }
    }

    // As against a library's array, which is iterable, too.
    private static boolean isPlain(Iterable<?> list) {
        return list.getClass().getName().startsWith("java.");
    }

    /** The value of that name in an object; null: there is none. */
    static Object get(Object object, String name) {
        return object instanceof Map<?, ?> map ? map.get(name) : null;
    }
}
