"""From known records to known measures, and from repeats to intervals."""

import dataclasses
import json
import math
import pathlib

import numpy
import pandas
import pytest

import records
from analysis import fairness, interval, results_of, rounded, summary_of
from cells import ARMS, SCALES, TRACE, Cell, full, quick
from litellm_proxy import slices_of
from machine import Load
from measures import Queue, ideal_rates
from records import Record, Send
from summary import summarize
from workloads import CLASS_WEIGHTS, MAIN, WORKLOADS

PACE = {"a1": 15.0, "b1": 15.0, "a2": 9.0, "b2": 9.0, "a3": 6.0, "b3": 6.0}  # the ideal calls/s
CELL = Cell("driver", "cross-priority", "fairgate", warm_up=5.0, seconds=10.0)


def call(tenant: str, end: float, wait: float = 0.2) -> Record:
    return Record(
        tenant,
        f"p{tenant[1]}",
        asked=end - 0.1 - wait,
        granted=end - 0.1,
        sends=[Send(end - 0.1, end, 200)],
        admits=2,
        grants=1,
        gate_s=0.002,
        deferred_s=wait - 0.002,
        tokens=10,
    )


def steady(pace: dict[str, float], begin: float, end: float) -> list[Record]:
    calls = []
    for tenant, rate in pace.items():
        for i in range(round(rate * (end - begin))):
            calls.append(call(tenant, begin + (i + 0.5) / rate))
    return calls


def write_cell(folder: pathlib.Path, calls: list[Record], **more: object) -> None:
    folder.mkdir(exist_ok=True)
    records.write(folder / "records.jsonl", calls, 0.0)
    lines = [f"{s.end - 0.001:.5f} {s.status}\n" for r in calls for s in r.sends]
    (folder / "answers.txt").write_text("".join(sorted(lines)))
    load = {"busy": 0.3, "niced": 0.1, "nice": 0, "own": 0.1, "by_process": {},
            "loadavg_before": 0.0, "loadavg_after": 0.0}
    meta = {
        "cell": CELL.__dict__,
        "begin": 5.0,
        "end": 15.0,
        "drain_begin": None,
        "load": load,
        "script_ms": {"p50": 0.1},
        "timer_late_ms": {},
        "when": "now",
        "machine": {},
    }
    (folder / "meta.json").write_text(json.dumps(meta | more))


def test_the_ideal_allocation_is_told_as_such(tmp_path: pathlib.Path) -> None:
    calls = steady(PACE, 0, 20)
    for i in range(0, len(calls), 10):
        calls[i].sends.insert(0, Send(calls[i].asked, calls[i].asked + 0.01, 429))
    write_cell(tmp_path, calls)
    got = summary_of(tmp_path)
    assert got["jain"] == pytest.approx(1) and got["leak"] == pytest.approx(0, abs=1e-9)
    assert got["ok_per_class"] == pytest.approx({"p1": 30, "p2": 18, "p3": 12})
    assert got["cap_used"] == pytest.approx(1) and got["cap_ideal"] == pytest.approx(1)
    assert got["share_429"] == pytest.approx(1 / 11, abs=0.003)
    assert got["calls_per_grant"] == 2
    assert got["median_latency_ms"] == pytest.approx(300)
    assert {len(served) for served in got["served"].values()} == {10}
    assert sum(map(sum, got["served"].values())) == 600
    assert math.isnan(got["drain_s"])


def test_a_known_allocation_has_its_jain_and_its_leak(tmp_path: pathlib.Path) -> None:
    """One of six at 78 %: Jain hides it, the least ratio does not. A third of a class elsewhere is a leak."""
    write_cell(tmp_path, steady(PACE | {"b3": 6 * 0.78}, 5, 15.01))
    got = summary_of(tmp_path)
    assert got["jain"] == pytest.approx(0.993, abs=5e-4)
    assert got["min_r"] == pytest.approx(0.78, abs=0.02)
    write_cell(tmp_path, steady(PACE | {"a1": 10, "b1": 10, "a3": 11, "b3": 11}, 5, 15))
    assert summary_of(tmp_path)["leak"] == pytest.approx(10 / 60, abs=0.002)


def test_two_implementations_agree(tmp_path: pathlib.Path) -> None:
    rng = numpy.random.default_rng(7)
    calls = [call(t, float(rng.uniform(5, 15)), float(rng.exponential(0.4)))
             for t, rate in PACE.items() for _ in range(int(rate * rng.uniform(3, 12)))]
    write_cell(tmp_path, calls)
    got, other = summary_of(tmp_path), summarize(calls, WORKLOADS["cross-priority"], 5, 15)
    assert got["jain"] == pytest.approx(other.achievement_jain)
    assert (got["min_r"], got["max_r"]) == pytest.approx((other.r_min, other.r_max))
    assert got["ok_per_class"] == pytest.approx(other.ok_per_second)
    assert got["cap_used"] == pytest.approx(max(other.cap_used.values()))
    assert got["p1_http_p95_ms"] == pytest.approx(other.p1_http_p95_ms, abs=0.1)
    assert got["p1_first_ask_p95_ms"] == pytest.approx(other.p1_first_ask_p95_ms, abs=0.1)
    assert got["slot_ms"] == pytest.approx(other.slot_ms, abs=0.1)
    assert got["calls_per_grant"] == pytest.approx(other.admits_per_grant)


def test_a_measured_demand_moves_the_ideal() -> None:
    calls = pandas.DataFrame({"tenant": ["a1"] * 50 + ["a2"] * 550, "tokens": 10, "ok": True})
    load = WORKLOADS["cross-priority"]
    demand = dict.fromkeys(PACE, 0.0) | {"a1": 5.0, "a2": 100.0}
    got = fairness(calls, load, 10.0, demand)
    assert got["r"] == pytest.approx({"a1": 1, "a2": 1})


def test_drain_is_the_span_until_the_last(tmp_path: pathlib.Path) -> None:
    calls = steady(PACE, 0, 16)
    for worker in range(6):
        for i in range(100):
            last = call("a1" if worker else "b3", 16 + (i + 1) * (0.12 if worker else 0.2))
            last.worker, last.draining = worker, True
            calls.append(last)
    write_cell(tmp_path, calls, drain_begin=16.0)
    got = summary_of(tmp_path)
    assert got["drain_s"] == pytest.approx(20)
    assert got["drain_of_ideal"] == pytest.approx(2)  # 600 calls at 60/s
    assert got["completion_s"] == pytest.approx({"p1": 12, "p3": 20})
    assert sum(map(sum, got["served"].values())) == 600  # none of the drain


def test_intervals_are_students() -> None:
    assert interval([1, 2, 3, 4, 5]) == pytest.approx({"mean": 3, "ci95": 1.9632}, abs=1e-4)
    assert rounded(interval([2.0])) == {"mean": 2.0, "ci95": None}


def test_results_are_over_the_valid_repeats(tmp_path: pathlib.Path) -> None:
    write_cell(tmp_path, steady(PACE, 5, 15))
    one = rounded(summary_of(tmp_path))
    busy = one | {"valid": False, "share_429": 0.5, "cell": one["cell"] | {"repeat": 2}}
    third = one | {"share_429": 0.02, "cell": one["cell"] | {"repeat": 3}}
    (row,) = results_of([one, busy, third])
    assert (row["repeats"], row["seeds"], row["invalid_repeats"]) == (2, [1, 3], 1)
    assert row["share_429"]["mean"] == pytest.approx(0.01)
    assert row["ok_per_class"]["p1"] == {"mean": 30.0, "ci95": 0.0}
    (row,) = results_of([busy])
    assert not row["valid"] and row["share_429"]["mean"] == 0.5
    json.dumps(row, allow_nan=False)


def test_who_gives_way_does_not_make_a_cell_invalid() -> None:
    load = Load(0.9, 0.3, 0, 0.1, {}, 2.0, 2.0)
    assert load.valid
    assert not dataclasses.replace(load, nice=19).valid
    assert not dataclasses.replace(load, niced=0.1).valid


def test_records_survive_their_file(tmp_path: pathlib.Path) -> None:
    calls = steady({"a1": 3}, 10, 12)
    calls.append(Record("b1", "p1", 11.0, error="cut off"))
    records.write(tmp_path / "r", calls, 10.0)
    back = records.read(tmp_path / "r")
    assert [r.tenant for r in back] == [r.tenant for r in calls]
    assert back[0].sends[0].end == pytest.approx(calls[0].sends[0].end - 10, abs=1e-5)
    assert back[-1].granted == 0 and back[-1].error == "cut off" and not back[-1].ok


def test_plans() -> None:
    cells = full(5)
    assert len({cell.name for cell in cells}) == len(cells)
    assert {cell.workload for cell in cells} == {*WORKLOADS, TRACE}
    assert {cell.stack for cell in cells} == set(SCALES)
    assert all(cell.arm in ARMS[cell.stack] for cell in cells)
    assert {cell.workload for cell in quick()} == set(MAIN)
    assert sum(cell.takes() for cell in quick()) <= 300
    for cell in (c for c in cells if c.workload != TRACE):
        caps = {n: cap * SCALES[cell.stack] for n, cap in WORKLOADS[cell.workload].caps.items()}
        assert cell.load.caps == pytest.approx(caps)
    # Who is uncongested stays so: a quarter of the cap.
    third = Cell("temporal", "uncongested", "naive").load
    assert third.queues()[0].demand == pytest.approx(5)


def test_slices_are_the_caps_by_weight() -> None:
    parts = slices_of(WORKLOADS["token-bound"])
    assert sum(part["rpm"] for part in parts.values()) == 3600
    assert sum(part["tpm"] for part in parts.values()) == 720_000
    assert parts["a1"]["rpm"] / parts["a3"]["rpm"] == CLASS_WEIGHTS["p1"] / CLASS_WEIGHTS["p3"]
    assert slices_of(WORKLOADS["overload"]) == {"a1": {"rpm": 3600}}


def greedy_rates(queues: list[Queue], caps: dict[str, float], steps: int) -> list[float]:
    """The two-level ideal by another way: small portions, each to the class and there to the queue that is
    furthest behind and can still grow."""
    rates = [0.0] * len(queues)
    left = dict(caps)
    portion = 1.0 / steps  # of dominant share
    while True:
        open_to = [i for i, q in enumerate(queues)
                   if rates[i] < q.demand and all(left[n] > 0 for n in caps if q.cost.get(n, 0) > 0)]
        if not open_to:
            return rates
        served: dict[str, float] = {}
        for rate, q in zip(rates, queues):
            served[q.priority] = served.get(q.priority, 0) + rate * q.dominant(caps) / q.class_weight
        behind = min({queues[i].priority for i in open_to}, key=lambda c: (served[c], c))
        mine = [i for i in open_to if queues[i].priority == behind]
        i = min(mine, key=lambda i: rates[i] * queues[i].dominant(caps) / queues[i].tenant_weight)
        rates[i] += portion / queues[i].dominant(caps)
        for name in caps:
            left[name] -= portion / queues[i].dominant(caps) * queues[i].cost.get(name, 0.0)


@pytest.mark.parametrize("name", [n for n in WORKLOADS if n != "uncongested"])
def test_filling_agrees_with_portions(name: str) -> None:
    load = WORKLOADS[name]
    queues = load.queues()
    got = greedy_rates(queues, dict(load.caps), 4000)
    assert numpy.allclose(got, ideal_rates(queues, load.caps), rtol=0.01)
