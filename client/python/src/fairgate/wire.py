"""Between this package's values and the contract's messages."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from fairgate.durations import from_proto, seconds, to_proto
from fairgate.errors import (
    BadRequest,
    Deferred,
    FieldViolation,
    GateClosed,
    GateError,
    Rejected,
    UnknownTarget,
)
from fairgate.options import Question
from fairgate.v1 import admission_pb2 as pb
from fairgate.values import CallOutcome, Limit, RejectReason, ReleaseReport, ReleaseResult, Settlement

ERROR_DOMAIN = "fairgate.io"
_DETAILS_KEY = "grpc-status-details-bin"
# Statuses that the channel, or something between here and the gate, makes up when the gate does not answer.
_NO_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
_LAYERS = {pb.LAYER_TARGET: "target", pb.LAYER_CLASS: "class", pb.LAYER_TENANT: "tenant"}
_ERRORS: dict[str, type[GateError]] = {
    "INVALID_ARGUMENT": BadRequest,
    "NOT_FOUND": UnknownTarget,
    "UNAVAILABLE": GateClosed,
}


@dataclasses.dataclass(frozen=True)
class Granted:
    """A permission: a lease, or, failed open, none that is known of."""

    request_id: str
    attempt: int
    debited: Mapping[str, float] = dataclasses.field(default_factory=dict)
    lease_expires_in: timedelta = timedelta(0)
    repeated: bool = False
    degraded: bool = False
    failed_open: bool = False
    maybe_leased: bool = False
    """Failed open without knowing whether the gate decided: it may hold a lease nevertheless."""
    config_version: int = 0


def admit_request(question: Question) -> pb.AdmitRequest:
    """The question as of now; makes the request_id where there is none."""
    request = pb.AdmitRequest(
        target=question.target,
        tenant=question.tenant,
        priority=question.priority,
        cost={name: float(amount) for name, amount in question.cost.items()},
        cost_kind=pb.COST_KIND_UPPER_BOUND if question.upper_bound else pb.COST_KIND_ESTIMATE,
        request_id=question.request_id or uuid.uuid4().hex,
        attempt=question.attempt,
        mode=pb.ADMIT_MODE_CHECK_ONLY if question.check_only else pb.ADMIT_MODE_NORMAL,
    )
    if question.due_at is not None:
        request.deadline.CopyFrom(to_proto(question.due_at - time.monotonic()))
    if seconds(question.timer_floor):
        request.timer_floor.CopyFrom(to_proto(question.timer_floor))
    if seconds(question.max_hold):
        request.max_hold.CopyFrom(to_proto(question.max_hold))
    return request


def admit_outcome(response: pb.AdmitResponse) -> Granted | Deferred | Rejected:
    """GateError: an answer without an outcome."""
    who: dict[str, Any] = {
        "request_id": response.request_id,
        "attempt": response.attempt,
        "degraded": response.degraded,
    }
    match response.WhichOneof("outcome"):
        case "grant":
            return Granted(
                **who,
                debited=dict(response.grant.debited),
                lease_expires_in=from_proto(response.grant.lease_expires_in),
                repeated=response.grant.repeated,
                config_version=response.config_version,
            )
        case "defer":
            defer = response.defer
            return Deferred(
                **who,
                delay=from_proto(defer.retry_delay),
                projected_wait=from_proto(defer.projected_wait),
                place=defer.place,
                limited_by=tuple(Limit(_LAYERS.get(limit.layer, ""), limit.dimension) for limit in defer.limited_by),
            )
        case "reject":
            reject = response.reject
            return Rejected(
                **who,
                reason=RejectReason(_short(pb.RejectReason.Name, reject.reason, "REJECT_REASON_")),
                message=reject.message,
                dimension=reject.dimension,
                earliest=from_proto(reject.earliest) if reject.HasField("earliest") else None,
            )
        case _:
            raise GateError("INTERNAL", "the gate answered without an outcome")


def settle_request(target: str, request_id: str, attempt: int, settlement: Settlement) -> pb.ReleaseRequest:
    """A release that ends a lease."""
    actual = {name: float(amount) for name, amount in settlement.actual.items()}
    settle = pb.Settle(outcome=f"CALL_OUTCOME_{settlement.outcome.value}", actual=actual)
    if settlement.outcome is CallOutcome.RATE_LIMITED and settlement.retry_after is not None:
        settle.retry_after.CopyFrom(to_proto(settlement.retry_after))
    for name, status in settlement.rate_limits.items():
        told = settle.rate_limits[name]
        if status.remaining is not None:
            told.remaining = status.remaining
        if status.reset is not None:
            told.reset.CopyFrom(to_proto(status.reset))
    return pb.ReleaseRequest(target=target, request_id=request_id, attempt=attempt, settle=settle)


def release_report(response: pb.ReleaseResponse) -> ReleaseReport:
    """The answer to any release."""
    return ReleaseReport(
        result=ReleaseResult(_short(pb.ReleaseResult.Name, response.result, "RELEASE_RESULT_")),
        refunded=dict(response.refunded),
        degraded=response.degraded,
        lease_expires_in=from_proto(response.lease_expires_in) if response.HasField("lease_expires_in") else None,
    )


def _short(name_of: Any, number: int, prefix: str) -> str:
    try:
        return str(name_of(number)).removeprefix(prefix)
    except ValueError:
        return "UNSPECIFIED"  # a newer gate's


def no_answer(error: grpc.RpcError) -> bool:
    """Whether the gate could not be asked, as against refused.

    The gate itself says UNAVAILABLE where a policy is to stay closed, with an ErrorInfo of its own domain. Without that
    mark the status comes from this side's channel, from a proxy, or from a gate that is going down.
    """
    return timed_out(error) or (_call(error).code() in _NO_ANSWER and not _said_by_gate(_details(error)))


def timed_out(error: grpc.RpcError) -> bool:
    """Whether nothing came in time."""
    return _call(error).code() is grpc.StatusCode.DEADLINE_EXCEEDED


def maybe_decided(error: grpc.RpcError) -> bool:
    """After no_answer: whether the question may have reached the gate nevertheless."""
    return timed_out(error) or "failed to connect" not in (_call(error).details() or "")


def to_error(error: grpc.RpcError) -> GateError:
    """The gate's refusal as an exception."""
    call = _call(error)
    code = call.code().name
    fields: list[FieldViolation] = []
    for detail in _details(error).details:
        bad_request = error_details_pb2.BadRequest()
        if detail.Unpack(bad_request):
            fields += [FieldViolation(entry.field, entry.description) for entry in bad_request.field_violations]
    return _ERRORS.get(code, GateError)(code, call.details() or "", tuple(fields))


def _call(error: grpc.RpcError) -> Any:
    return error  # gRPC raises objects that are also calls, which its types do not say


def _details(error: grpc.RpcError) -> Any:
    status = status_pb2.Status()
    for entry in _call(error).trailing_metadata() or ():
        key, value = entry
        if key == _DETAILS_KEY:
            try:
                status.ParseFromString(value)
            except ValueError:
                status.Clear()
    return status


def _said_by_gate(status: Any) -> bool:
    info = error_details_pb2.ErrorInfo()
    return any(detail.Unpack(info) and info.domain == ERROR_DOMAIN for detail in status.details)
