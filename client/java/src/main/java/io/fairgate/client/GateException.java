package io.fairgate.client;

import io.grpc.Status;
import java.util.List;

/** The gate answered with a status, or could not be reached. Never an answer to wait for. */
public sealed class GateException extends FairgateException {
    private final Status.Code code;
    private final transient List<FieldViolation> fields;

    GateException(Status.Code code, String message) {
        this(code, message, List.of());
    }

    GateException(Status.Code code, String message, List<FieldViolation> fields) {
        super(code + ": " + message);
        this.code = code;
        this.fields = fields;
    }

    /** gRPC's. */
    public Status.Code code() {
        return code;
    }

    /** The bad fields, where the gate names them. */
    public List<FieldViolation> fields() {
        return fields == null ? List.of() : fields;
    }

    /**
     * One bad field of a request.
     *
     * @param field its path
     * @param description what is wrong with it
     */
    public record FieldViolation(String field, String description) {}

    /** {@code INVALID_ARGUMENT}: see {@link #fields}. Nothing changed. */
    public static final class BadRequest extends GateException {
        BadRequest(String message, List<FieldViolation> fields) {
            super(Status.Code.INVALID_ARGUMENT, message, fields);
        }
    }

    /** {@code NOT_FOUND}. */
    public static final class UnknownTarget extends GateException {
        UnknownTarget(String message) {
            super(Status.Code.NOT_FOUND, message);
        }
    }

    /** The gate's store is away, and the target's policy is to stay closed: said by the gate. */
    public static final class PolicyClosed extends GateException {
        PolicyClosed(String message) {
            super(Status.Code.UNAVAILABLE, message);
        }
    }

    /** The gate could not be asked: with {@code failOpen(false)}, and of releases. */
    public static final class Unreachable extends GateException {
        Unreachable() {
            super(Status.Code.UNAVAILABLE, "the gate does not answer");
        }
    }

    /** There is no open lease (any more). */
    public static final class NoLease extends GateException {
        NoLease(String message) {
            super(Status.Code.FAILED_PRECONDITION, message);
        }
    }
}
