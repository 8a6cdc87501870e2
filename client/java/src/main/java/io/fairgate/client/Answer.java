package io.fairgate.client;

/** What the gate says to a question, as a value: see {@link Gate#tryAdmit}. */
public sealed interface Answer permits Call, Deferred, Rejected {
    /** The question's id, or the one that was made. */
    String requestId();

    /** At least 1. One attempt is one HTTP send: whoever sends again asks with the next number. */
    int attempt();

    /** Given without the store (by the gate), or without the gate. */
    boolean degraded();
}
