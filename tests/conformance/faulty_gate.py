"""A gate whose answers a case writes down, and which remembers what it was asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import staging  # noqa: F401 - makes the stubs
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2

from fairgate.v1 import admission_pb2 as pb
from fairgate.v1 import admission_pb2_grpc as pb_grpc

_HEALTH_NOT_SERVING = b"\x08\x02"  # grpc.health.v1.HealthCheckResponse


class FaultyGate(pb_grpc.AdmissionServiceServicer):
    """Answers of a case, in turn; after the last of them Admit grants and Release settles.

    An answer is the JSON form of the contract's response, with keys of its own beside it:
      delay_ms   wait before answering
      lost       decide (that is, remember the question), then cut the connection instead of answering
      status     a code instead of an answer, with `message`, `marked` (the gate's own ErrorInfo is in the details), and
                 `fields` (a BadRequest: field to description)
    """

    def __init__(self, cut: Callable[[], None]) -> None:
        self.port = 0
        self.admits: list[dict[str, Any]] = []
        self.releases: list[dict[str, Any]] = []
        self._cut = cut
        self._answers: dict[str, list[dict[str, Any]]] = {"admit": [], "release": []}
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """On a free port."""
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        pb_grpc.add_AdmissionServiceServicer_to_server(self, self._server)
        health = grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health",
            {
                "Check": grpc.unary_unary_rpc_method_handler(_not_serving),
                "Watch": grpc.unary_stream_rpc_method_handler(_watch),
            },
        )
        self._server.add_generic_rpc_handlers((health,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()

    async def stop(self) -> None:
        """At once."""
        if self._server is not None:
            await self._server.stop(None)

    def script(self, method: str, answers: list[dict[str, Any]]) -> None:
        """Adds answers of "admit" or "release"."""
        self._answers[method] += answers

    async def Admit(self, request: pb.AdmitRequest, context: Any) -> pb.AdmitResponse:
        _remember(self.admits, _admit_seen(request))
        answer = self._next("admit")
        response = await self._answer(answer, pb.AdmitResponse(), context)
        if answer is None:
            response.grant.debited.update(dict(request.cost) or {"requests": 1.0})
            response.grant.lease_expires_in.FromSeconds(60)
        response.request_id = response.request_id or request.request_id
        response.attempt = response.attempt or max(request.attempt, 1)
        response.config_version = response.config_version or 7
        return response

    async def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.ReleaseResponse:
        _remember(self.releases, _release_seen(request))
        answer = self._next("release")
        response = await self._answer(answer, pb.ReleaseResponse(), context)
        if answer is None:
            results = {"settle": pb.RELEASE_RESULT_SETTLED, "withdraw": pb.RELEASE_RESULT_WITHDRAWN}
            response.result = results.get(request.WhichOneof("action"), pb.RELEASE_RESULT_EXTENDED)
        return response

    def _next(self, method: str) -> dict[str, Any] | None:
        return self._answers[method].pop(0) if self._answers[method] else None

    async def _answer(self, answer: dict[str, Any] | None, response: Any, context: Any) -> Any:
        fields = dict(answer or {})
        await asyncio.sleep(fields.pop("delay_ms", 0) / 1000)
        if fields.pop("lost", False):
            self._cut()
            await asyncio.sleep(3600)  # until the server stops, or sees that nobody listens
        if "status" in fields:
            await _abort(context, fields)
        return json_format.ParseDict(fields, response)


async def _abort(context: Any, answer: dict[str, Any]) -> None:
    code = grpc.StatusCode[answer["status"]]
    message = answer.get("message", "as the case says")
    status = status_pb2.Status(code=code.value[0], message=message)
    if answer.get("marked"):
        status.details.add().Pack(error_details_pb2.ErrorInfo(reason="STORE_UNAVAILABLE", domain="fairgate.io"))
    if "fields" in answer:
        violations = [
            error_details_pb2.BadRequest.FieldViolation(field=field, description=text)
            for field, text in answer["fields"].items()
        ]
        status.details.add().Pack(error_details_pb2.BadRequest(field_violations=violations))
    if status.details:
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(code, message)


def _remember(among: list[dict[str, Any]], seen: dict[str, Any]) -> None:
    """With after_ms: how long after the one before it came."""
    seen["at_ms"] = time.monotonic() * 1000
    seen["after_ms"] = seen["at_ms"] - among[-1]["at_ms"] if among else 0.0
    among.append(seen)


def _admit_seen(request: pb.AdmitRequest) -> dict[str, Any]:
    seen = {name: getattr(request, name) for name in ("target", "tenant", "priority", "request_id", "attempt")}
    seen["cost"] = dict(request.cost)
    seen["cost_kind"] = pb.CostKind.Name(request.cost_kind).removeprefix("COST_KIND_")
    seen["mode"] = pb.AdmitMode.Name(request.mode).removeprefix("ADMIT_MODE_")
    for name in ("deadline", "timer_floor", "max_hold"):
        if request.HasField(name):
            seen[f"{name}_ms"] = _milliseconds(getattr(request, name))
    return seen


def _release_seen(request: pb.ReleaseRequest) -> dict[str, Any]:
    seen: dict[str, Any] = {"target": request.target, "request_id": request.request_id, "attempt": request.attempt}
    seen["action"] = request.WhichOneof("action")
    if seen["action"] == "settle":
        seen["outcome"] = pb.CallOutcome.Name(request.settle.outcome).removeprefix("CALL_OUTCOME_")
        seen["actual"] = dict(request.settle.actual)
        if request.settle.HasField("retry_after"):
            seen["retry_after_ms"] = _milliseconds(request.settle.retry_after)
        seen["rate_limits"] = {name: _status_seen(status) for name, status in request.settle.rate_limits.items()}
    elif seen["action"] == "extend":
        seen["used_so_far"] = dict(request.extend.used_so_far)
        if request.extend.HasField("lease_ttl"):
            seen["lease_ttl_ms"] = _milliseconds(request.extend.lease_ttl)
    return seen


def _status_seen(status: pb.RateLimitStatus) -> dict[str, Any]:
    return {
        "remaining": status.remaining if status.HasField("remaining") else None,
        "reset_ms": _milliseconds(status.reset) if status.HasField("reset") else None,
    }


def _milliseconds(duration: Any) -> float:
    return float(duration.ToNanoseconds() / 1e6)


async def _not_serving(_request: bytes, _context: Any) -> bytes:
    return _HEALTH_NOT_SERVING


async def _watch(_request: bytes, _context: Any) -> Any:
    yield _HEALTH_NOT_SERVING
