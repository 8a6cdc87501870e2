"""Temporal: who is deferred gives its slot back, and the workflow sleeps on a durable timer until its turn.

    worker = Worker(client, task_queue="calls", workflows=[…], activities=[…], interceptors=[FairgateInterceptor()])

    @activity.defn
    async def complete(prompt: str) -> str:
        async with gate.admit(target="openai", tenant="acme", tokens=900, **of_activity()) as call:
            …

A deferred activity fails at once, with an error of its own type that no retry policy retries. The workflow's side of
the interceptor sees it, sleeps, and schedules the activity again; the workflow's code sees only the end. Workers of
workflows and workers of activities both need the interceptor; they may be written in different languages, because what
is passed between them is the same in all: `DEFERRED_TYPE` with one detail, and the header `HEADER`.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, TypedDict

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.converter import PayloadConverter
from temporalio.exceptions import ActivityError, ApplicationError, ApplicationErrorCategory
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from fairgate.durations import Duration
from fairgate.errors import Deferred, Rejected

DEFERRED_TYPE = "fairgate.Deferred"
"""ApplicationError.type of a deferral: seen in histories, and by workflows only if the wait passes a deadline."""
REJECTED_TYPE = "fairgate.Rejected"
"""ApplicationError.type of a rejection; details: reason and message. Not retried, since waiting would not help."""
HEADER = "fairgate"
"""On an activity that is scheduled again: what _Progress holds, as JSON."""

_REQUEST_ID_BYTES_MAX = 256
_NUMBER_BYTES_MAX = 8  # "/" and the number of a question
_DEFAULT_INTERVALS_MAX = 100  # maximum_interval in initial_intervals, where a policy does not say


class _Progress(TypedDict):
    """What a deferral hands over to the activity that is scheduled in its place."""

    request_id: str
    attempts_before: int
    """Of the gate: attempts that are over."""
    failures_before: int
    """Attempts that the retry policy has used up. Fewer than attempts_before once a send was followed by a deferral."""


class ActivityQuestion(TypedDict):
    """What a question takes from the activity that asks it."""

    request_id: str
    attempt: int
    deadline: timedelta | None
    timer_floor: Duration
    max_hold: Duration


class _Step:
    """One run of an activity."""

    def __init__(self, interceptor: FairgateInterceptor, headers: Mapping[str, Any]) -> None:
        info = activity.info()
        self._interceptor = interceptor
        self._info = info
        self._asked = 0
        self._before = _Progress(request_id=_request_id(info), attempts_before=0, failures_before=0)
        if HEADER in headers:
            self._before = PayloadConverter.default.from_payload(headers[HEADER])

    def question(self) -> ActivityQuestion:
        if self._info.is_local or not self._info.workflow_id:
            # A local activity that is lost with its workflow task is run again as the same attempt.
            raise ApplicationError(
                "only a workflow's activities that are not local can ask the gate", non_retryable=True
            )
        self._asked += 1
        request_id = self._before["request_id"]
        return ActivityQuestion(
            request_id=request_id if self._asked == 1 else f"{request_id}/{self._asked}",
            attempt=self._before["attempts_before"] + self._info.attempt,
            deadline=self._time_left(),
            timer_floor=self._interceptor.timer_floor,
            max_hold=self._interceptor.max_hold,
        )

    def after_deferral(self) -> _Progress:
        failed = self._info.attempt - 1
        # Questions before the deferred one were granted: what they sent will be sent again, which is another attempt.
        over = failed if self._asked <= 1 else failed + 1
        return _Progress(
            request_id=self._before["request_id"],
            attempts_before=self._before["attempts_before"] + over,
            failures_before=self._before["failures_before"] + failed,
        )

    def _time_left(self) -> timedelta | None:
        whole = self._info.schedule_to_close_timeout
        if not whole:
            return None
        # The clocks are two: a difference must not make more of the time than there was.
        return whole - max(datetime.now(timezone.utc) - self._info.scheduled_time, timedelta(0))


_step: contextvars.ContextVar[_Step] = contextvars.ContextVar("fairgate_temporal_step")


def of_activity() -> ActivityQuestion:
    """For `gate.admit(…, **of_activity())`: request_id, attempt, deadline, timer_floor and max_hold of this activity.

    The second question of one activity has a request_id of its own, and so on. RuntimeError: there is no
    FairgateInterceptor around (activities in a process pool do not have it).
    """
    try:
        step = _step.get()
    except LookupError:
        raise RuntimeError("not in an activity of a worker with a FairgateInterceptor") from None
    return step.question()


class FairgateInterceptor(Interceptor):
    """For Worker(interceptors=[…]) and Replayer(interceptors=[…])."""

    def __init__(self, *, timer_floor: Duration = 1.0, max_hold: Duration = 0.0) -> None:
        """How activities ask.

        timer_floor: the shortest sleep that the server's durable timer can do: one second, unless its dynamic
            configuration says otherwise (history.timerProcessorMaxTimeShift).
        max_hold: a question may be held by the gate that long instead of being deferred. It keeps the slot meanwhile,
            and spares the history a deferral that is shorter.
        """
        self.timer_floor = timer_floor
        self.max_hold = max_hold

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """See Interceptor."""
        return _ActivityInbound(self, next)

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002
        """See Interceptor."""
        return _WorkflowInbound


class _ActivityInbound(ActivityInboundInterceptor):
    def __init__(self, interceptor: FairgateInterceptor, next: ActivityInboundInterceptor) -> None:  # noqa: A002
        super().__init__(next)
        self._interceptor = interceptor

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        step = _Step(self._interceptor, input.headers)
        token = _step.set(step)
        try:
            return await self.next.execute_activity(input)
        except Deferred as deferred:
            # `from None`: each deferral is history, and its cause would say the same again.
            raise ApplicationError(
                str(deferred),
                {"delay_ms": -(-deferred.delay // timedelta(milliseconds=1)), "next": step.after_deferral()},
                type=DEFERRED_TYPE,
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
        except Rejected as rejected:
            raise ApplicationError(
                str(rejected), rejected.reason.value, rejected.message, type=REJECTED_TYPE, non_retryable=True
            ) from None
        finally:
            _step.reset(token)


class _WorkflowInbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_WorkflowOutbound(outbound))


class _WorkflowOutbound(WorkflowOutboundInterceptor):
    """Deterministic: it knows only what the history holds."""

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002
        first = self.next.start_activity(input)  # now, so that commands keep their order
        task: Any = asyncio.create_task(self._until_admitted(input, first, workflow.now()))
        return task  # type: ignore[no-any-return]  # a handle is a task

    async def _until_admitted(
        self, asked: StartActivityInput, handle: workflow.ActivityHandle[Any], began: datetime
    ) -> Any:
        while True:
            try:
                return await handle
            except ActivityError as error:
                deferral = _deferral_of(error)
                if deferral is None:
                    raise
                delay = timedelta(milliseconds=deferral["delay_ms"])
                until = None if asked.schedule_to_close_timeout is None else began + asked.schedule_to_close_timeout
                if until is not None and workflow.now() + delay >= until:
                    raise
            await workflow.sleep(delay, summary="deferred by the gate")
            left = None if until is None else until - workflow.now()
            if left is not None and left <= timedelta(0):
                left = timedelta(milliseconds=1)  # the timer was late: the server says what is over
            handle = self.next.start_activity(_again(asked, deferral["next"], left))


def _again(asked: StartActivityInput, progress: _Progress, left: timedelta | None) -> StartActivityInput:
    return dataclasses.replace(
        asked,
        headers={**asked.headers, HEADER: PayloadConverter.default.to_payload(progress)},
        retry_policy=_rest_of(asked.retry_policy, progress["failures_before"]),
        schedule_to_close_timeout=left,
    )


def _rest_of(policy: RetryPolicy | None, failures: int) -> RetryPolicy | None:
    """What is left of a policy: the server counts a scheduled activity's attempts from one."""
    if failures == 0:
        return policy
    policy = policy or RetryPolicy()
    longest = policy.maximum_interval or policy.initial_interval * _DEFAULT_INTERVALS_MAX
    interval = policy.initial_interval
    for _ in range(failures):  # a power of a large number would overflow
        interval = min(interval * policy.backoff_coefficient, longest)
        if interval == longest:
            break
    return dataclasses.replace(
        policy,
        initial_interval=interval,
        maximum_interval=longest,
        maximum_attempts=max(policy.maximum_attempts - failures, 1) if policy.maximum_attempts else 0,
    )


def _deferral_of(error: ActivityError) -> Any:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == DEFERRED_TYPE and cause.details:
        return cause.details[0]
    return None


def _request_id(info: activity.Info) -> str:
    """Of the run, not of the workflow alone: runs that continue it count their activities from one again."""
    request_id = f"{info.workflow_id}/{info.workflow_run_id}/{info.activity_id}"
    if len(request_id.encode()) + _NUMBER_BYTES_MAX > _REQUEST_ID_BYTES_MAX:
        return hashlib.sha256(request_id.encode()).hexdigest()
    return request_id
