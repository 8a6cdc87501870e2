"""The async surface."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Coroutine, Generator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from fairgate.call import CallBase, withdraw_request
from fairgate.core import LOG, Core, Exchange
from fairgate.durations import Duration, seconds, work_deadline
from fairgate.errors import Deferred, FairgateError, Rejected
from fairgate.options import DEFAULT_ADDRESS, GateOptions, Question
from fairgate.v1 import admission_pb2 as pb
from fairgate.v1 import admission_pb2_grpc as pb_grpc
from fairgate.values import Counters, ReleaseReport


class AsyncGate:
    """A connection to a gate; make one and keep it. Opens its channel with the first question of an event loop."""

    def __init__(self, address: str = DEFAULT_ADDRESS, options: GateOptions | None = None) -> None:
        """`address` as gRPC names it: "host:port", "dns:///name:port" or "unix:/path"."""
        self._address = address
        self._core = Core(options or GateOptions())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channel: grpc.aio.Channel | None = None
        self._stub: Any = None
        self._background: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> AsyncGate:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits for the releases that are on their way, then closes the channel."""
        while self._background:
            await asyncio.gather(*self._background, return_exceptions=True)
        if self._channel is not None and self._loop is asyncio.get_running_loop():
            await self._channel.close()
        self._channel = self._stub = self._loop = None

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
        """A question, asked by `async with` (which raises Deferred and Rejected) or by `.outcome()`.

        target, tenant, priority: names; an empty priority is the target's default class.
        amounts, cost: estimated use by dimension, as keywords or, for names that are none, in `cost`; "requests" is 1
            unless given.
        request_id: idempotency key, ticket and lease id at once; empty: one is made. Ask again after a Deferred with
            the same one and the same attempt.
        attempt: one per HTTP send; 1 to 1000000.
        deadline: time left until the work is useless; the earlier of this and the context's (fairgate.deadline).
        timer_floor: the shortest sleep the caller can do; no delay is shorter.
        max_hold: the gate may hold its answer that long instead of deferring.
        max_wait: sleep in the event loop and ask again instead of raising Deferred, at most so long in all; after that
            the place in line is given up. math.inf: until the answer is another one.
        upper_bound: the amounts are a reservation that the call cannot pass.
        check_only: nothing is debited, no place is kept, nothing is to be settled.
        tells_sent: the block says sent() before the request leaves; whatever ends it before is settled as not sent.
            Without it, entering the block counts as sending.

        Raises Deferred, Rejected, and GateError: BadRequest, UnknownTarget, GateClosed, GateUnreachable.
        """
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

    async def withdraw(self, *, target: str, request_id: str, attempt: int = 1) -> ReleaseReport:
        """Gives up the place in line of a deferred question. GateError: it could not be told."""
        return await self._release(withdraw_request(target, request_id, attempt))

    # For Admission and AsyncCall

    async def _ask(self, question: Question) -> AsyncCall | Deferred | Rejected:
        exchange = self._core.ask(question)
        try:
            await self._run(exchange, self._open().Admit)
        except asyncio.CancelledError:
            if not question.check_only:
                self._withdraw_later(question, exchange.request)
            raise
        outcome = self._core.conclude(question, exchange)
        if isinstance(outcome, Deferred):
            return outcome
        if isinstance(outcome, Rejected):
            if exchange.maybe_decided and not question.check_only:
                self._withdraw_later(question, exchange.request)
            return outcome
        return AsyncCall(self, question, outcome)

    def _withdraw_later(self, question: Question, request: pb.AdmitRequest) -> None:
        """Nobody is going to send: what the gate may have granted goes back."""
        self._spawn(self._quietly(withdraw_request(question.target, request.request_id, request.attempt)))

    async def _quietly(self, request: pb.ReleaseRequest) -> None:
        try:
            await self._release(request, maybe_leased=True)
        except FairgateError as error:
            LOG.debug("release of %s: %s", request.request_id, error)

    async def _release(self, request: pb.ReleaseRequest, *, maybe_leased: bool = False) -> ReleaseReport:
        exchange = self._core.release(request)
        await self._run(exchange, self._open().Release)
        return self._core.conclude_release(exchange, maybe_leased=maybe_leased)

    async def _run(self, exchange: Exchange[Any, Any], method: Any) -> None:
        while exchange.wants_try():
            if pause_s := exchange.pause_s():
                await asyncio.sleep(pause_s)
            try:
                response = await method(
                    exchange.request, timeout=exchange.time_left_s(), metadata=self._core.options.metadata
                )
            except grpc.RpcError as error:
                exchange.failed(error)
            else:
                exchange.answered(response)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def _open(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._stub is None or self._loop is not loop:
            options = self._core.channel_options()
            credentials = self._core.options.credentials
            if credentials is None:
                self._channel = grpc.aio.insecure_channel(self._address, options=options)
            else:
                self._channel = grpc.aio.secure_channel(self._address, credentials, options=options)
            self._stub = pb_grpc.AdmissionServiceStub(self._channel)  # type: ignore[no-untyped-call]
            self._loop, self._background = loop, set()
        return self._stub


class Admission:
    """A question to an AsyncGate. Enter it, or ask for its outcome; once."""

    def __init__(self, gate: AsyncGate, question: Question) -> None:
        self._gate = gate
        self._question = question
        self._call: AsyncCall | None = None

    async def outcome(self) -> AsyncCall | Deferred | Rejected:
        """The answer as a value. A call that is not entered (`async with call`) is ended by its release()."""
        question, began = self._question, time.monotonic()
        while True:
            answer = await self._gate._ask(question)
            max_wait_s = seconds(question.max_wait)
            if not isinstance(answer, Deferred) or max_wait_s <= 0 or question.check_only:
                return answer
            question = dataclasses.replace(question, request_id=answer.request_id)  # keeps the place
            request = withdraw_request(question.target, answer.request_id, answer.attempt)
            if time.monotonic() - began + answer.delay.total_seconds() > max_wait_s:
                # Somebody behind may go instead; a lost withdrawal only costs the gate a grace period.
                await self._gate._quietly(request)
                return answer
            try:
                await asyncio.sleep(answer.delay.total_seconds())
            except asyncio.CancelledError:
                self._gate._spawn(self._gate._quietly(request))
                raise

    def __await__(self) -> Generator[Any, None, AsyncCall]:
        return self._admitted().__await__()

    async def _admitted(self) -> AsyncCall:
        answer = await self.outcome()
        if isinstance(answer, AsyncCall):
            return answer
        raise answer

    async def __aenter__(self) -> AsyncCall:
        self._call = await self._admitted()
        return self._call

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._call is not None:
            await self._call.__aexit__(kind, error, trace)


class AsyncCall(CallBase):
    """A permission to call, from an AsyncGate. As a block it is settled when the block is left."""

    def __init__(self, gate: AsyncGate, question: Question, granted: Any) -> None:
        super().__init__(gate._core, question, granted)
        self._gate = gate

    async def release(self) -> ReleaseReport | None:
        """Ends the lease as settle() said. None: nothing to end. GateError: refused, or not told."""
        request = self._take_settlement(None)
        if request is None:
            return None
        self._report = await self._gate._release(request, maybe_leased=self._granted.maybe_leased)
        return self._report

    async def extend(
        self, lease_ttl: Duration | None = None, used_so_far: Mapping[str, float] | None = None
    ) -> timedelta:
        """Keeps the lease alive for lease_ttl from now (None: the target's), for long streams. Its new life.

        GateError: FAILED_PRECONDITION when there is no open lease (any more), or the gate could not be told.
        """
        self._extended(await self._gate._release(self._extend_request(lease_ttl, used_so_far)))
        return self.lease_expires_in

    async def __aenter__(self) -> AsyncCall:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        request = self._take_settlement(error)
        if request is None:
            return
        task = self._gate._spawn(self._settle(request))
        if not self._granted.maybe_leased:
            await asyncio.shield(task)  # goes on if the caller is cancelled meanwhile

    async def _settle(self, request: pb.ReleaseRequest) -> None:
        # The work is done: an error here must not make anybody do it again.
        try:
            self._report = await self._gate._release(request, maybe_leased=self._granted.maybe_leased)
        except FairgateError as error:
            if not self._granted.maybe_leased:
                LOG.warning("settlement of %s: %s", self.request_id, error)
