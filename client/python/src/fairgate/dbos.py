"""DBOS: who is deferred ends its step, and the workflow sleeps durably until its turn.

    gate = DBOSGate(fairgate.AsyncGate("127.0.0.1:50051"))

    @gate.step(queue="calls")
    async def complete(call: fairgate.AsyncCall, prompt: str) -> str:
        …

    @DBOS.workflow()
    async def chat(prompt: str) -> str:
        return await complete.run(prompt, target="openai", tenant="acme", tokens=900)

DBOS counts a workflow that sleeps as one that runs: it keeps its slot in its queue. So where slots are few it is the
step alone that goes through their queue, as a child workflow which ends when it is deferred. The workflow that sleeps
is in no queue, or in one that is not limited.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Concatenate, Generic, ParamSpec, TypedDict, TypeVar, cast

from dbos import DBOS, StepOptions

from fairgate.aio import AsyncCall, AsyncGate
from fairgate.durable import Deferral, Rejection, StepQuestion, Steps
from fairgate.durations import Duration, seconds
from fairgate.errors import Rejected
from fairgate.values import RejectReason

T = TypeVar("T")
P = ParamSpec("P")
_INTERVAL_S_MAX = 3600.0


class _Question(TypedDict):
    """What stays the same; recorded as a child workflow's argument, as the rest here is."""

    target: str
    tenant: str
    priority: str
    cost: dict[str, float]
    upper_bound: bool
    tells_sent: bool


class _Progress(TypedDict):
    """What a step hands on to the one that is done in its place."""

    request_id: str
    attempt: int
    due_at: str | None
    """ISO 8601."""


class _Outcome(TypedDict, total=False):
    """Of a step: `progress`, and one of the others."""

    progress: _Progress
    result: Any
    delay_ms: int
    rejection: tuple[str, str]
    """Reason and message."""


class DBOSGate:
    """Makes steps that run with the gate's permission; make one, where workflows are registered."""

    def __init__(self, gate: AsyncGate, *, timer_floor: Duration = 0.0, max_hold: Duration = 0.0) -> None:
        """How steps ask.

        timer_floor: the shortest sleep that is worth its two writes to the database; the timer itself has no floor.
        max_hold: a question may be held by the gate that long instead of being deferred. It keeps the slot meanwhile.
        """
        self._steps = Steps(gate)
        self._timer_floor = timer_floor
        self._max_hold = max_hold

    def step(
        self,
        *,
        name: str = "",
        queue: str = "",
        polling_interval: Duration = 1.0,
        options: StepOptions | None = None,
    ) -> Callable[[Callable[Concatenate[AsyncCall, P], Awaitable[T]]], AdmittedStep[T]]:
        """Decorates a step: a coroutine function whose first argument is the call, and whose others can be recorded.

        name: of the step; the function's unless given.
        queue: name of the queue whose slots it takes; empty: none, the step is done where its workflow runs.
        polling_interval: how often to look whether it has ended in its queue.
        options: as of DBOS.run_step_async. max_attempts counts sends, over all deferrals.
        """

        def decorate(function: Callable[Concatenate[AsyncCall, P], Awaitable[T]]) -> AdmittedStep[T]:
            return AdmittedStep(
                self,
                function,
                queue=queue,
                polling_interval_s=seconds(polling_interval),
                options={**(options or {}), "name": name or function.__qualname__},
            )

        return decorate

    # For AdmittedStep

    async def _do(
        self, question: _Question, progress: _Progress, action: Callable[[AsyncCall], Awaitable[T]]
    ) -> _Outcome:
        asked = StepQuestion(
            **question,
            request_id=progress["request_id"],
            timer_floor=self._timer_floor,
            max_hold=self._max_hold,
            due_at=None if progress["due_at"] is None else datetime.fromisoformat(progress["due_at"]),
        )
        outcome = await self._steps.do(asked, progress["attempt"], action)
        if isinstance(outcome, Deferral):
            return _Outcome(progress={**progress, "attempt": outcome.attempt}, delay_ms=outcome.delay_ms)
        if isinstance(outcome, Rejection):
            return _Outcome(progress=progress, rejection=(outcome.reason, outcome.message))
        return _Outcome(progress=progress, result=outcome.result)


class AdmittedStep(Generic[T]):
    """See DBOSGate.step."""

    def __init__(
        self,
        gate: DBOSGate,
        function: Callable[..., Awaitable[T]],
        *,
        queue: str,
        polling_interval_s: float,
        options: StepOptions,
    ) -> None:
        self._gate = gate
        self._function = function
        self._queue = queue
        self._polling_interval_s = polling_interval_s
        self._options = options
        self._in_queue: Any = self._registered(f"fairgate.{options['name']}") if queue else None

    async def run(
        self,
        *args: Any,
        target: str,
        tenant: str,
        priority: str = "",
        request_id: str = "",
        deadline: Duration | None = None,
        upper_bound: bool = False,
        tells_sent: bool = False,
        cost: Mapping[str, float] | None = None,
        **amounts: float,
    ) -> T:
        """In a workflow: does the step with `args` when the gate lets it go; its result.

        What is not named here is as in AsyncGate.admit.

        request_id: the ids of the workflow and of the first step, unless given.
        deadline: from the first question on, sleeps and retries included.

        Raises Rejected, and what the step raises.
        """
        question = _Question(
            target=target,
            tenant=tenant,
            priority=priority,
            cost={**(cost or {}), **amounts},
            upper_bound=upper_bound,
            tells_sent=tells_sent,
        )
        progress = _Progress(request_id=request_id, attempt=1, due_at=None)
        left_s = None if deadline is None else seconds(deadline)
        while True:
            outcome = await self._do(question, progress, left_s, args)
            progress = outcome["progress"]
            if "rejection" in outcome:
                raise _rejected(*outcome["rejection"], progress)
            if "delay_ms" not in outcome:
                return cast(T, outcome["result"])
            await DBOS.sleep_async(outcome["delay_ms"] / 1000)

    def _registered(self, name: str) -> Any:
        @DBOS.workflow(name=name)
        async def once(
            question: _Question, progress: _Progress, left_s: float | None, args: tuple[Any, ...]
        ) -> _Outcome:
            return await self._once(question, progress, left_s, args)

        return once

    async def _do(
        self, question: _Question, progress: _Progress, left_s: float | None, args: tuple[Any, ...]
    ) -> _Outcome:
        if not self._queue:
            return await self._once(question, progress, left_s, args)
        handle = await DBOS.enqueue_workflow_async(self._queue, self._in_queue, question, progress, left_s, args)
        return cast(_Outcome, await handle.get_result(polling_interval_sec=self._polling_interval_s))

    async def _once(
        self, question: _Question, progress: _Progress, left_s: float | None, args: tuple[Any, ...]
    ) -> _Outcome:
        """A step's worth, by the workflow itself or by its child in the queue."""

        async def step() -> _Outcome:
            async def action(call: AsyncCall) -> T:
                return await self._function(call, *args)

            return await self._gate._do(question, _begun(progress, left_s), action)

        return await DBOS.run_step_async(_rest_of(self._options, progress["attempt"] - 1), step)


def _begun(progress: _Progress, left_s: float | None) -> _Progress:
    """In a step. The first one has no id yet, and no instant to count from."""
    due_at = progress["due_at"]
    if due_at is None and left_s is not None:
        due_at = (datetime.now(timezone.utc) + timedelta(seconds=left_s)).isoformat()
    request_id = progress["request_id"] or f"{DBOS.workflow_id}/{DBOS.step_id}"
    return _Progress(request_id=request_id, attempt=progress["attempt"], due_at=due_at)


def _rest_of(options: StepOptions, failures: int) -> StepOptions:
    """What is left of the retry policy: DBOS counts the attempts of each step from one."""
    if failures == 0 or not options.get("retries_allowed"):
        return options
    rest: StepOptions = {**options, "max_attempts": max(options.get("max_attempts", 3) - failures, 1)}
    interval_s = options.get("interval_seconds", 1.0)
    for _ in range(min(failures, 64)):
        interval_s = min(interval_s * options.get("backoff_rate", 2.0), _INTERVAL_S_MAX)
    rest["interval_seconds"] = interval_s
    return rest


def _rejected(reason: str, message: str, progress: _Progress) -> Rejected:
    return Rejected(
        reason=RejectReason(reason),
        message=message,
        dimension="",
        earliest=None,
        request_id=progress["request_id"],
        attempt=progress["attempt"],
        degraded=False,
    )
