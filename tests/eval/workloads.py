"""The nine workloads of the evaluation (arXiv 2611.02926, section VI).

A cost function draws one call from a seeded random source: what the caller tells the gate and
what the upstream will count. Caps are per second.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping

from measures import Queue

CLASS_WEIGHTS: Mapping[str, float] = {"p1": 0.5, "p2": 0.3, "p3": 0.2}
MEAN_LATENCY = 0.1  # seconds, of the upstream


@dataclasses.dataclass(frozen=True)
class Call:
    prompt_tokens: int
    completion_tokens: int  # what the model would write
    max_tokens: int | None  # what the call allows; None: no bound
    estimate_tokens: int  # what the gate is told

    @property
    def actual_tokens(self) -> int:
        bound = self.completion_tokens if self.max_tokens is None else self.max_tokens
        return self.prompt_tokens + min(self.completion_tokens, bound)


CallSource = Callable[[random.Random], Call]


@dataclasses.dataclass(frozen=True)
class Tenant:
    name: str
    priority: str
    concurrency: int  # workflows, each with one call at a time
    draw: CallSource
    mean_tokens: float  # of the actual cost
    think: float = 0.0  # seconds between a workflow's calls
    weight: float = 1.0
    offered: float | None = None  # calls/s, where they come by themselves and not in closed loops

    def demand(self) -> float:
        """Calls/s without caps."""
        if self.offered is not None:
            return self.offered
        return self.concurrency / (MEAN_LATENCY + self.think)


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    caps: Mapping[str, float]
    tenants: tuple[Tenant, ...]
    upper_bound: bool = False  # reservation: the estimate is a bound that is refunded

    def queues(self, demand: Mapping[str, float] | None = None) -> list[Queue]:
        """demand: calls/s of each tenant without caps, where it was measured."""
        return [
            Queue(
                t.name,
                t.priority,
                CLASS_WEIGHTS[t.priority],
                t.weight,
                {"requests": 1.0, "tokens": t.mean_tokens},
                demand[t.name] if demand else t.demand(),
            )
            for t in self.tenants
        ]

    def scaled(self, factor: float) -> Workload:
        """The same with other caps; who thinks between calls does so longer, not to change its part."""
        caps = {name: cap * factor for name, cap in self.caps.items()}
        tenants = tuple(
            dataclasses.replace(t, think=(MEAN_LATENCY + t.think) / factor - MEAN_LATENCY)
            if t.think
            else t
            for t in self.tenants
        )
        return dataclasses.replace(self, caps=caps, tenants=tenants)

    def slices(self) -> dict[str, float]:
        """Static parts of the cap by tenant: classes by weight, tenants equal inside."""
        weights = {t.priority: CLASS_WEIGHTS[t.priority] for t in self.tenants}
        crowd = {p: sum(t.weight for t in self.tenants if t.priority == p) for p in weights}
        whole = sum(weights.values())
        return {
            t.name: weights[t.priority] / whole * t.weight / crowd[t.priority]
            for t in self.tenants
        }

    def seeds(self, seed: int) -> dict[str, random.Random]:
        """One source of randomness per tenant, so that arms meet the same calls."""
        return {t.name: random.Random(f"{seed}/{self.name}/{t.name}") for t in self.tenants}


def _constant(tokens: int) -> CallSource:
    return lambda _: Call(tokens, 0, None, tokens)


def _estimated(rng: random.Random) -> Call:
    """Estimate from the input alone; the completion is a surprise."""
    return Call(200, rng.randint(50, 750), None, 200)


def _reserved(max_tokens: int) -> CallSource:
    def draw(rng: random.Random) -> Call:
        return Call(200, rng.randint(50, 750), max_tokens, 200 + max_tokens)

    return draw


def _mean_reserved(max_tokens: int) -> float:
    lengths = range(50, 751)
    return 200 + sum(min(length, max_tokens) for length in lengths) / len(lengths)


def _six(draw: CallSource, mean_tokens: float) -> tuple[Tenant, ...]:
    concurrency = {"p1": 4, "p2": 8, "p3": 16}
    return tuple(
        Tenant(f"{letter}{priority[1]}", priority, workflows, draw, mean_tokens)
        for priority, workflows in concurrency.items()
        for letter in "ab"
    )


REQUESTS: Mapping[str, float] = {"requests": 60.0}
BOTH: Mapping[str, float] = {"requests": 60.0, "tokens": 12_000.0}

# One for each thing that is new: classes, dominant resources, reconciliation.
MAIN = ("cross-priority", "mixed-dominant", "noisy-estimates")

WORKLOADS: Mapping[str, Workload] = {
    w.name: w
    for w in (
        # Four workflows that think as long as it takes to make 15 calls/s.
        Workload(
            "uncongested",
            REQUESTS,
            (Tenant("a1", "p1", 4, _constant(10), 10, think=4 / 15 - MEAN_LATENCY),),
        ),
        Workload("overload", REQUESTS, (Tenant("a1", "p1", 28, _constant(10), 10),)),
        Workload("cross-priority", REQUESTS, _six(_constant(10), 10)),
        Workload("request-bound", BOTH, _six(_constant(100), 100)),
        Workload("token-bound", BOTH, _six(_constant(400), 400)),
        Workload(
            "mixed-dominant",
            BOTH,
            (
                Tenant("heavy", "p1", 16, _constant(800), 800),
                Tenant("light1", "p1", 16, _constant(80), 80),
                Tenant("light2", "p1", 16, _constant(80), 80),
            ),
        ),
        Workload("noisy-estimates", BOTH, _six(_estimated, 600)),
        Workload("reservation", BOTH, _six(_reserved(750), 600), upper_bound=True),
        Workload(
            "reservation-capped",
            BOTH,
            _six(_reserved(200), _mean_reserved(200)),
            upper_bound=True,
        ),
    )
}
