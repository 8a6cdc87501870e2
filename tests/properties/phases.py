"""Callers of a provider with fixed windows whose phase nobody told: it counts what arrives, and says when its window ends."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
import random
from typing import Any

from invariants import Violation
from store import START_US, Store, Subject

TOLERANCE = 1e-9
ARRIVES_US = 2000  # most that a call is on its way: the guard before a window's end allows for it


@dataclasses.dataclass
class Provider:
    """Its clock is off and drifts; times are the gate's."""

    limit: float
    window_us: int
    phase_us: float
    drift: float
    rounded_us: int  # its reset times are up to so much too late
    used: dict[int, float] = dataclasses.field(default_factory=dict)

    def _own(self, at_us: float) -> float:
        return at_us * (1 + self.drift) - self.phase_us

    def count(self, at_us: float, amount: float) -> None:
        window = math.floor(self._own(at_us) / self.window_us)
        used = self.used[window] = self.used.get(window, 0.0) + amount
        if used > self.limit * (1 + TOLERANCE):
            raise Violation("no_window_above_its_limit", f"{used!r} of {self.limit} at {at_us / 1e6} s")

    def reset_us(self, at_us: float) -> int:
        left = self.window_us - self._own(at_us) % self.window_us
        return math.ceil(left / self.rounded_us) * self.rounded_us


class Run:
    """Greedy callers for `windows` windows. `known_us`: when the phase was first used; None: never."""

    def __init__(self, store: Store, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        window_us = rng.choice([1, 1, 10, 60]) * 1_000_000
        rounded_us = 1_000_000 if window_us > 1_000_000 and rng.random() < 0.3 else 1000
        drift = rng.uniform(-0.9e-4, 0.9e-4) if rng.random() < 0.5 else 0.0
        limit = float(rng.choice([20, 60]))
        self.provider = Provider(limit, window_us, rng.randrange(window_us), drift, rounded_us)
        self.latency_us = rng.choice([0.02, 0.1, 0.3]) * window_us
        self.idle = rng.random() < 0.3  # nobody asks for some windows, now and then
        self.refunds = rng.random() < 0.5  # calls use less than their bound
        dim = {"name": "tokens", "limit": limit, "window_us": window_us, "model": "fixed_learnt", "phase_us": 0}
        fractions = {"rate_fraction": 1.0, "burst_fraction": rng.choice([0.05, 0.2, 1.0])}
        lasting = {"max_defer_us": 300_000_000, "lease_us": 600_000_000, "retention_us": 3_600_000_000}
        policy = {
            "discipline": "queue",
            "dims": [{**dim, **fractions}],
            "classes": [{"name": "p", "weight": 1.0}],
            "default_class": "p",
            "default_weight": 1.0,
            "listed_only": False,
            **lasting,
            "places_max": 1000,
        }
        self.subject = Subject(store, policy)
        self.start_us = self.subject.now_us
        self.end_us = 20 * window_us
        self.known_us: float | None = None
        self.forgotten = 0
        self.granted: list[tuple[float, float]] = []  # (time, units that it counts for)
        self._events: list[tuple[float, int, Any, Any]] = []
        self._serial = itertools.count()

    def at(self, us: float, do: Any, what: Any) -> None:
        heapq.heappush(self._events, (us, next(self._serial), do, what))

    def run(self) -> None:
        for i in range(self.rng.choice([3, 12, 40])):
            self.at(self.rng.randrange(100_000), self._ask, self._new(i))
        while self._events and self._events[0][0] < self.end_us:
            now_us, _, do, what = heapq.heappop(self._events)
            self.subject.now_us = self.start_us + math.ceil(now_us)
            do(math.ceil(now_us), what)
        self.subject.drop()

    def _new(self, worker: int) -> dict[str, Any]:
        cost = float(self.rng.choice([0.2, 1, 1, 3]))
        return {"id": f"w{worker}-{next(self._serial)}", "tenant": f"t{worker % 2}", "cost": {"tokens": cost}, "bound": True}

    def _ask(self, now_us: int, args: dict[str, Any]) -> None:
        answer = self.subject.call("admit", dict(args))
        if answer["outcome"] == "defer":
            self.at(now_us + answer["delay_us"] + self.rng.choice([0, 1000, 50_000]), self._ask, args)
            return
        amount = args["cost"]["tokens"] * (self.rng.choice([0.2, 1.0]) if self.refunds else 1.0)
        arrives_us = now_us + self.rng.randrange(ARRIVES_US)
        self._look(now_us, args["cost"]["tokens"])
        self.provider.count(arrives_us, amount)
        told = {"tokens": {"reset_us": self.provider.reset_us(arrives_us)}}
        settle = {"id": args["id"], "attempt": 1, "action": "settle", "outcome": "ok", "usage": {"tokens": amount}}
        done_us = arrives_us + 1000 + self.rng.random() * self.latency_us
        self.at(done_us, self._settle, (args, {**settle, "rate_limits": told}))

    def _settle(self, now_us: int, call: tuple[dict[str, Any], dict[str, Any]]) -> None:
        args, settle = call
        self.subject.call("release", settle)
        again_us = now_us + self.rng.choice([0, 1000, 20_000])
        if self.idle and self.rng.random() < 0.05:
            again_us += self.rng.uniform(0, 4) * self.provider.window_us
        self.at(again_us, self._ask, self._new(int(args["id"][1:].partition("-")[0])))

    def _look(self, now_us: int, amount: float) -> None:
        """At a grant: with whatever phase is still possible, no window holds more than the limit."""
        self.granted.append((self.subject.now_us, amount))
        kept = self.subject.state()["dims"][0]
        if not kept["known"]:
            self.forgotten += self.known_us is not None
            return
        if self.known_us is None:
            self.known_us = now_us
        window_us = self.provider.window_us
        for part in (0.0, 0.3, 1.0):
            phase_us = kept["lo"] + part * (kept["hi"] - kept["lo"])
            begin_us = self.subject.now_us - (self.subject.now_us - phase_us) % window_us
            used = sum(units for at_us, units in self.granted if at_us >= begin_us)
            if not self.refunds and used > self.provider.limit * (1 + TOLERANCE):
                raise Violation("no_possible_window_above_its_limit", f"{used!r} since {begin_us}, phase {phase_us}")


def check(store: Store, seeds: range) -> int:
    """Answers in how many runs the phase became known."""
    known = 0
    for seed in seeds:
        run = Run(store, seed)
        try:
            run.run()
        except Violation as violation:
            raise Violation(violation.name, f"seed {seed}: {violation}") from None
        known += run.known_us is not None
    return known
