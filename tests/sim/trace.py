"""The evaluation's synthetic trace in virtual time: chains of calls that come when they come, an hour of them.

    PYTHONPATH=tests FAIRGATE_BUILD_DIR=build/sim python -m sim.trace --json tests/sim/trace.json     (make sim-trace)
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from measures import ideal_rates, percentile
from traces import Chain, chains, trace
from valkey import Valkey
from workloads import BOTH

from .demand import TIMERS, Amounts, Flow, Scenario
from .engine import Call, Conditions, Engine, Source
from .gates import Connection, Gate, Scripts
from .jobs import ARMS
from .results import measure

NAMES = tuple(BOTH)  # dimensions, in order


def _no_draw(_rng: random.Random, _number: int) -> tuple[Amounts, Amounts]:
    return (1.0, 0.0), (1.0, 0.0)


def trace_scenario(seed: int, window: str, seconds: float, warm_up: float) -> Scenario:
    """What is due to a tenant comes from what the trace offers in the measured time."""
    load = trace(seed, warm_up, seconds)
    queues = load.queues()
    rates = ideal_rates(queues, load.caps)
    due = {q.tenant: rate * q.dominant(load.caps) for q, rate in zip(queues, rates)}
    flows = tuple(Flow(t.name, t.priority, _no_draw, rate=1.0) for t in load.tenants)
    return Scenario(
        "trace", BOTH, flows, window=window, seconds=seconds, warm_up=warm_up, ideal_share=due
    )


class TraceEngine(Engine):
    """Its calls are the trace's: each begins when the one before it in its chain is through, and a pause has passed."""

    def __init__(self, chains: Sequence[Chain], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._chains = chains
        self._by_name = {source.flow.name: source for source in self.sources}
        self._next: dict[str, tuple[Chain, int]] = {}  # call id -> what follows it

    def run(self) -> None:
        for chain in self._chains:
            self.at(chain.start + chain.steps[0].pause, self._step, (chain, 0))
        super().run()

    def _arrive(self, source: Source) -> None:
        """Nothing arrives by a rate."""

    def _step(self, place: tuple[Chain, int]) -> None:
        chain, number = place
        source = self._by_name[chain.tenant]
        call = chain.steps[number].call
        told = (1.0, float(call.estimate_tokens))
        actual = (1.0, float(call.actual_tokens))
        source.flow = dataclasses.replace(source.flow, draw=lambda _rng, _number: (told, actual))
        self._next[f"c{self._ids + 1}"] = (chain, number + 1)
        self._start(source)

    def _done(self, call: Call) -> None:
        super()._done(call)
        chain, number = self._next.pop(call.id)
        if number < len(chain.steps):
            self.at(self.now + chain.steps[number].pause, self._step, (chain, number))


def run(arm: str, window: str, seed: int, seconds: float, warm_up: float) -> dict[str, Any]:
    """The measures of a run, and per class p50 and p95 from first ask to success."""
    scenario = trace_scenario(seed, window, seconds, warm_up)
    began = time.perf_counter()
    server = Valkey()
    try:
        gate = None
        if arm != "naive":
            connection = Connection(server.socket)
            scripts = Scripts(connection)
            scripts.load()
            gate = Gate(connection, scripts, scenario, arm)
        conditions = Conditions(TIMERS["normal"], hints=arm != "buckets")
        engine = TraceEngine(chains(seed, seconds), scenario, gate, seed, conditions)
        engine.run()
    finally:
        server.stop()
    measured = measure(engine)
    times: dict[str, list[float]] = {}
    for source in engine.sources:
        times.setdefault(source.flow.cls, []).extend(source.times)
    keep = ("share_429", "jain", "min_r", "max_r", "cap_used", "cap_ideal", "ok_per_class", "leak", "calls_per_grant")
    return {
        "arm": arm,
        "window": window,
        "seed": seed,
        "seconds": seconds,
        "calls": sum(source.ok for source in engine.sources),
        **{key: measured[key] for key in keep},
        "call_p50_s": {name: percentile(values, 0.5) for name, values in times.items()},
        "call_p95_s": {name: percentile(values, 0.95) for name, values in times.items()},
        "wall_s": time.perf_counter() - began,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sim.trace", description=__doc__)
    parser.add_argument("--arm", default=",".join(ARMS))
    parser.add_argument("--window", default="fixed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--warm-up", type=float, default=60.0)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    for window in options.window.split(","):
        for arm in options.arm.split(","):
            row = run(arm, window, options.seed, options.seconds, options.warm_up)
            rows.append(json.loads(json.dumps(row), parse_constant=lambda _: None))
            print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    sys.exit(main())
