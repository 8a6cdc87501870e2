package io.fairgate.client;

/** Why waiting would not help. */
public enum RejectReason {
    /** A reason of a newer gate. */
    UNSPECIFIED,
    /** The cost is above what the dimension's cap can ever hold. */
    COST_EXCEEDS_CAP,
    /** A touched dimension has cap 0. */
    TARGET_DISABLED,
    /** The projected wait passes the deadline, or the deadline passed. */
    DEADLINE_UNREACHABLE,
    /** This attempt was settled before; nothing was debited now. */
    ALREADY_SETTLED,
    /** A later attempt of this request id has been seen. */
    SUPERSEDED,
    /** The policy lists all tenants, and this one is not among them. */
    TENANT_NOT_LISTED
}
