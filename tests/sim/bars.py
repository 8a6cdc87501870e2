"""The bars that measures are held against."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

from workloads import WORKLOADS

from .jobs import Job

_HOLDS = {"<=": operator.le, ">=": operator.ge}
_SURPRISING = ("noisy-estimates", "reservation", "reservation-capped")


@dataclasses.dataclass(frozen=True)
class Bar:
    """`measure` must be <= or >= `limit`; of a table row's measures, or of one derived from them (see `value`)."""

    measure: str
    relation: str
    limit: float

    def value(self, m: Mapping[str, Any]) -> float | None:
        """None: the row has no such measure."""
        used = m["cap_used"] / m["cap_ideal"] if m["cap_ideal"] else 1.0
        if self.measure == "cap":  # of what the offered load can use
            return used
        if self.measure in ("min_r/cap", "max_r/cap"):  # shares of what was used
            return m[self.measure[:5]] / used
        return m.get(self.measure)

    def holds(self, m: Mapping[str, Any]) -> bool:
        value = self.value(m)
        return value is None or value != value or _HOLDS[self.relation](value, self.limit)

    def text(self, m: Mapping[str, Any]) -> str:
        sign = {"<=": ">", ">=": "<"}[self.relation]
        return f"{self.measure} {self.value(m):.4g} {sign} {self.limit:.4g}"


def _workload_bars(job: Job) -> list[Bar]:
    name, sliding = job.scenario, job.window in ("sliding", "unknown")
    surprising = name in _SURPRISING
    if job.timers == "late":
        return [Bar("calls_per_grant", "<=", 4), Bar("cap", ">=", 0.95)]
    if job.timers == "floor":
        return [Bar("jain", ">=", 0.98), Bar("cap", ">=", 0.95)] if job.hold else []
    cap = 0.97
    if surprising:
        cap = (0.94 if job.hold else 0.88) if sliding else 0.95
    elif name == "token-bound" and sliding:
        cap = 0.95
    # Where a window may leave some of the cap unused, shares are of what was used: there the cap has its own bar.
    of = "" if cap >= 0.97 else "/cap"
    bars = [
        Bar("jain", ">=", 0.995 if name in ("request-bound", "token-bound", "mixed-dominant") else 0.99),
        Bar("min_r" + of, ">=", 0.95),
        Bar("max_r" + of, "<=", 1.05),
        Bar("share_429", "<=", 0.02 if name == "noisy-estimates" else 0.002),
        Bar("cap", ">=", cap),
        Bar("calls_per_grant", "<=", 3 if surprising else 2.5),
        Bar("leak", "<=", 0.02),
        Bar("gap_of_bar", "<=", 1),
    ]
    if name == "cross-priority":
        bars += [Bar("p1_p95_s", "<=", 0.6), Bar("p1_against_buckets", "<=", 1)]
    if job.drain:
        bars.append(Bar("drain_against_naive", "<=", 1.03))
    return bars


def bars_of(job: Job, window: str) -> list[Bar]:
    """window: of the provider. Only the production discipline has bars."""
    if job.arm != "queue":
        return []
    if job.scenario in WORKLOADS:
        return _workload_bars(job)
    bars = [Bar("jain", ">=", 0.95), Bar("min_r_call", ">=", 0.9), Bar("swing", "<=", 0.1), Bar("big_admits", "<=", 4)]
    return [*bars, Bar("cap", ">=", 0.95)] if window == "continuous" else bars
