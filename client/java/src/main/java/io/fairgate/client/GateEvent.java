package io.fairgate.client;

import java.time.Duration;

/** What metrics are made of: see {@link GateOptions.Builder#onEvent}. */
public sealed interface GateEvent {
    /**
     * One question and its answer.
     *
     * @param target as asked
     * @param tenant as asked
     * @param priority as asked
     * @param outcome the answer's kind
     * @param degraded answered without the store or without the gate
     * @param duration how long the caller waited for the answer
     * @param delay of a defer, zero otherwise
     */
    record Admit(
            String target,
            String tenant,
            String priority,
            AdmitOutcome outcome,
            boolean degraded,
            Duration duration,
            Duration delay)
            implements GateEvent {}

    /**
     * One settlement, withdrawal or extension.
     *
     * @param target as asked
     * @param outcome what the caller said: a {@link CallOutcome}'s name, "WITHDRAW" or "EXTEND"
     * @param result a {@link ReleaseResult}'s name; "LOST": it did not reach the gate; "ERROR": the
     *     gate refused it
     * @param duration how long it took
     */
    record Release(String target, String outcome, String result, Duration duration)
            implements GateEvent {}

    /**
     * The breaker opened (the gate is not asked any more) or closed.
     *
     * @param open whether it is open now
     */
    record Breaker(boolean open) implements GateEvent {}

    /** An answer's kind. */
    enum AdmitOutcome {
        /** The call may go. */
        GRANTED,
        /** The gate could not be asked, and the call may go. */
        FAILED_OPEN,
        /** Later. */
        DEFERRED,
        /** Never. */
        REJECTED,
        /** A {@link GateException}. */
        ERROR
    }
}
