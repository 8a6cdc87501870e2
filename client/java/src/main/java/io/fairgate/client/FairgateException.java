package io.fairgate.client;

/** Everything that this package throws for the gate: {@link NotAdmitted}, {@link GateException}. */
public abstract sealed class FairgateException extends RuntimeException
        permits NotAdmitted, GateException {
    FairgateException(String message) {
        super(message);
    }

    FairgateException(String message, boolean withStackTrace) {
        super(message, null, withStackTrace, withStackTrace);
    }
}
