package io.fairgate.client;

/** The call may not go now: {@link Deferred} or {@link Rejected}. An answer, and no failure. */
public abstract sealed class NotAdmitted extends FairgateException permits Deferred, Rejected {
    private final String requestId;
    private final int attempt;
    private final boolean degraded;

    /** Without a stack trace: answers are common. */
    NotAdmitted(String message, String requestId, int attempt, boolean degraded) {
        super(message, false);
        this.requestId = requestId;
        this.attempt = attempt;
        this.degraded = degraded;
    }

    /** The question's id, or the one that was made. */
    public String requestId() {
        return requestId;
    }

    /** At least 1. */
    public int attempt() {
        return attempt;
    }

    /**
     * Answered without the gate's store, or, for a deadline that passed meanwhile, without the
     * gate.
     */
    public boolean degraded() {
        return degraded;
    }
}
