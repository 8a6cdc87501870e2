package io.fairgate.client.temporal;

import io.temporal.failure.ActivityFailure;
import io.temporal.failure.ApplicationErrorCategory;
import io.temporal.failure.ApplicationFailure;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/** The detail of a failure of {@link FairgateInterceptor#DEFERRED_TYPE}. */
record Deferral(Duration delay, Progress next) {
    private static final StackTraceElement[] NOWHERE = {};

    /** As the activity fails. */
    ApplicationFailure failure(String message) {
        long delayMs = delay.plusNanos(999_999).toMillis(); // rounded up
        ApplicationFailure failure =
                ApplicationFailure.newBuilder()
                        .setMessage(message)
                        .setType(FairgateInterceptor.DEFERRED_TYPE)
                        .setNonRetryable(true)
                        .setCategory(ApplicationErrorCategory.BENIGN)
                        .setDetails(Map.of("delay_ms", delayMs, "next", next.json()))
                        .build();
        failure.setStackTrace(NOWHERE); // each deferral is history
        return failure;
    }

    /** As the workflow sees it; empty: the activity ended otherwise. */
    static Optional<Deferral> in(RuntimeException failure) {
        if (failure instanceof ActivityFailure
                && failure.getCause() instanceof ApplicationFailure told
                && told.getType().equals(FairgateInterceptor.DEFERRED_TYPE)
                && told.getDetails().getSize() > 0) {
            Map<?, ?> detail = told.getDetails().get(0, Map.class);
            return Optional.of(
                    new Deferral(
                            Duration.ofMillis(((Number) detail.get("delay_ms")).longValue()),
                            Progress.of((Map<?, ?>) detail.get("next"))));
        }
        return Optional.empty();
    }
}
