"""Restate: who is deferred ends its step, and the handler sleeps on a durable timer until its turn.

    gate = RestateGate(fairgate.AsyncGate("127.0.0.1:50051"))

    @chat.handler()
    async def complete(ctx: restate.Context, prompt: str) -> str:
        async def send(call: fairgate.AsyncCall) -> str:
            …
        return await gate.run(ctx, "complete", send, target="openai", tenant="acme", tokens=900)

`run` is `ctx.run` with the gate's permission: `send` is a step whose result goes to the journal. While the handler
sleeps it is suspended, so its slot is free; Restate suspends after the service's inactivity_timeout.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import weakref
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Generic, TypeVar

from restate import Context, RunOptions, TerminalError
from restate.serde import DefaultSerde, Serde

from fairgate.aio import AsyncCall, AsyncGate
from fairgate.durable import Deferral, Done, Rejection, StepQuestion, Steps
from fairgate.durations import Duration, seconds
from fairgate.errors import FairgateError
from fairgate.values import RejectReason

T = TypeVar("T")
LOG = logging.getLogger("fairgate")
_INITIAL_RETRY_INTERVAL = timedelta(milliseconds=50)  # RunOptions' defaults
_MAX_RETRY_INTERVAL = timedelta(seconds=10)
_RETRY_INTERVAL_FACTOR = 2.0
# By invocation, of whichever RestateGate. A replay makes the context anew and counts again from the start.
_calls_of: weakref.WeakKeyDictionary[Context, int] = weakref.WeakKeyDictionary()


class Rejected(TerminalError):
    """Waiting would not help. Terminal, so that an invocation that does not catch it fails without a retry."""

    def __init__(self, reason: RejectReason, message: str) -> None:
        super().__init__(f"{reason.value}: {message}", status_code=422)
        self.reason = reason


class RestateGate:
    """Runs steps with the gate's permission; make one per worker and keep it."""

    def __init__(self, gate: AsyncGate, *, timer_floor: Duration = 0.0, max_hold: Duration = 0.0) -> None:
        """How steps ask.

        timer_floor: the shortest sleep that is worth its suspension; the durable timer itself has no floor.
        max_hold: a question may be held by the gate that long instead of being deferred. It keeps the slot meanwhile,
            and spares the journal the two entries of a deferral.
        """
        self._steps = Steps(gate)
        self._timer_floor = timer_floor
        self._max_hold = max_hold

    async def run(
        self,
        ctx: Context,
        name: str,
        action: Callable[[AsyncCall], Awaitable[T]],
        *,
        target: str,
        tenant: str,
        priority: str = "",
        request_id: str = "",
        deadline: Duration | None = None,
        upper_bound: bool = False,
        tells_sent: bool = False,
        options: RunOptions[T] | None = None,
        cost: Mapping[str, float] | None = None,
        **amounts: float,
    ) -> T:
        """Does `action` as the step `name` when the gate lets it go; its result.

        What is not named here is as in AsyncGate.admit.

        request_id: the invocation's id and the number of the call in it, unless given.
        deadline: from now on, sleeps and retries included.
        options: as of ctx.run_typed. max_attempts counts sends, over all deferrals; max_duration counts from the last
            one.

        Raises Rejected, and TerminalError as ctx.run_typed does.
        """
        question = StepQuestion(
            target=target,
            tenant=tenant,
            priority=priority,
            cost={**(cost or {}), **amounts},
            request_id=request_id or _next_request_id(ctx),
            upper_bound=upper_bound,
            tells_sent=tells_sent,
            timer_floor=self._timer_floor,
            max_hold=self._max_hold,
            due_at=None if deadline is None else await _in_future(ctx, deadline),
        )
        options = options or RunOptions()
        serde = _OutcomeSerde(_serde_of(options, action))
        attempt = 1
        while True:

            async def step(attempt: int = attempt) -> Done[T] | Deferral | Rejection:
                return await self._steps.do(question, attempt, action)

            outcome: Done[T] | Deferral | Rejection
            outcome = await ctx.run_typed(name, step, _rest_of(options, attempt - 1, serde))
            if isinstance(outcome, Done):
                return outcome.result
            if isinstance(outcome, Rejection):
                raise Rejected(RejectReason(outcome.reason), outcome.message)
            attempt = outcome.attempt
            await self._sleep(ctx, name, question, outcome)

    async def _sleep(self, ctx: Context, name: str, question: StepQuestion, deferral: Deferral) -> None:
        try:
            await ctx.sleep(timedelta(milliseconds=deferral.delay_ms), f"{name}: deferred")
        except TerminalError:  # the invocation was cancelled
            try:
                await self._steps.withdraw(question, deferral.attempt)
            except FairgateError as error:
                LOG.debug("withdrawal of %s: %s", question.request_id, error)  # the place is lost after a grace period
            raise


class _OutcomeSerde(Serde[Done[T] | Deferral | Rejection], Generic[T]):
    """A line of JSON, which holds what is no result, and the result as its own serde writes it."""

    def __init__(self, results: Serde[T]) -> None:
        self._results = results

    def serialize(self, obj: Done[T] | Deferral | Rejection | None) -> bytes:
        match obj:
            case Done(result):
                return b"{}\n" + self._results.serialize(result)
            case Deferral():
                return json.dumps({"deferral": dataclasses.asdict(obj)}).encode() + b"\n"
            case Rejection():
                return json.dumps({"rejection": dataclasses.asdict(obj)}).encode() + b"\n"
            case None:
                raise TypeError("a step has an outcome")

    def deserialize(self, buf: bytes) -> Done[T] | Deferral | Rejection | None:
        head, _, result = buf.partition(b"\n")
        match json.loads(head):
            case {"deferral": fields}:
                return Deferral(**fields)
            case {"rejection": fields}:
                return Rejection(**fields)
            case _:
                return Done(self._results.deserialize(result))  # type: ignore[arg-type]  # None is a result, too


def _serde_of(options: RunOptions[T], action: Callable[[AsyncCall], Awaitable[T]]) -> Serde[T]:
    """As ctx.run_typed finds it for `action`."""
    if not isinstance(options.serde, DefaultSerde):
        return options.serde
    type_hint = options.type_hint or inspect.signature(action, eval_str=True).return_annotation
    return options.serde.with_maybe_type(type_hint)


def _rest_of(options: RunOptions[Any], failures: int, serde: Serde[Any]) -> RunOptions[Any]:
    """What is left of the retry policy: Restate counts a step's attempts from its last entry in the journal."""
    rest = dataclasses.replace(options, serde=serde, type_hint=None)
    if failures == 0:
        return rest
    if options.max_attempts is not None:
        rest.max_attempts = max(options.max_attempts - failures, 1)
    if options.initial_retry_interval is not None or options.max_attempts is not None:
        factor = options.retry_interval_factor or _RETRY_INTERVAL_FACTOR
        longest = options.max_retry_interval or _MAX_RETRY_INTERVAL
        interval = options.initial_retry_interval or _INITIAL_RETRY_INTERVAL
        for _ in range(min(failures, 64)):
            interval = min(interval * factor, longest)
        rest.initial_retry_interval = interval
    return rest


async def _in_future(ctx: Context, delay: Duration) -> datetime:
    return datetime.fromtimestamp(await ctx.time() + seconds(delay), timezone.utc)


def _next_request_id(ctx: Context) -> str:
    number = _calls_of.get(ctx, 0) + 1
    _calls_of[ctx] = number
    return f"{ctx.request().id}/{number}"
