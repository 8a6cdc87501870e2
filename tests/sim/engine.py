"""The event loop: callers, timers, network, gate and provider; deterministic for a seed. Seconds since the start."""

from __future__ import annotations

import dataclasses
import heapq
import random
from collections.abc import Callable
from typing import Any

from valkey import START_US

from .demand import TIMERS, Flow, Scenario, Timers
from .gates import Gate
from .provider import Provider

BACKOFF = (0.5, 8.0)  # first and longest, as provider SDKs (and the evaluation's naive arm) do
REJECTED_PAUSE = 1.0


@dataclasses.dataclass
class Conditions:
    timers: Timers = TIMERS["normal"]
    hold: float = 0.0  # max_hold of every Admit
    hints: bool = True  # a 429 is released with its retry hint; else the refused caller alone waits for that


class Call:
    __slots__ = (
        "source",
        "id",
        "attempt",
        "told",
        "actual",
        "counted",
        "first_ask",
        "admits",
        "args",
        "hold_until",
        "tries",
        "headers",
    )


class Source:
    """A flow and what is counted about it, after the warm-up unless said otherwise."""

    def __init__(self, flow: Flow, names: tuple[str, ...], seed: int, scenario: str) -> None:
        self.flow = flow
        self.names = names
        self.rng = random.Random(f"{seed}/{scenario}/{flow.name}/{flow.cls}")  # every arm meets the same calls
        self.drawn = 0  # from the first moment
        self.to_drain = 0
        self.offered = 0
        self.offered_cost = [0.0] * len(names)
        self.ok = 0
        self.ok_cost = [0.0] * len(names)
        self.waiting = 0  # from the first moment, as the next two
        self.backlogged_since = 0.0
        self.last_grant = 0.0
        self.gaps: list[float] = []
        self.times: list[float] = []  # first ask to success
        self.grant_times: list[float] = []
        self.grant_admits: list[int] = []


class Counts:
    def __init__(self) -> None:
        self.sent = self.refused = self.admits = self.evaluations = self.grants = self.rejects = self.lost = 0


class Engine:
    """Runs one scenario with one arm and one seed; leaves the sources and counts behind."""

    def __init__(self, scenario: Scenario, gate: Gate | None, seed: int, conditions: Conditions) -> None:
        self.scenario, self.gate, self.conditions = scenario, gate, conditions
        self.target = gate.target if gate else None
        self.provider = Provider(scenario)
        self.names = tuple(scenario.caps)
        self.rng = random.Random(f"{seed}/{scenario.name}")
        self.now = 0.0
        self.counts = Counts()
        self.sources = [Source(flow, self.names, seed, scenario.name) for flow in scenario.flows]
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._serial = 0
        self._ids = 0
        self._low, self._span = scenario.network[0], scenario.network[1] - scenario.network[0]
        self._measured = False
        self._drained: list[float] = []  # cost of what was answered since drain() began
        self._drained_at = 0.0

    def at(self, when: float, do: Callable[[Any], None], what: Any) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (when, self._serial, do, what))

    def _hop(self) -> float:
        return self._low + self._span * self.rng.random()

    def run(self) -> None:
        scenario, heap = self.scenario, self._heap
        for source in self.sources:
            flow = source.flow
            if flow.rate:
                self.at(flow.start + self._next_arrival(flow), self._arrive, source)
            for _ in range(flow.workers):
                self.at(flow.start + 0.2 * self.rng.random(), self._start, source)
        for change in scenario.changes:
            self.at(change.at, self._change, change)
        pop, warm_up, end = heapq.heappop, scenario.warm_up, scenario.seconds
        while heap and heap[0][0] <= end:
            when, _, do, what = pop(heap)
            self.now = when
            if when > warm_up:
                self._measured = True
            do(what)
        self.now = end

    def drain(self, seconds: float = 10.0) -> float:
        """After run(): every worker gets the same number of further calls, about `seconds` of the cap in all.

        Answers the time until the last is answered over what the provider's cap (or the workers' own pace) needs.
        """
        closed = [s for s in self.sources if s.flow.workers]
        mean = [
            sum(s.flow.workers * s.offered_cost[d] / max(1, s.offered) for s in closed) for d in range(len(self.names))
        ]
        each = max(1, round(seconds / max(m / cap for m, cap in zip(mean, self.scenario.caps.values()))))
        own_pace = 0.0
        for s in closed:
            s.to_drain = each * s.flow.workers
            own_pace = max(own_pace, each * (sum(s.flow.latency) / 2 + s.flow.think))
        self._measured, self._drained, self._drained_at = False, [0.0] * len(self.names), self.now
        begin, heap = self.now, self._heap
        while heap and heap[0][0] < begin + 20 * seconds:
            self.now, _, do, what = heapq.heappop(heap)
            do(what)
        needed = max(used / cap for used, cap in zip(self._drained, self.scenario.caps.values()))
        return (self._drained_at - begin) / max(needed, own_pace)

    def _next_arrival(self, flow: Flow) -> float:
        return self.rng.expovariate(flow.rate / flow.burst)

    def _arrive(self, source: Source) -> None:
        flow = source.flow
        if self.now >= flow.stop:
            return
        if self._is_on(flow):
            for _ in range(flow.burst):
                self._start(source)
        self.at(self.now + self._next_arrival(flow), self._arrive, source)

    def _is_on(self, flow: Flow) -> bool:
        if not flow.start <= self.now < flow.stop:
            return False
        if flow.on_off is None:
            return True
        period, share, phase = flow.on_off
        return (self.now - phase) % period < share * period

    def _start(self, source: Source) -> None:
        """A worker (or an arrival) has a new call."""
        flow = source.flow
        if not self._is_on(flow):
            if self.now < flow.start:
                self.at(flow.start, self._start, source)
            elif self.now < flow.stop and flow.on_off:
                period, _, phase = flow.on_off
                self.at(self.now + period - (self.now - phase) % period + 0.02 * self.rng.random(), self._start, source)
            return
        if self._drained:
            if source.to_drain <= 0:
                return
            source.to_drain -= 1
        told, actual = flow.draw(source.rng, source.drawn)
        source.drawn += 1
        self._ids += 1
        call = Call()
        call.source, call.id, call.attempt, call.actual = source, f"c{self._ids}", 1, actual
        call.counted = dict(zip(self.names, actual))
        call.first_ask, call.admits, call.tries = self.now, 0, 0
        if self._measured:
            source.offered += 1
            for d, amount in enumerate(actual):
                source.offered_cost[d] += amount
        if self.gate is None:
            self.at(self.now + self._hop(), self._send, call)
            return
        timers = flow.timers or self.conditions.timers
        call.told = dict(zip(self.names, told))
        call.args = {
            "id": call.id,
            "tenant": flow.name,
            "class": flow.cls,
            "cost": call.told,
            "bound": self.scenario.bound,
            "timer_floor_us": round(timers.floor * 1e6),
        }
        self._wait(call)

    def _wait(self, call: Call) -> None:
        source = call.source
        source.waiting += 1
        if source.waiting == 1:
            source.backlogged_since = self.now
        self.at(self.now + self._hop(), self._ask, call)

    def _leave(self, call: Call) -> None:
        call.source.waiting -= 1

    def _ask(self, call: Call) -> None:
        call.admits += 1
        if self._measured:
            self.counts.admits += 1
        call.hold_until = self.now + self.conditions.hold
        self._decide(call, False)

    def _ask_held(self, call: Call) -> None:
        self._decide(call, True)

    def _decide(self, call: Call, held: bool) -> None:
        target, args = self.target, call.args
        target.now_us = START_US + round(self.now * 1e6)
        args["attempt"] = call.attempt
        args["held"] = held
        args["hold_us"] = max(0, round((call.hold_until - self.now) * 1e6))
        if self._measured:
            self.counts.evaluations += 1
        answer = target.call("admit", args)
        outcome = answer["outcome"]
        if outcome == "grant":
            self._granted(call)
        elif outcome == "defer":
            delay = answer["delay_us"] / 1e6
            if answer.get("hold"):  # parked in the server, which asks again by itself
                self.at(self.now + delay, self._ask_held, call)
            else:
                self._deferred(call, delay)
        elif outcome == "reject":
            self.counts.rejects += 1
            self._leave(call)
            if call.source.flow.workers:
                self.at(self.now + REJECTED_PAUSE, self._start, call.source)
        else:
            raise RuntimeError(f"unexpected answer {answer}")

    def _granted(self, call: Call) -> None:
        source = call.source
        if self._measured:
            self.counts.grants += 1
            source.gaps.append(self.now - max(source.last_grant, source.backlogged_since))
            source.grant_times.append(self.now)
            source.grant_admits.append(call.admits)
        source.last_grant = self.now
        self._leave(call)
        self.at(self.now + self._hop(), self._send, call)

    def _deferred(self, call: Call, delay: float) -> None:
        flow = call.source.flow
        if flow.lost and self.rng.random() < flow.lost:
            self.counts.lost += 1
            self._leave(call)
            if flow.workers:
                self.at(self.now + (flow.lost_pause or delay + 0.5), self._start, call.source)
            return
        if flow.poll:
            self.at(self.now + flow.poll, self._ask, call)
            return
        timers = flow.timers or self.conditions.timers
        sleep = max(timers.floor, delay * (1 - flow.early)) + timers.late(self.rng)
        self.at(self.now + sleep + 2 * self._hop(), self._ask, call)

    def _send(self, call: Call) -> None:
        source = call.source
        flow = source.flow
        verdict = self.provider.call(self.now, call.counted)
        call.headers = self.provider.headers(self.now) if self.scenario.headers else None
        if self._measured:
            self.counts.sent += 1
        if not verdict.admitted:
            if self._measured:
                self.counts.refused += 1
            self._refused(call, verdict.retry_after)
            return
        low, high = flow.latency
        latency = low + (high - low) * self.rng.random()
        if self._measured:
            source.ok += 1
            for d, amount in enumerate(call.actual):
                source.ok_cost[d] += amount
            source.times.append(self.now + latency - call.first_ask)
        if self._drained:
            self._drained_at = max(self._drained_at, self.now + latency)
            for d, amount in enumerate(call.actual):
                self._drained[d] += amount
        self.at(self.now + latency + self._hop(), self._done, call)

    def _refused(self, call: Call, retry_after: float) -> None:
        """429, answered at once. Naive callers back off; the others tell the gate and ask for the next attempt."""
        if self.gate is None:
            call.tries += 1
            backoff = min(BACKOFF[1], BACKOFF[0] * 2 ** (call.tries - 1)) * (1 - 0.25 * self.rng.random())
            self.at(self.now + max(retry_after, backoff) + self._hop(), self._send, call)
            return
        call.tries = max(1, -int(-retry_after * 1e3 // 1))  # whole milliseconds, as the header has them
        self.at(self.now + 2 * self._hop(), self._tell_refused, call)

    def _tell_refused(self, call: Call) -> None:
        call.attempt += 1
        if self.conditions.hints:
            told = {"outcome": "rate_limited", "usage": {}, "retry_after_us": call.tries * 1000}
            self._release(call, told, call.attempt - 1)
            self._wait(call)
        else:  # its charge stays: the next attempt settles this one as unknown
            timers = call.source.flow.timers or self.conditions.timers
            self.at(self.now + max(timers.floor, call.tries / 1000) + timers.late(self.rng), self._wait, call)

    def _done(self, call: Call) -> None:
        flow = call.source.flow
        if self.gate is not None and not (flow.unreleased and self.rng.random() < flow.unreleased):
            usage = call.counted
            if flow.reported is not None:
                usage = dict(zip(self.names, flow.reported(call.actual)))
            self._release(call, {"outcome": "ok", "usage": usage})
        if flow.workers:
            if flow.think:
                self.at(self.now + flow.think * (0.5 + self.rng.random()), self._start, call.source)
            else:
                self._start(call.source)

    def _release(self, call: Call, args: dict[str, Any], attempt: int = 0) -> None:
        self.target.now_us = START_US + round(self.now * 1e6)
        args.update(id=call.id, attempt=attempt or call.attempt, action="settle")
        if call.headers:
            args["rate_limits"] = call.headers
        self.target.call("release", args)

    def _change(self, change: Any) -> None:
        for name, cap in change.caps.items():
            self.provider.change_cap(self.now, name, cap)
        if self.gate is not None:
            self.target.now_us = START_US + round(self.now * 1e6)
            self.gate.change(change.caps, change.weights)
