package io.fairgate.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import io.fairgate.client.GateException.FieldViolation;
import io.fairgate.v1.AdmitMode;
import io.fairgate.v1.AdmitRequest;
import io.fairgate.v1.AdmitResponse;
import io.fairgate.v1.CostKind;
import io.fairgate.v1.Defer;
import io.fairgate.v1.Extend;
import io.fairgate.v1.Grant;
import io.fairgate.v1.Layer;
import io.fairgate.v1.Reject;
import io.fairgate.v1.ReleaseRequest;
import io.fairgate.v1.ReleaseResponse;
import io.fairgate.v1.Settle;
import io.fairgate.v1.Withdraw;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;

/** The contract's messages from and to this package's values. */
final class Wire {
    // Marks what the gate itself says, as against the channel or a proxy.
    private static final String ERROR_DOMAIN = "fairgate.io";

    private Wire() {}

    /** The permission, as it was given. */
    record Granted(
            String requestId,
            int attempt,
            Map<String, Double> debited,
            Duration leaseExpiresIn,
            boolean repeated,
            boolean degraded,
            boolean failedOpen,
            long configVersion) {
        /** The client's own: the gate could not be asked. */
        static Granted failedOpen(String requestId, int attempt) {
            return new Granted(requestId, attempt, Map.of(), Duration.ZERO, false, true, true, 0);
        }
    }

    /** The question as of now, but for its deadline. */
    static AdmitRequest.Builder admitRequest(Question question) {
        AdmitRequest.Builder asked =
                AdmitRequest.newBuilder()
                        .setTarget(question.target())
                        .setTenant(question.tenant())
                        .setPriority(question.priority())
                        .putAllCost(question.cost())
                        .setCostKind(
                                question.upperBound()
                                        ? CostKind.COST_KIND_UPPER_BOUND
                                        : CostKind.COST_KIND_ESTIMATE)
                        .setRequestId(
                                question.requestId().isEmpty()
                                        ? newRequestId()
                                        : question.requestId())
                        .setAttempt(Math.max(question.attempt(), 1))
                        .setMode(
                                question.checkOnly()
                                        ? AdmitMode.ADMIT_MODE_CHECK_ONLY
                                        : AdmitMode.ADMIT_MODE_NORMAL);
        if (!question.timerFloor().isZero()) {
            asked.setTimerFloor(toProto(question.timerFloor()));
        }
        if (!question.maxHold().isZero()) {
            asked.setMaxHold(toProto(question.maxHold()));
        }
        return asked;
    }

    private static String newRequestId() {
        return UUID.randomUUID().toString().replace("-", "");
    }

    /** {@link Granted}, or Deferred, or Rejected; throws an answer without an outcome. */
    static Object admitOutcome(AdmitResponse response) {
        return switch (response.getOutcomeCase()) {
            case GRANT -> granted(response, response.getGrant());
            case DEFER -> deferred(response, response.getDefer());
            case REJECT -> rejected(response, response.getReject());
            case OUTCOME_NOT_SET ->
                    throw new GateException(
                            Status.Code.INTERNAL, "the gate answered without an outcome");
        };
    }

    private static Granted granted(AdmitResponse response, Grant grant) {
        return new Granted(
                response.getRequestId(),
                response.getAttempt(),
                Map.copyOf(grant.getDebitedMap()),
                fromProto(grant.getLeaseExpiresIn()),
                grant.getRepeated(),
                response.getDegraded(),
                false,
                response.getConfigVersion());
    }

    private static Deferred deferred(AdmitResponse response, Defer told) {
        List<Limit> limits =
                told.getLimitedByList().stream()
                        .map(limit -> new Limit(layer(limit.getLayer()), limit.getDimension()))
                        .toList();
        return new Deferred(
                response.getRequestId(),
                response.getAttempt(),
                response.getDegraded(),
                fromProto(told.getRetryDelay()),
                fromProto(told.getProjectedWait()),
                told.getPlace(),
                limits);
    }

    private static String layer(Layer layer) {
        return switch (layer) {
            case LAYER_TARGET -> "target";
            case LAYER_CLASS -> "class";
            case LAYER_TENANT -> "tenant";
            case LAYER_UNSPECIFIED, UNRECOGNIZED -> "";
        };
    }

    private static Rejected rejected(AdmitResponse response, Reject told) {
        return new Rejected(
                response.getRequestId(),
                response.getAttempt(),
                response.getDegraded(),
                Values.numbered(RejectReason.values(), told.getReasonValue()),
                told.getMessage(),
                told.getDimension(),
                told.hasEarliest() ? fromProto(told.getEarliest()) : null);
    }

    private static ReleaseRequest.Builder release(String target, String requestId, int attempt) {
        return ReleaseRequest.newBuilder()
                .setTarget(target)
                .setRequestId(requestId)
                .setAttempt(Math.max(attempt, 1));
    }

    static ReleaseRequest settle(
            String target, String requestId, int attempt, Settlement settlement) {
        Settle.Builder settle =
                Settle.newBuilder()
                        .setOutcomeValue(settlement.outcome().ordinal())
                        .putAllActual(settlement.actual());
        if (settlement.outcome() == CallOutcome.RATE_LIMITED) {
            settlement.retryAfter().ifPresent(wait -> settle.setRetryAfter(toProto(wait)));
        }
        settlement.rateLimits().forEach((name, told) -> settle.putRateLimits(name, status(told)));
        return release(target, requestId, attempt).setSettle(settle).build();
    }

    private static io.fairgate.v1.RateLimitStatus status(RateLimitStatus told) {
        io.fairgate.v1.RateLimitStatus.Builder status = io.fairgate.v1.RateLimitStatus.newBuilder();
        told.remaining().ifPresent(status::setRemaining);
        told.reset().ifPresent(reset -> status.setReset(toProto(reset)));
        return status.build();
    }

    static ReleaseRequest withdraw(String target, String requestId, int attempt) {
        return release(target, requestId, attempt)
                .setWithdraw(Withdraw.getDefaultInstance())
                .build();
    }

    /** ttl: zero: the target's. */
    static ReleaseRequest extend(
            String target,
            String requestId,
            int attempt,
            Duration ttl,
            Map<String, Double> usedSoFar) {
        Extend.Builder extend = Extend.newBuilder().putAllUsedSoFar(usedSoFar);
        if (!ttl.isZero()) {
            extend.setLeaseTtl(toProto(ttl));
        }
        return release(target, requestId, attempt).setExtend(extend).build();
    }

    static ReleaseReport releaseReport(ReleaseResponse response) {
        return new ReleaseReport(
                Values.numbered(ReleaseResult.values(), response.getResultValue()),
                Map.copyOf(response.getRefundedMap()),
                response.getDegraded(),
                fromProto(response.getLeaseExpiresIn()));
    }

    /** What a release says, as metrics name it. */
    static String saidBy(ReleaseRequest request) {
        return switch (request.getActionCase()) {
            case SETTLE ->
                    Values.numbered(CallOutcome.values(), request.getSettle().getOutcomeValue())
                            .name();
            default -> request.getActionCase().name().toUpperCase(Locale.ROOT);
        };
    }

    /**
     * Whether the gate could not be asked, as against refused. The gate itself says UNAVAILABLE
     * where a policy is to stay closed, with an ErrorInfo of its own domain. Without that mark the
     * status comes from this side's channel, from a proxy, or from a gate that is going down.
     */
    static boolean isNoAnswer(Status status, Throwable error) {
        return switch (status.getCode()) {
            case DEADLINE_EXCEEDED -> true;
            case UNAVAILABLE, CANCELLED ->
                    details(error, ErrorInfo.class).stream()
                            .noneMatch(info -> info.getDomain().equals(ERROR_DOMAIN));
            default -> false;
        };
    }

    /** The gate's. */
    static GateException refusal(Status status, Throwable error) {
        String message = status.getDescription() == null ? "" : status.getDescription();
        return switch (status.getCode()) {
            case INVALID_ARGUMENT -> new GateException.BadRequest(message, violations(error));
            case NOT_FOUND -> new GateException.UnknownTarget(message);
            case UNAVAILABLE -> new GateException.PolicyClosed(message);
            default -> new GateException(status.getCode(), message, violations(error));
        };
    }

    private static List<FieldViolation> violations(Throwable error) {
        return details(error, BadRequest.class).stream()
                .flatMap(bad -> bad.getFieldViolationsList().stream())
                .map(field -> new FieldViolation(field.getField(), field.getDescription()))
                .toList();
    }

    private static <M extends Message> List<M> details(Throwable error, Class<M> type) {
        com.google.rpc.Status told = StatusProto.fromThrowable(error);
        List<M> found = new ArrayList<>();
        for (Any detail : told == null ? List.<Any>of() : told.getDetailsList()) {
            if (detail.is(type)) {
                try {
                    found.add(detail.unpack(type));
                } catch (InvalidProtocolBufferException malformed) {
                    continue; // as good as not there
                }
            }
        }
        return found;
    }

    static com.google.protobuf.Duration toProto(Duration duration) {
        return com.google.protobuf.Duration.newBuilder()
                .setSeconds(duration.toSeconds())
                .setNanos(duration.toNanosPart())
                .build();
    }

    private static Duration fromProto(com.google.protobuf.Duration duration) {
        return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
    }
}
