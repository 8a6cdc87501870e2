"""What adapters for durable engines share: which attempt a step asks as, and what it leaves behind for the workflow.

An engine does a step again after a failure, and after a crash of which nobody knows how far the step had come. The gate
knows: an attempt that was granted before is over, whether its request left or not. So a step asks as the first attempt
that is not over, and one attempt stays one HTTP send. client/ADAPTERS.md tells how to write an adapter with this.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

from fairgate.aio import AsyncCall, AsyncGate
from fairgate.durations import Duration
from fairgate.errors import Deferred, Rejected
from fairgate.values import RejectReason

T = TypeVar("T")
_HINTS_MAX = 10_000
_OVER = (RejectReason.ALREADY_SETTLED, RejectReason.SUPERSEDED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepQuestion:
    """What a step asks, the same each time but for the attempt. Names as AsyncGate.admit has them."""

    target: str
    tenant: str
    priority: str
    cost: Mapping[str, float]
    request_id: str
    upper_bound: bool
    tells_sent: bool
    timer_floor: Duration
    max_hold: Duration
    due_at: datetime | None
    """When the work is useless; of the wall clock, because steps are done on different machines."""


@dataclasses.dataclass(frozen=True)
class Deferral:
    """A step's result: sleep `delay_ms` on the engine's timer, then do the step again as `attempt`."""

    delay_ms: int
    attempt: int


@dataclasses.dataclass(frozen=True)
class Rejection:
    """A step's result: waiting would not help."""

    reason: str
    """Name of a RejectReason."""
    message: str


@dataclasses.dataclass(frozen=True)
class Done(Generic[T]):
    """A step's result: the call was made."""

    result: T


class Steps:
    """Does steps. It keeps nothing that matters: what it remembers of failures spares questions, no more."""

    def __init__(self, gate: AsyncGate) -> None:
        self._gate = gate
        self._next_attempts: OrderedDict[str, int] = OrderedDict()

    async def do(
        self, question: StepQuestion, attempt: int, action: Callable[[AsyncCall], Awaitable[T]]
    ) -> Done[T] | Deferral | Rejection:
        """Asks as `attempt`, or as the first later one that is not over, and makes the call when it may go.

        Raises what `action` raises, after the lease was settled, and GateError.
        """
        answer = await self._ask(question, max(attempt, self._next_attempts.get(question.request_id, 1)))
        if isinstance(answer, Rejected):
            return Rejection(answer.reason.value, answer.message)
        if isinstance(answer, Deferred):
            # What is told on is durable, and this memory is not needed any more.
            self._next_attempts.pop(question.request_id, None)
            return Deferral(-(-answer.delay // timedelta(milliseconds=1)), answer.attempt)
        try:
            async with answer as call:
                result = await action(call)
        except Exception:
            self._remember(question.request_id, answer.attempt + 1)
            raise
        self._next_attempts.pop(question.request_id, None)
        return Done(result)

    async def withdraw(self, question: StepQuestion, attempt: int) -> None:
        """Gives up the place of a step that will not be done again. GateError: it could not be told."""
        await self._gate.withdraw(target=question.target, request_id=question.request_id, attempt=attempt)

    async def _ask(self, question: StepQuestion, attempt: int) -> AsyncCall | Deferred | Rejected:
        while True:
            admission = self._gate.admit(
                target=question.target,
                tenant=question.tenant,
                priority=question.priority,
                cost=question.cost,
                request_id=question.request_id,
                attempt=attempt,
                deadline=None if question.due_at is None else question.due_at - datetime.now(timezone.utc),
                upper_bound=question.upper_bound,
                tells_sent=question.tells_sent,
                timer_floor=question.timer_floor,
                max_hold=question.max_hold,
            )
            answer = await admission.outcome()
            if isinstance(answer, Rejected):
                is_over = answer.reason in _OVER
            else:
                # Somebody who died, or was given up, had this grant. The next attempt settles it as unknown.
                is_over = isinstance(answer, AsyncCall) and answer.repeated
            if not is_over:
                return answer
            attempt += 1

    def _remember(self, request_id: str, attempt: int) -> None:
        self._next_attempts[request_id] = attempt
        self._next_attempts.move_to_end(request_id)
        if len(self._next_attempts) > _HINTS_MAX:
            self._next_attempts.popitem(last=False)
