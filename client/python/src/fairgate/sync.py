"""The blocking surface."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any

import grpc

from fairgate.call import CallBase, withdraw_request
from fairgate.core import LOG, Core, Exchange
from fairgate.durations import Duration, seconds, work_deadline
from fairgate.errors import Deferred, FairgateError, Rejected
from fairgate.options import DEFAULT_ADDRESS, GateOptions, Question
from fairgate.v1 import admission_pb2 as pb
from fairgate.v1 import admission_pb2_grpc as pb_grpc
from fairgate.values import Counters, ReleaseReport


class Gate:
    """A connection to a gate; make one and keep it. Thread-safe; a forked process gets a channel of its own."""

    def __init__(self, address: str = DEFAULT_ADDRESS, options: GateOptions | None = None) -> None:
        """`address` as gRPC names it: "host:port", "dns:///name:port" or "unix:/path"."""
        self._address = address
        self._core = Core(options or GateOptions())
        self._lock = threading.Lock()
        self._pid = 0
        self._channel: grpc.Channel | None = None
        self._stub: Any = None
        self._background: set[threading.Thread] = set()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits for the releases that are on their way, then closes the channel."""
        with self._lock:
            background, self._background = self._background, set()
            channel, self._channel, self._stub = self._channel, None, None
        for thread in background:
            thread.join()
        if channel is not None and self._pid == os.getpid():
            channel.close()

    @property
    def counters(self) -> Counters:
        """Answers so far."""
        return self._core.counters

    def admit(
        self,
        *,
        target: str,
        tenant: str,
        priority: str = "",
        request_id: str = "",
        attempt: int = 1,
        deadline: Duration | None = None,
        timer_floor: Duration = 0.0,
        max_hold: Duration = 0.0,
        max_wait: Duration = 0.0,
        upper_bound: bool = False,
        check_only: bool = False,
        tells_sent: bool = False,
        cost: Mapping[str, float] | None = None,
        **amounts: float,
    ) -> Admission:
        """As AsyncGate.admit, with `with`; max_wait sleeps in the calling thread."""
        question = Question(
            target=target,
            tenant=tenant,
            priority=priority,
            cost={**(cost or {}), **amounts},
            upper_bound=upper_bound,
            request_id=request_id,
            attempt=attempt,
            due_at=work_deadline(deadline),
            timer_floor=timer_floor,
            max_hold=max_hold,
            check_only=check_only,
            tells_sent=tells_sent,
            max_wait=max_wait,
        )
        return Admission(self, question)

    def withdraw(self, *, target: str, request_id: str, attempt: int = 1) -> ReleaseReport:
        """Gives up the place in line of a deferred question. GateError: it could not be told."""
        return self._release(withdraw_request(target, request_id, attempt))

    # For Admission and Call

    def _ask(self, question: Question) -> Call | Deferred | Rejected:
        exchange, method = self._core.ask(question), self._open().Admit
        try:
            self._run(exchange, method)
        except BaseException:
            # An interrupt: nobody is going to send.
            if not question.check_only:
                self._release_later(withdraw_request(question.target, exchange.request.request_id, question.attempt))
            raise
        outcome = self._core.conclude(question, exchange)
        if isinstance(outcome, Deferred):
            return outcome
        if isinstance(outcome, Rejected):
            if exchange.maybe_decided and not question.check_only:
                self._release_later(withdraw_request(question.target, outcome.request_id, outcome.attempt))
            return outcome
        return Call(self, question, outcome)

    def _release_later(self, request: pb.ReleaseRequest) -> None:
        """In a thread that nobody waits for but close()."""
        work = (request, self._open().Release)
        thread = threading.Thread(target=self._quietly, args=work, name="fairgate release", daemon=True)
        with self._lock:
            try:
                thread.start()
            except RuntimeError as error:  # no more threads, or the interpreter ends
                LOG.debug("release of %s: %s", request.request_id, error)
            else:
                self._background.add(thread)

    def _quietly(self, request: pb.ReleaseRequest, method: Any) -> None:
        exchange = self._core.release(request)
        try:
            self._run(exchange, method)
            self._core.conclude_release(exchange, maybe_leased=True)
        except (FairgateError, ValueError) as error:  # ValueError: the channel was closed meanwhile
            LOG.debug("release of %s: %s", request.request_id, error)
        finally:
            with self._lock:
                self._background.discard(threading.current_thread())

    def _release(self, request: pb.ReleaseRequest, *, maybe_leased: bool = False) -> ReleaseReport:
        exchange = self._core.release(request)
        self._run(exchange, self._open().Release)
        return self._core.conclude_release(exchange, maybe_leased=maybe_leased)

    def _run(self, exchange: Exchange[Any, Any], method: Any) -> None:
        while exchange.wants_try():
            if pause_s := exchange.pause_s():
                time.sleep(pause_s)
            try:
                response = method(
                    exchange.request, timeout=exchange.time_left_s(), metadata=self._core.options.metadata
                )
            except grpc.RpcError as error:
                exchange.failed(error)
            else:
                exchange.answered(response)

    def _open(self) -> Any:
        with self._lock:
            if self._stub is None or self._pid != os.getpid():
                options = self._core.channel_options()
                credentials = self._core.options.credentials
                if credentials is None:
                    self._channel = grpc.insecure_channel(self._address, options=options)
                else:
                    self._channel = grpc.secure_channel(self._address, credentials, options=options)
                self._stub = pb_grpc.AdmissionServiceStub(self._channel)  # type: ignore[no-untyped-call]
                self._pid, self._background = os.getpid(), set()
            return self._stub


class Admission:
    """A question to a Gate. Enter it, or ask for its outcome; once."""

    def __init__(self, gate: Gate, question: Question) -> None:
        self._gate = gate
        self._question = question
        self._call: Call | None = None

    def outcome(self) -> Call | Deferred | Rejected:
        """The answer as a value. A call that is not entered (`with call`) is ended by its release()."""
        question, began = self._question, time.monotonic()
        while True:
            answer = self._gate._ask(question)
            max_wait_s = seconds(question.max_wait)
            if not isinstance(answer, Deferred) or max_wait_s <= 0 or question.check_only:
                return answer
            question = dataclasses.replace(question, request_id=answer.request_id)  # keeps the place
            request = withdraw_request(question.target, answer.request_id, answer.attempt)
            if time.monotonic() - began + answer.delay.total_seconds() > max_wait_s:
                # Somebody behind may go instead; a lost withdrawal only costs the gate a grace period.
                self._gate._release_later(request)
                return answer
            try:
                time.sleep(answer.delay.total_seconds())
            except BaseException:
                self._gate._release_later(request)
                raise

    def __enter__(self) -> Call:
        answer = self.outcome()
        if not isinstance(answer, Call):
            raise answer
        self._call = answer
        return answer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._call is not None:
            self._call.__exit__(kind, error, trace)


class Call(CallBase):
    """A permission to call, from a Gate. As a block it is settled when the block is left."""

    def __init__(self, gate: Gate, question: Question, granted: Any) -> None:
        super().__init__(gate._core, question, granted)
        self._gate = gate

    def release(self) -> ReleaseReport | None:
        """Ends the lease as settle() said. None: nothing to end. GateError: refused, or not told."""
        request = self._take_settlement(None)
        if request is None:
            return None
        self._report = self._gate._release(request, maybe_leased=self._granted.maybe_leased)
        return self._report

    def extend(self, lease_ttl: Duration | None = None, used_so_far: Mapping[str, float] | None = None) -> timedelta:
        """Keeps the lease alive for lease_ttl from now (None: the target's), for long streams. Its new life.

        GateError: FAILED_PRECONDITION when there is no open lease (any more), or the gate could not be told.
        """
        self._extended(self._gate._release(self._extend_request(lease_ttl, used_so_far)))
        return self.lease_expires_in

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        request = self._take_settlement(error)
        if request is None:
            return
        if self._granted.maybe_leased:
            self._gate._release_later(request)
            return
        # The work is done: an error here must not make anybody do it again.
        try:
            self._report = self._gate._release(request)
        except FairgateError as failure:
            LOG.warning("settlement of %s: %s", self.request_id, failure)
