"""The simulator itself: order, windows, ideals, callers, determinism. A stand-in gate where no real one is needed."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from measures import Queue
from test_measures import lp_rates
from valkey import LIBRARY, START_US, Valkey

from sim.bars import Bar, bars_of
from sim.demand import CLASSES, TIMERS, Change, Flow, Scenario, Timers, const
from sim.engine import Conditions, Engine
from sim.jobs import Job
from sim.mechanisms import ABLATIONS, MECHANISMS, without
from sim.plans import full, quick
from sim.provider import Provider
from sim.report import groups, job_of, make_rows, markdown_table
from sim.results import _pooled_p999, ideal_shares, measure
from sim.runs import Worker
from sim.scenarios import SCENARIOS, find

ONE = const(1.0)
Answer = dict[str, Any]


class StandIn:
    """Answers Admit by a function of (seconds, arguments); keeps what it was asked."""

    def __init__(self, decide: Callable[[float, Answer], Answer]) -> None:
        self.target = self
        self.now_us = START_US
        self.decide = decide
        self.asked: list[tuple[float, str, Answer]] = []

    def call(self, entry: str, args: Answer) -> Answer:
        at = (self.now_us - START_US) / 1e6
        self.asked.append((at, entry, dict(args)))
        return self.decide(at, args) if entry == "admit" else {"result": "settled"}


def grant(_at: float, _args: Answer) -> Answer:
    return {"outcome": "grant"}


def run(scenario: Scenario, gate: StandIn | None, seed: int = 1, conditions: Conditions | None = None) -> Engine:
    engine = Engine(scenario, gate, seed, conditions or Conditions())
    engine.run()
    return engine


def one_flow(seconds: float = 10.0, warm_up: float = 0.0, window: str = "continuous", **flow: Any) -> Scenario:
    fields: dict[str, Any] = {"workers": 1, **flow}
    return Scenario(
        "one", {"requests": 60.0}, (Flow("t", "p1", ONE, **fields),), window=window, seconds=seconds, warm_up=warm_up
    )


def test_events_come_in_order_of_time_and_then_of_arrival() -> None:
    engine = Engine(one_flow(workers=0), None, 1, Conditions())
    rng, seen = random.Random(2), []
    for i in range(500):
        when = rng.randrange(50) / 10
        engine.at(when, lambda what: seen.append((engine.now, *what)), (when, i))
    engine.run()
    assert len(seen) == 500
    assert all(now == when for now, when, _ in seen)
    assert [s[1:] for s in seen] == sorted(s[1:] for s in seen)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("window", ["fixed", "sliding", "continuous"])
def test_the_provider_counts_as_brute_force_does(window: str, seed: int) -> None:
    rng = random.Random(seed)
    cap, length, phase = 10.0, 2.0, 0.37
    provider = Provider(Scenario("s", {"x": cap}, (), window=window, window_s=length, phase_s=phase))
    limit = cap * length
    now, passed = 0.0, []
    for _ in range(1500):
        now += rng.expovariate(12)
        cost = rng.uniform(0.5, 4)
        if window == "fixed":
            begin = (now - phase) // length * length + phase
            used = sum(c for t, c in passed if t >= begin)
        elif window == "sliding":
            used = sum(c for t, c in passed if t > now - length)
        else:  # a bucket that is never above full: the worst suffix of what passed
            used = suffix = 0.0
            for begin, c in reversed(passed):
                suffix += c
                used = max(used, suffix - cap * (now - begin))
        admitted = provider.call(now, {"x": cost}).admitted
        assert admitted == (used + cost <= limit), (now, used, cost)
        if admitted:
            passed.append((now, cost))


@pytest.mark.parametrize("name", ["cross-priority", "token-bound", "mixed-dominant", "uncongested"])
def test_ideals_agree_with_linear_programs(name: str) -> None:
    scenario = find(name, "continuous", 6.0)
    engine = run(scenario, None)
    ideal = ideal_shares(engine, 1.0)
    sources = list(ideal)
    peers = {cls: sum(s.flow.cls == cls for s in sources) for cls in CLASSES}
    weights = [CLASSES[s.flow.cls] / peers[s.flow.cls] for s in sources]
    queues = [
        Queue(
            s.flow.name,
            s.flow.cls,
            1.0,
            1.0,
            dict(zip(engine.names, s.flow.draw(random.Random(1), 0)[1])),
            s.flow.workers / (0.1 + s.flow.think),
        )
        for s in sources
    ]
    rates = lp_rates(queues, scenario.caps, weights)
    expected = [rate * q.dominant(scenario.caps) for rate, q in zip(rates, queues)]
    assert numpy.allclose(list(ideal.values()), expected, rtol=1e-4)


def test_closed_loop_callers_keep_one_call_each_and_release_it() -> None:
    gate = StandIn(grant)
    engine = run(one_flow(workers=3), gate)
    open_now, most = set(), 0
    for _, entry, args in gate.asked:
        (open_now.add if entry == "admit" else open_now.discard)(args["id"])
        most = max(most, len(open_now))
    assert most == 3
    assert 3 * 10 / 0.13 == pytest.approx(engine.sources[0].ok, rel=0.1)  # latency 100 ms, think 20 ms, network


def test_open_loop_callers_come_at_their_rate() -> None:
    engine = run(one_flow(100.0, workers=0, rate=30.0, burst=5), StandIn(grant))
    assert engine.sources[0].offered == pytest.approx(3000, rel=0.1)


def test_deferred_callers_come_back_late_and_not_before_their_floor() -> None:
    def decide(at: float, args: Answer) -> Answer:
        return {"outcome": "defer", "delay_us": 100_000}

    for timers, least, mean in ((Timers(0.02, 0.03), 0.12, 0.15), (Timers(0.01, 0.0, floor=1.0), 1.01, 1.01)):
        gate = StandIn(decide)
        run(one_flow(300.0), gate, conditions=Conditions(timers))
        times = [at for at, _, _ in gate.asked]
        waits = numpy.diff(times)
        assert waits.min() >= least
        assert waits.mean() == pytest.approx(mean + 0.0025, rel=0.05)
        assert gate.asked[0][2]["timer_floor_us"] == timers.floor * 1e6


def test_a_held_call_is_decided_again_by_the_server_when_due() -> None:
    def decide(at: float, args: Answer) -> Answer:
        return {"outcome": "grant"} if args["held"] else {"outcome": "defer", "delay_us": 40_000, "hold": True}

    gate = StandIn(decide)
    engine = run(one_flow(), gate, conditions=Conditions(hold=0.1))
    admits = [(at, args) for at, entry, args in gate.asked if entry == "admit"]
    for (first, asked), (second, held) in zip(admits[::2], admits[1::2]):
        assert (asked["held"], held["held"]) == (False, True)
        assert asked["id"] == held["id"]
        assert second - first == pytest.approx(0.04, abs=1e-5)
        assert (asked["hold_us"], held["hold_us"]) == (100_000, pytest.approx(60_000, abs=2))
    assert engine.counts.admits == pytest.approx(
        engine.counts.grants, abs=1
    )  # parked in the server: one call of the client
    assert engine.counts.evaluations >= 2 * engine.counts.grants


def test_refused_callers_tell_the_gate_and_ask_for_the_next_attempt() -> None:
    gate = StandIn(grant)
    scenario = dataclasses.replace(one_flow(3.0, window="fixed", workers=12), caps={"requests": 20.0})
    engine = run(scenario, gate)
    assert engine.counts.refused > 0
    told = [
        (i, args)
        for i, (_, entry, args) in enumerate(gate.asked)
        if entry == "release" and args["outcome"] == "rate_limited"
    ]
    assert told
    for i, args in told:
        assert 0 < args["retry_after_us"] <= 1_000_000
        again = next((a for _, entry, a in gate.asked[i + 1 :] if entry == "admit" and a["id"] == args["id"]), None)
        assert again is None or again["attempt"] == args["attempt"] + 1


def test_lost_callers_never_come_back_and_their_workers_start_anew() -> None:
    gate = StandIn(lambda at, args: {"outcome": "defer", "delay_us": 1000})
    engine = run(one_flow(workers=5, lost=1.0), gate)
    ids = [args["id"] for _, _, args in gate.asked]
    assert len(set(ids)) == len(ids) > 50
    assert engine.counts.lost == len(ids)


def test_a_changed_cap_also_changes_at_the_provider() -> None:
    scenario = dataclasses.replace(
        one_flow(16.0, warm_up=11.0, workers=6), changes=(Change(10.0, caps={"requests": 20.0}),)
    )
    changed: list[Any] = []
    gate = StandIn(grant)
    gate.change = lambda caps, weights: changed.append((caps, weights))  # type: ignore[attr-defined]
    engine = run(scenario, gate)
    assert changed == [({"requests": 20.0}, {})]
    assert measure(engine)["cap_used"] == pytest.approx(1.0, abs=0.1)  # of 20/s, though 50/s are granted


def test_draining_gives_every_worker_the_same_calls() -> None:
    engine = run(
        dataclasses.replace(find("cross-priority", "continuous", 7.0), caps={"requests": 600.0}), StandIn(grant)
    )
    before = [s.drawn for s in engine.sources]
    ratio = engine.drain(1.0)
    each = [(s.drawn - b) / s.flow.workers for s, b in zip(engine.sources, before)]
    assert each == [each[0]] * 6
    assert sum(s.drawn - b for s, b in zip(engine.sources, before)) == pytest.approx(600, abs=28)
    assert 0.95 < ratio < 2


def test_naive_callers_reproduce_the_imbalance_by_concurrency() -> None:
    result = measure(run(find("cross-priority", "fixed", 30.0), None))
    assert result["share_429"] > 0.2
    assert result["jain"] < 0.7


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    servers = [Valkey(), Valkey()]
    out = [Worker(server.socket) for server in servers]
    yield out
    for worker, server in zip(out, servers):
        worker.close()
        server.stop()


def test_the_same_seed_gives_the_same_result_on_any_server(workers: list[Worker]) -> None:
    def result(worker: Worker, seed: int) -> dict[str, Any]:
        out = worker.run(Job("noisy-estimates", "sliding", seed=seed, seconds=12.0, hold=0.05))
        del out["wall_s"]
        return out

    first = result(workers[0], 1)
    assert result(workers[1], 1) == first
    workers[1].run(Job("cross-priority", "fixed", seconds=7.0))
    assert result(workers[1], 1) == first
    assert result(workers[0], 2) != first


def test_both_disciplines_share_by_weight(workers: list[Worker]) -> None:
    queue = workers[0].run(Job("cross-priority", "continuous", seconds=25.0))
    buckets = workers[1].run(Job("cross-priority", "continuous", "buckets", seconds=25.0))
    assert queue["jain"] > 0.99
    assert buckets["jain"] > 0.95
    assert buckets["calls_per_grant"] > 2 * queue["calls_per_grant"]  # everybody is told the same moment


def test_the_table_is_well_formed() -> None:
    for name, scenario in SCENARIOS.items():
        assert scenario.name == name
        assert 0 < scenario.warm_up < scenario.seconds
        assert {flow.cls for flow in scenario.flows} <= set(CLASSES)
        names = [(flow.name, flow.cls) for flow in scenario.flows]
        assert len(set(names)) == len(names)
        for flow in scenario.flows:
            assert bool(flow.workers) != bool(flow.rate)
            assert all(len(part) == len(scenario.caps) for part in flow.draw(random.Random(1), 0))


def test_mechanisms_are_found_in_the_library() -> None:
    text = LIBRARY.read_text()
    for name in MECHANISMS:
        assert without(name, text) != text
    assert set(ABLATIONS) == set(MECHANISMS)


def test_a_mechanism_that_is_not_there_fails_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.mechanisms.MECHANISMS", {"x": [("no such text", "")]})
    with pytest.raises(ValueError, match="no such text"):
        without("x", "return 1")
    with pytest.raises(KeyError):
        without("y", "return 1")


def test_the_p999_of_gaps_is_of_all_seeds_together() -> None:
    rng = random.Random(3)
    seeds = [[rng.expovariate(1) for _ in range(700)] for _ in range(5)]
    tails = [{"count": len(gaps), "longest": sorted(gaps)[-30:]} for gaps in seeds]
    assert _pooled_p999(tails) == pytest.approx(numpy.quantile([g for gaps in seeds for g in gaps], 0.999))


def test_bars_hold_by_value_and_are_told_apart_by_cell() -> None:
    m = {"cap_used": 0.9, "cap_ideal": 1.0, "min_r": 0.88, "jain": 0.999, "swing": None}
    assert Bar("cap", ">=", 0.9).holds(m)
    assert not Bar("cap", ">=", 0.91).holds(m)
    assert Bar("min_r/cap", ">=", 0.97).holds(m)
    assert Bar("swing", "<=", 0.1).holds(m)
    limits = {(b.measure, b.limit) for b in bars_of(Job("reservation", "sliding", hold=0.1), "sliding")}
    assert {("cap", 0.94), ("share_429", 0.002), ("calls_per_grant", 3)} <= limits
    assert not bars_of(Job("reservation", "sliding", "buckets"), "sliding")


def test_rows_name_the_cells_that_made_them(workers: list[Worker]) -> None:
    jobs = [
        Job("overload", "fixed", seed=1, seconds=8.0, drain=True),
        Job("overload", "fixed", "naive", 1, seconds=8.0, drain=True),
        Job("disjoint/fixed", seed=1, seconds=8.0),
    ]
    rows = make_rows((job, workers[0].run(job)) for job in jobs)
    assert [job_of(row) for row in rows] == [job.cell() for job in jobs]
    assert rows[0]["drain_against_naive"] == pytest.approx(rows[0]["drain_ratio"] / rows[1]["drain_ratio"], rel=1e-4)
    assert [title for title, _ in groups(rows)] == ["Workloads", "Scenarios"]
    assert markdown_table(rows).count("\n") == 4


def test_plans_are_whole() -> None:
    assert len(quick(1)) == 9 * 3 * 3
    assert len(set(full(2))) == len(full(2))
    assert {job.timers for job in full(1)} == set(TIMERS)
    assert {job.scenario for job in full(1)} >= set(SCENARIOS)
