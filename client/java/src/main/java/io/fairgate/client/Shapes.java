package io.fairgate.client;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;

/**
 * Reads the objects of OpenAI's and Anthropic's SDKs, and HTTP responses, by the names of their
 * accessors, so that the client depends on none of them.
 */
final class Shapes {
    private Shapes() {}

    /** A field of decoded JSON or of an SDK's object, by its name in JSON; null: there is none. */
    static Object get(Object of, String name) {
        return of instanceof Map ? Json.get(of, name) : call(of, camelCase(name));
    }

    /** The HTTP response in a thing that tells a status and headers; empty: it does not. */
    static Optional<Response> response(Object of) {
        Object headers = call(of, "headers");
        if (headers == null || !(call(of, "statusCode") instanceof Integer status)) {
            return Optional.empty();
        }
        return Optional.of(new Response(status, headers(headers), body(call(of, "body"))));
    }

    /** Of java.net.http (a map), or of the SDKs (names and their values). */
    private static Map<String, String> headers(Object of) {
        Map<String, String> headers = new TreeMap<>();
        if (call(of, "map") instanceof Map<?, ?> map) {
            map.forEach((name, values) -> put(headers, name, values));
        } else if (call(of, "names") instanceof Iterable<?> names) {
            names.forEach(name -> put(headers, name, call(of, "values", String.class, name)));
        }
        return headers;
    }

    /** The first value holds. */
    static void put(Map<String, String> headers, Object name, Object values) {
        Object value = values;
        if (values instanceof Iterable<?> list) {
            value = list.iterator().hasNext() ? list.iterator().next() : null;
        }
        if (value != null) {
            headers.put(name.toString().toLowerCase(Locale.ROOT), value.toString().strip());
        }
    }

    // The SDKs' JsonValue is no map, but converts to one.
    private static Object body(Object of) {
        Object map = call(of, "convert", Class.class, Map.class);
        return map == null ? of : map;
    }

    private static String camelCase(String name) {
        StringBuilder camel = new StringBuilder();
        for (String word : name.split("_")) {
            boolean isFirst = camel.isEmpty();
            camel.append(isFirst ? word : word.substring(0, 1).toUpperCase(Locale.ROOT));
            camel.append(isFirst ? "" : word.substring(1));
        }
        return camel.toString();
    }

    private static Object call(Object of, String method) {
        return of == null ? null : invoke(of, method, new Class<?>[0]);
    }

    private static Object call(Object of, String method, Class<?> type, Object argument) {
        return of == null ? null : invoke(of, method, new Class<?>[] {type}, argument);
    }

    /**
     * What a public method gives, out of its Optional; null: nothing, or there is no such method.
     */
    private static Object invoke(Object of, String name, Class<?>[] types, Object... arguments) {
        try {
            Method method = of.getClass().getMethod(name, types);
            if (!method.canAccess(of) && !method.trySetAccessible()) {
                return null;
            }
            Object value = method.invoke(of, arguments);
            if (value instanceof OptionalLong number) {
                return number.isPresent() ? number.getAsLong() : null;
            }
            return value instanceof Optional<?> optional ? optional.orElse(null) : value;
        } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException none) {
            return null;
        }
    }
}
