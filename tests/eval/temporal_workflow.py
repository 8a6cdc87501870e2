"""The workflow of the evaluation on Temporal: one call after the other; who is told to wait does so on a durable timer."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from temporalio import workflow
from temporalio.common import Priority

VISIT_TIMEOUT = timedelta(minutes=5)


@dataclasses.dataclass
class Who:
    worker: int
    think: float  # seconds between calls
    # Of Temporal's own throttle; 0: none.
    priority: int = 0
    fairness_key: str = ""


@dataclasses.dataclass
class Visit:
    worker: int
    number: int  # of the worker's call
    events: int  # of the history before the call


@dataclasses.dataclass
class Told:
    wait: float | None  # seconds to sleep before the next visit; None: the call is over


@workflow.defn
class Caller:
    @workflow.run
    async def run(self, who: Who) -> None:
        priority = Priority.default
        if who.priority:
            priority = Priority(who.priority, who.fairness_key, 1.0)
        random = workflow.random()
        number = 0
        while True:
            number += 1
            visit = Visit(who.worker, number, workflow.info().get_current_history_length())
            while True:
                told = await workflow.execute_activity(
                    "visit", visit, result_type=Told, start_to_close_timeout=VISIT_TIMEOUT, priority=priority
                )
                if told.wait is None:
                    break
                await workflow.sleep(told.wait)
            if who.think:
                await workflow.sleep(who.think * random.uniform(0.5, 1.5))
