package io.fairgate.client;

import java.time.Duration;
import java.util.Optional;

/** Waiting would not help. */
public final class Rejected extends NotAdmitted implements Answer {
    private final RejectReason reason;
    private final String explanation;
    private final String dimension;
    private final Duration earliest;

    Rejected(
            String requestId,
            int attempt,
            boolean degraded,
            RejectReason reason,
            String explanation,
            String dimension,
            Duration earliest) {
        super(requestId + ": " + reason + ": " + explanation, requestId, attempt, degraded);
        this.reason = reason;
        this.explanation = explanation;
        this.dimension = dimension;
        this.earliest = earliest;
    }

    /** The caller's own deadline ended the question. */
    static Rejected late(String requestId, int attempt, String explanation, boolean degraded) {
        return new Rejected(
                requestId,
                attempt,
                degraded,
                RejectReason.DEADLINE_UNREACHABLE,
                explanation,
                "",
                null);
    }

    /** Why. */
    public RejectReason reason() {
        return reason;
    }

    /** For people; names the dimension and the numbers. */
    public String explanation() {
        return explanation;
    }

    /** The limiting one; empty where none does. */
    public String dimension() {
        return dimension;
    }

    /** {@code DEADLINE_UNREACHABLE}: the earliest time the call could go, from now. */
    public Optional<Duration> earliest() {
        return Optional.ofNullable(earliest);
    }
}
