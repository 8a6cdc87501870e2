package io.fairgate.client;

/** How the external call ended. */
public enum CallOutcome {
    /** Not known: the estimate stays charged. */
    UNKNOWN,
    /** It succeeded. */
    OK,
    /** The provider refused (429): the charge stays, the flow's turn is given back. */
    RATE_LIMITED,
    /** The provider failed. */
    SERVER_ERROR,
    /** Nobody answered in time. */
    TIMEOUT,
    /** The request never left: everything is refunded. */
    NOT_SENT
}
