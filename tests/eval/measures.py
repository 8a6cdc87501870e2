"""Fairness and latency figures. Pure: everything is computed from what is passed in."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Queue:
    """One tenant inside one class, as the ideal allocation sees it."""

    tenant: str
    priority: str
    class_weight: float
    tenant_weight: float
    cost: Mapping[str, float]  # mean of one call by dimension
    demand: float = math.inf  # calls/s that it would do without caps

    def dominant(self, caps: Mapping[str, float]) -> float:
        """Dominant share of one call, in seconds of the cap."""
        return max(self.cost.get(name, 0.0) / cap for name, cap in caps.items())


def ideal_rates(queues: Sequence[Queue], caps: Mapping[str, float]) -> list[float]:
    """Calls/s of each queue under hierarchical weighted dominant-resource max-min fairness.

    Progressive filling: every class's dominant share rises at its weight, split among its queues
    that still rise by tenant weight. A queue stops when its demand is met or when a dimension that
    it uses is full. caps: units per second.
    """
    rates = [0.0] * len(queues)
    left = dict(caps)
    rising = {i for i, q in enumerate(queues) if q.demand > 0 and q.class_weight > 0}
    if any(queues[i].dominant(caps) <= 0 for i in rising):
        raise ValueError("a queue uses no dimension")
    while rising:
        weights: dict[str, float] = {}
        for i in rising:
            q = queues[i]
            weights[q.priority] = weights.get(q.priority, 0.0) + q.tenant_weight
        speed = {  # calls/s per unit of the rising level
            i: queues[i].class_weight
            * queues[i].tenant_weight
            / weights[queues[i].priority]
            / queues[i].dominant(caps)
            for i in rising
        }
        use = {n: sum(speed[i] * queues[i].cost.get(n, 0.0) for i in rising) for n in caps}
        steps = [(queues[i].demand - rates[i]) / speed[i] for i in rising]
        steps += [left[n] / use[n] for n in caps if use[n] > 0]
        step = max(0.0, min(steps))
        for i in rising:
            rates[i] += speed[i] * step
        for name in caps:
            left[name] -= use[name] * step
        full = {n for n in caps if use[n] > 0 and left[n] <= caps[n] * 1e-12}
        stopped = {
            i
            for i in rising
            if queues[i].demand - rates[i] <= 1e-12 * max(1.0, rates[i])
            or any(queues[i].cost.get(n, 0.0) > 0 for n in full)
        }
        if not stopped:
            raise ArithmeticError("progressive filling does not converge")
        rising -= stopped
    return rates


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else math.nan


def achievement(observed: Mapping[Key, float], ideal: Mapping[Key, float]) -> dict[Key, float]:
    """r = observed / ideal of every queue that is due anything."""
    return {key: observed.get(key, 0.0) / due for key, due in ideal.items() if due > 0}


def percentile(values: Sequence[float], part: float) -> float:
    """The value at `part` (0 to 1) of the sorted values, interpolated; NaN when there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
