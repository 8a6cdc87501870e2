"""What callers ask for, as data: flows, scenarios, timers. Times in seconds, caps in units per second."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any

Amounts = tuple[float, ...]  # one per dimension, in the order of the scenario's caps
# From the flow's own randomness and the call's number in it: what the gate is told, what the provider counts.
Draw = Callable[[random.Random, int], tuple[Amounts, Amounts]]

CLASSES: Mapping[str, float] = {"p1": 0.5, "p2": 0.3, "p3": 0.2}


@dataclasses.dataclass(frozen=True)
class Timers:
    """How late a caller comes back: `least` + Exp(`mean`), and never before `floor` after it was told to wait."""

    least: float = 0.02
    mean: float = 0.03
    floor: float = 0.0  # told to the gate as timer_floor

    def late(self, rng: random.Random) -> float:
        return self.least + (rng.expovariate(1 / self.mean) if self.mean > 0 else 0.0)

    def late_p999(self) -> float:
        return self.least + self.mean * 6.907755


TIMERS: Mapping[str, Timers] = {
    "normal": Timers(),
    "late": Timers(0.2, 0.3),
    "floor": Timers(0.01, 0.0, floor=1.0),  # a default Temporal
}


@dataclasses.dataclass(frozen=True)
class Flow:
    """One tenant in one class. Closed loop: `workers` with one call at a time; open loop: `rate` calls/s."""

    name: str
    cls: str
    draw: Draw
    workers: int = 0
    rate: float = 0.0
    burst: int = 1  # open loop: calls that arrive together
    weight: float = 1.0
    think: float = 0.02  # mean between a worker's calls; each is 0.5 to 1.5 of it
    latency: tuple[float, float] = (0.05, 0.15)  # of the provider, uniform
    timers: Timers | None = None  # None: those of the run
    start: float = 0.0
    stop: float = float("inf")
    on_off: tuple[float, float, float] | None = None  # period, share of it that is on, phase
    poll: float = 0.0  # asks again after this time, whatever it was told
    early: float = 0.0  # part of each wait that it skips
    lost: float = 0.0  # probability that a deferred caller never comes back
    lost_pause: float = 0.0  # then its worker starts anew after this; 0: half a second after the wait
    unreleased: float = 0.0  # probability that a call is never released
    reported: Callable[[Amounts], Amounts] | None = None  # false usage in Release, from the true one
    shared: bool = True  # counts for the ideal shares and for fairness
    big: bool = False  # its Admit calls are measured apart


@dataclasses.dataclass(frozen=True)
class Change:
    """A Configure at a moment of the run; caps also change at the provider."""

    at: float
    caps: Mapping[str, float] = dataclasses.field(default_factory=dict)
    weights: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    caps: Mapping[str, float]  # units per second
    flows: tuple[Flow, ...]
    window: str = "continuous"  # of the provider
    told: str = ""  # window model that the policy says; empty: the provider's
    window_s: float = 1.0
    phase_s: float = 0.37  # of fixed windows
    bound: bool = False  # costs are upper bounds (reservation)
    seconds: float = 45.0
    warm_up: float = 5.0
    changes: tuple[Change, ...] = ()
    policy: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # more compiled fields
    tenant_caps: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)  # units per second
    ideal_share: Mapping[str, float] = dataclasses.field(
        default_factory=dict
    )  # dominant share where filling is no guide
    ideal_weight: Mapping[str, float] = dataclasses.field(default_factory=dict)  # where a change sets it
    watched: str = ""  # flow whose rate is followed second by second
    network: tuple[float, float] = (0.0005, 0.002)  # one way, uniform
    headers: bool = False  # the provider's rate-limit headers are passed on with Release


def const(*amounts: float) -> Draw:
    pair = (amounts, amounts)
    return lambda _rng, _number: pair
