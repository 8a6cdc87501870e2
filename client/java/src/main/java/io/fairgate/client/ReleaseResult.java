package io.fairgate.client;

/** What a release did. */
public enum ReleaseResult {
    /** A result of a newer gate. */
    UNSPECIFIED,
    /** The lease is settled. */
    SETTLED,
    /** The place in line is given up. */
    WITHDRAWN,
    /** The lease lives on. */
    EXTENDED,
    /** Settled before, or superseded; nothing changed. */
    ALREADY_SETTLED,
    /** The lease had ended by itself; nothing changed. */
    EXPIRED,
    /** No such request id and attempt; nothing changed. */
    UNKNOWN,
    /** The gate keeps it until its store is back. */
    QUEUED
}
