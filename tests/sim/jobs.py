"""One simulation to run."""

from __future__ import annotations

import dataclasses

ARMS = ("naive", "buckets", "queue")


@dataclasses.dataclass(frozen=True)
class Job:
    scenario: str  # name in the table of scenarios, or a workload's
    window: str = ""  # empty: the scenario's own
    arm: str = "queue"  # naive, buckets, queue, or queue-MECHANISM (that mechanism off)
    seed: int = 1
    timers: str = "normal"
    hold: float = 0.0
    seconds: float = 0.0  # 0: the scenario's own
    drain: bool = False

    def cell(self) -> Job:
        return dataclasses.replace(self, seed=0)
