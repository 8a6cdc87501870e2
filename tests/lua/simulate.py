"""A small discrete-event simulation of closed-loop callers against the scripts: seeded, in virtual time."""

from __future__ import annotations

import collections
import dataclasses
import heapq
import random

from valkey import Target


@dataclasses.dataclass
class Flow:
    tenant: str
    cls: str
    workers: int
    cost: dict[str, float]
    weight: float = 1.0


@dataclasses.dataclass
class Result:
    grants: list[tuple[float, Flow]]  # seconds since the start
    admits: int
    span_s: float

    def served(self, dimension: str) -> dict[tuple[str, str], float]:
        sums: dict[tuple[str, str], float] = collections.Counter()
        for _, flow in self.grants:
            sums[flow.tenant, flow.cls] += flow.cost.get(dimension, 1.0 if dimension == "requests" else 0.0)
        return sums

    def most_in_any_window(self, dimension: str, window_s: float) -> float:
        best = total = 0.0
        window: collections.deque[tuple[float, float]] = collections.deque()
        for at, flow in self.grants:
            amount = flow.cost.get(dimension, 1.0 if dimension == "requests" else 0.0)
            window.append((at, amount))
            total += amount
            while window[0][0] <= at - window_s:
                total -= window.popleft()[1]
            best = max(best, total)
        return best


def jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values))


def simulate(target: Target, flows: list[Flow], seconds: float, seed: int, warm_up_s: float = 5.0) -> Result:
    """Workers ask, obey defers with timers 20 ms + Exp(30 ms) late, hold a call for 50-150 ms, release, and go on."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    start = target.now_us
    events: list[tuple[float, int, str, Flow, str]] = []
    serial = 0

    def push(at: float, kind: str, flow: Flow, id: str) -> None:
        nonlocal serial
        serial += 1
        heapq.heappush(events, (at, serial, kind, flow, id))

    for flow in flows:
        for _ in range(flow.workers):
            serial += 1
            push(rng.random() * 0.2, "ask", flow, f"{flow.tenant}/{seed}/{serial}")
    grants: list[tuple[float, Flow]] = []
    admits = 0
    while events and events[0][0] <= seconds:
        at, _, kind, flow, id = heapq.heappop(events)
        target.now_us = start + round(at * 1e6)
        if kind == "release":
            target.release(id, usage=flow.cost)
            serial += 1
            push(at + rng.uniform(0.01, 0.03), "ask", flow, f"{flow.tenant}/{seed}/{serial}")
            continue
        answer = target.admit(id, flow.tenant, cls=flow.cls, cost=flow.cost)
        admits += at > warm_up_s
        if answer["outcome"] == "grant":
            if at > warm_up_s:
                grants.append((at, flow))
            push(at + rng.uniform(0.05, 0.15), "release", flow, id)
        else:
            assert answer["outcome"] == "defer", answer
            push(at + answer["delay_us"] / 1e6 + 0.02 + rng.expovariate(1 / 0.03), "ask", flow, id)
    return Result(grants, admits, seconds - warm_up_s)
