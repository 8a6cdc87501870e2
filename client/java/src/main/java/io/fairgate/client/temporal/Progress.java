package io.fairgate.client.temporal;

import io.temporal.api.common.v1.Payload;
import io.temporal.common.converter.DefaultDataConverter;
import io.temporal.common.interceptors.Header;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * What a deferral hands over to the activity that is scheduled in its place.
 *
 * @param requestId of all questions of one call
 * @param attemptsBefore of the gate: attempts that are over
 * @param failuresBefore attempts that the retry policy has used up; fewer than attemptsBefore once
 *     a send was followed by a deferral
 */
record Progress(String requestId, int attemptsBefore, int failuresBefore) {
    static Progress of(Map<?, ?> json) {
        return new Progress(
                (String) json.get("request_id"),
                ((Number) json.get("attempts_before")).intValue(),
                ((Number) json.get("failures_before")).intValue());
    }

    Map<String, Object> json() {
        return Map.of(
                "request_id", requestId,
                "attempts_before", attemptsBefore,
                "failures_before", failuresBefore);
    }

    static Optional<Progress> in(Header header) {
        Payload payload = header.getValues().get(FairgateInterceptor.HEADER);
        if (payload == null) {
            return Optional.empty();
        }
        // Not the worker's own converter: the other side may be written in another language.
        return Optional.of(
                of(
                        DefaultDataConverter.STANDARD_INSTANCE.fromPayload(
                                payload, Map.class, Map.class)));
    }

    Header addedTo(Header header) {
        Map<String, Payload> values = new HashMap<>(header.getValues());
        values.put(
                FairgateInterceptor.HEADER,
                DefaultDataConverter.STANDARD_INSTANCE.toPayload(json()).orElseThrow());
        return new Header(values);
    }
}
