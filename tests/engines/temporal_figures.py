"""Measures the adapters on Temporal and writes their section of FIGURES.md: temporal_figures.py [LANGUAGE...].

Twice as many workflows arrive as the cap lets through, one call each. The dev server's history says how long a deferred
activity kept its slot (started to failed, the report of the failure included), and what a call leaves behind. A row during
which the machine's cores were busy is measured again, a few times; the row with the idlest of them stays.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Any

import common
import figures
import temporal
from temporalio.api.enums.v1 import EventType

RATE = 10
"""Calls per second that the cap lets through."""
CALLS = 80
WARM_UP_CALLS = 30
"""Before those that count: workers run for days, and compile what they run in their first seconds."""
ARRIVAL_S = 1 / (2 * RATE)
EVENTS_OF_A_WORKFLOW = 5
"""Its ends, and its first task."""
TIMERS: dict[str, tuple[dict[str, str], float]] = {
    "default (floor 1 s)": ({}, 1.0),
    "timerProcessorMaxTimeShift=1ms": ({"history.timerProcessorMaxTimeShift": '"1ms"'}, 0.02),
}
HOLDS_S = (0.0, 1.0)
BUSY_MAX = 0.7
"""Of all cores, by whomever: above it the times are those of the neighbours."""
TRIES = 2


def measured(engine: temporal.Temporal, name: str, options: common.WorkerOptions) -> list[str]:
    """The cells of a row."""
    tries: list[tuple[float, list[str]]] = []
    while not tries or (tries[-1][0] > BUSY_MAX and len(tries) < TRIES):
        used, total = cores()
        cells = measure(engine, f"{name}-{len(tries)}", options)
        used_after, total_after = cores()
        tries.append(((used_after - used) / (total_after - total), cells))
    busy, cells = min(tries)
    return [*cells, f"{busy:.0%}{' (busy)' if busy > BUSY_MAX else ''}"]


def cores() -> tuple[int, int]:
    """Time used by all processes, and time in all, in ticks."""
    ticks = [int(part) for part in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def measure(engine: temporal.Temporal, name: str, options: common.WorkerOptions) -> list[str]:
    for target in (name, f"{name}-warm-up"):
        engine.gate.configure(target, dimensions=[{**common.DIMENSION, "limit": RATE}])
    handles: list[Any] = []
    with engine.worker(options):
        warm_up(engine, f"{name}-warm-up")
        began = time.monotonic()
        for number in range(CALLS):
            time.sleep(max(began + number * ARRIVAL_S - time.monotonic(), 0))
            work = common.Work(work=f"{name}-{number}", target=name, upstream=engine.upstream.url)
            handles.append(engine.submit(work))
        for handle in handles:
            engine.wait(handle, 120)
    sends = engine.upstream.sends(*(f"{name}-{number}" for number in range(CALLS)))
    assert len(sends) == CALLS and not any(send.degraded for send in sends)
    span_s = max(send.at for send in sends) - began
    deferred_ms, granted_ms, events = [], [], 0
    for handle in handles:
        history = engine.history(handle)
        events += len(history.events) - EVENTS_OF_A_WORKFLOW
        deferred, granted = occupancies(history.events)
        deferred_ms += deferred
        granted_ms += granted
    return [
        f"{statistics.median(deferred_ms):.0f} / {percentile(deferred_ms, 95):.0f}" if deferred_ms else "none deferred",
        f"{statistics.median(granted_ms):.0f} / {percentile(granted_ms, 95):.0f}",
        f"{(len(deferred_ms) + len(granted_ms)) / CALLS:.2f}",
        f"{events / CALLS:.1f}",
        f"{CALLS / span_s / RATE:.0%}",
    ]


def warm_up(engine: temporal.Temporal, name: str) -> None:
    works = (common.Work(work=f"{name}-{n}", target=name, upstream=engine.upstream.url) for n in range(WARM_UP_CALLS))
    for handle in [engine.submit(work) for work in works]:
        engine.wait(handle, 60)


def occupancies(events: Any) -> tuple[list[float], list[float]]:
    """Milliseconds of slots: of deferred activities, and of those that completed."""
    started: dict[int, float] = {}
    deferred, granted = [], []
    for event in events:
        at_ms = event.event_time.ToNanoseconds() / 1e6
        match EventType.Name(event.event_type):
            case "EVENT_TYPE_ACTIVITY_TASK_STARTED":
                started[event.event_id] = at_ms
            case "EVENT_TYPE_ACTIVITY_TASK_FAILED":
                failed = event.activity_task_failed_event_attributes
                assert failed.failure.application_failure_info.type == "fairgate.Deferred", failed
                deferred.append(at_ms - started[failed.started_event_id])
            case "EVENT_TYPE_ACTIVITY_TASK_COMPLETED":
                granted.append(at_ms - started[event.activity_task_completed_event_attributes.started_event_id])
    return deferred, granted


def percentile(values: list[float], rank: int) -> float:
    return sorted(values)[min(len(values) * rank // 100, len(values) - 1)]


def main(languages: list[str]) -> None:
    header = ["language", "timers of the server", "`max_hold`", "slot of a deferral, ms p50 / p95"]
    header += [
        "slot of a call, ms p50 / p95",
        "Admits a call",
        "history events a call",
        "of the cap used",
        "cores busy",
    ]
    rows = [header, ["---"] * len(header)]
    with contextlib.ExitStack() as stack:
        root = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairgate-figures-")))
        for folder in ("gate", "workers", *(f"temporal-{number}" for number in range(len(TIMERS)))):
            (root / folder).mkdir()
        gate = common.Gate(root / "gate")
        stack.callback(gate.stop)
        upstream = common.Upstream()
        stack.callback(upstream.stop)
        for number, (timers, (config, floor_s)) in enumerate(TIMERS.items()):
            server = temporal.Server(root / f"temporal-{number}", config)
            stack.callback(server.stop)
            for language in languages:
                built = temporal.LANGUAGES[language]()
                engine = temporal.Temporal(server, built, gate, upstream, root / "workers")
                for hold_s in HOLDS_S:
                    options = common.WorkerOptions(timer_floor_s=floor_s, max_hold_s=hold_s)
                    name = f"figures-{language}-{number}-{hold_s}"
                    row = [language, timers, f"{hold_s:g} s", *measured(engine, name, options)]
                    print(" | ".join(row), flush=True)
                    rows.append(row)
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    text = f"""By `temporal_figures.py`: {2 * RATE} workflows a second arrive, of one call each, at a cap of {RATE}/s; {CALLS} in all, after {WARM_UP_CALLS} that do not count.
Dev server, gate, worker and upstream on {os.cpu_count()} cores, nice {os.nice(0)}. Times of rows with
busy cores are those of the neighbours as well.

{table}

The slot's time is the server's: from handing out the activity to its reported end, so two round trips of the worker besides
the gate's. A call without a deferral leaves 6 events (its activity's 3, and a workflow task's 3); each deferral adds 11
(3 of the activity that ended, 2 of the timer, 3 of a workflow task after each of them). A workflow has 5 more of its own.
"""
    figures.write_section("Temporal", text)


if __name__ == "__main__":
    main(sys.argv[1:] or list(temporal.LANGUAGES))
