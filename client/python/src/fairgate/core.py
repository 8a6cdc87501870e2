"""What the async and the sync gate share: the breaker, counters, events, and every decision about an answer.

No I/O: a gate runs an Exchange's tries and tells it how each went.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import threading
import time
from typing import Generic, TypeVar

import grpc

from fairgate import wire
from fairgate.breaker import Breaker
from fairgate.durations import seconds
from fairgate.errors import Deferred, GateError, GateUnreachable, Rejected
from fairgate.events import AdmitEvent, BreakerEvent, Event, ReleaseEvent
from fairgate.options import GateOptions, Question
from fairgate.v1 import admission_pb2 as pb
from fairgate.values import Counters, RejectReason, ReleaseReport

LOG = logging.getLogger("fairgate")
# A connection that broke is worth a second try on a fresh one; both questions carry the same ids, so that the gate
# decides once.
TRIES_MAX = 2
# The channel may notice a moment later than the call that its connection is gone: until then it sends the next one into
# the same grave. At random, so that not all who lost it come back at once.
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.01, 0.02
_KEEPALIVE_TIMEOUT_MS = 5000
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class Exchange(Generic[_Request, _Response]):
    """One question or release, with its second try."""

    def __init__(self, core: Core, request: _Request, budget_s: float, *, hurried: bool = False) -> None:
        self._core = core
        self._hurried = hurried  # the caller's time is shorter than the gate's: its end says nothing about the gate
        self._timed_out = False
        self._broke = False  # the last try had a connection, and lost it
        self.request = request
        self.response: _Response | None = None
        self.error: GateError | None = None
        self.unreached = False
        self.maybe_decided = False
        self.pointless = False  # its deadline was over before it began
        self.began = time.monotonic()
        self._until = self.began + budget_s
        self._tries = 0

    def wants_try(self) -> bool:
        """Whether to send (again). Ends by telling the breaker."""
        if self.pointless or self.response is not None or self.error is not None:
            return False
        if self._tries == 0:
            self.unreached = not self._core.breaker_allows()
            return not self.unreached
        if self._timed_out or self._tries >= TRIES_MAX or self.time_left_s() <= 0:
            if not (self._timed_out and self._hurried):
                self._core.gate_failed()
            return False
        return True

    def time_left_s(self) -> float:
        """Time-out of the next try."""
        return self._until - time.monotonic()

    def pause_s(self) -> float:
        """How long to wait before the next try; leaves that at least half of the time."""
        return min(random.uniform(_PAUSE_MIN_S, _PAUSE_MAX_S), self.time_left_s() / 2) if self._broke else 0.0

    def answered(self, response: _Response) -> None:
        """The gate answered OK."""
        self.response = response
        self.unreached = False
        self._core.gate_answered()

    def failed(self, error: grpc.RpcError) -> None:
        """The try ended with a status."""
        self._tries += 1
        self.unreached = wire.no_answer(error)
        self._timed_out = wire.timed_out(error)
        if self.unreached:
            self._broke = not self._timed_out and wire.maybe_decided(error)
            self.maybe_decided |= wire.maybe_decided(error)
        else:
            self.error = wire.to_error(error)
            self._core.gate_answered()


class Core:
    """Thread-safe."""

    def __init__(self, options: GateOptions) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._breaker = Breaker(options.breaker_failures, seconds(options.breaker_cooldown))
        self._counters = Counters()

    @property
    def counters(self) -> Counters:
        """A snapshot."""
        with self._lock:
            return self._counters

    def channel_options(self) -> list[tuple[str, object]]:
        """gRPC channel arguments."""
        return [
            ("grpc.keepalive_time_ms", int(seconds(self.options.keepalive) * 1000)),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
            # The default backs off to two minutes, which would outlast the breaker by far.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 1000),
            ("grpc.max_reconnect_backoff_ms", 1000),
            *self.options.channel_options,
        ]

    # The breaker

    def breaker_allows(self) -> bool:
        """Whether to ask the gate at all."""
        with self._lock:
            if self._breaker.allows(time.monotonic()):
                return True
            self._count("breaker_skips")
            return False

    def gate_answered(self) -> None:
        """With whatever."""
        with self._lock:
            was_open = self._breaker.is_open
            self._breaker.succeeded()
        if was_open:
            LOG.warning("the gate answers again")
            self.emit(BreakerEvent(open=False))

    def gate_failed(self) -> None:
        """No answer."""
        with self._lock:
            was_open = self._breaker.is_open
            self._breaker.failed(time.monotonic())
            opened = self._breaker.is_open and not was_open
        if opened:
            LOG.warning(
                "the gate does not answer: calls go on without it"
                if self.options.fail_open
                else "the gate does not answer"
            )
            self.emit(BreakerEvent(open=True))

    # Questions

    def ask(self, question: Question) -> Exchange[pb.AdmitRequest, pb.AdmitResponse]:
        """The exchange for one question. ValueError: a bad duration."""
        budget_s = seconds(self.options.rpc_timeout) + max(seconds(question.max_hold), 0.0)
        left_s = budget_s if question.due_at is None else question.due_at - time.monotonic()
        hurried = left_s < budget_s
        budget_s = left_s if hurried else budget_s
        exchange: Exchange[pb.AdmitRequest, pb.AdmitResponse] = Exchange(
            self, wire.admit_request(question), budget_s, hurried=hurried
        )
        exchange.pointless = left_s <= 0
        return exchange

    def conclude(
        self, question: Question, exchange: Exchange[pb.AdmitRequest, pb.AdmitResponse]
    ) -> wire.Granted | Deferred | Rejected:
        """What a finished exchange means. GateError: neither an answer nor a reason to fail open."""
        duration_s = time.monotonic() - exchange.began
        try:
            outcome = self._outcome(question, exchange)
        except GateError:
            self._note(question, "error", "errors", degraded=False, duration_s=duration_s)
            raise
        if isinstance(outcome, Deferred):
            self._note(
                question,
                "deferred",
                "deferred",
                degraded=outcome.degraded,
                duration_s=duration_s,
                delay_s=outcome.delay.total_seconds(),
            )
        elif isinstance(outcome, Rejected):
            self._note(question, "rejected", "rejected", degraded=outcome.degraded, duration_s=duration_s)
        else:
            kind = "failed_open" if outcome.failed_open else "granted"
            self._note(question, kind, kind, degraded=outcome.degraded, duration_s=duration_s)
        return outcome

    def _outcome(
        self, question: Question, exchange: Exchange[pb.AdmitRequest, pb.AdmitResponse]
    ) -> wire.Granted | Deferred | Rejected:
        if exchange.response is not None:
            return wire.admit_outcome(exchange.response)
        if exchange.error is not None:
            raise exchange.error
        request_id, attempt = exchange.request.request_id, max(exchange.request.attempt, 1)
        if question.due_at is not None and question.due_at <= time.monotonic():
            # The caller's time ran out, which is no sign that the gate is away and no reason to call.
            return Rejected(
                reason=RejectReason.DEADLINE_UNREACHABLE,
                message="the deadline had passed"
                if exchange.pointless
                else "the deadline passed before the gate answered",
                dimension="",
                earliest=None,
                request_id=request_id,
                attempt=attempt,
                degraded=not exchange.pointless,
            )
        if not self.options.fail_open:
            raise GateUnreachable("UNAVAILABLE", "the gate does not answer")
        maybe = exchange.maybe_decided and not question.check_only
        return wire.Granted(request_id, attempt, degraded=True, failed_open=True, maybe_leased=maybe)

    # Releases

    def release(self, request: pb.ReleaseRequest) -> Exchange[pb.ReleaseRequest, pb.ReleaseResponse]:
        """The exchange for one release."""
        return Exchange(self, request, seconds(self.options.rpc_timeout))

    def conclude_release(
        self, exchange: Exchange[pb.ReleaseRequest, pb.ReleaseResponse], *, maybe_leased: bool = False
    ) -> ReleaseReport:
        """What a finished release means. GateError: refused; GateUnreachable: lost, the lease ends by itself."""
        request = exchange.request
        said = request.WhichOneof("action") or ""
        told = pb.CallOutcome.Name(request.settle.outcome).removeprefix("CALL_OUTCOME_") if said == "settle" else said
        if exchange.response is not None:
            report = wire.release_report(exchange.response)
            result = report.result.value
        else:
            report = None
            result = "LOST" if exchange.error is None else "ERROR"
            if not maybe_leased:
                with self._lock:
                    self._count("releases_lost")
        if report is not None or not maybe_leased:
            self.emit(ReleaseEvent(request.target, told.upper(), result, time.monotonic() - exchange.began))
        if report is not None:
            return report
        raise exchange.error or GateUnreachable("UNAVAILABLE", "the gate does not answer")

    # Counting

    def emit(self, event: Event) -> None:
        """Calls the hook."""
        if self.options.on_event is None:
            return
        try:
            self.options.on_event(event)
        except Exception:
            LOG.exception("on_event failed")

    def _note(
        self, question: Question, kind: str, counter: str, *, degraded: bool, duration_s: float, delay_s: float = 0.0
    ) -> None:
        with self._lock:
            self._count(counter)
        self.emit(AdmitEvent(question.target, question.tenant, question.priority, kind, degraded, duration_s, delay_s))  # type: ignore[arg-type]

    def _count(self, counter: str) -> None:
        self._counters = dataclasses.replace(self._counters, **{counter: getattr(self._counters, counter) + 1})
