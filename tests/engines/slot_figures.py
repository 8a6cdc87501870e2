"""What a deferral costs an engine, measured; and the page on it."""

from __future__ import annotations

import datetime
import re
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from common import HERE, Engine, Program, Work, WorkerOptions

CALLS = 40
CALLS_PER_S = 10
CALLS_PER_S_ALONE = 4
OCCUPANCY_MS_MAX = 30
SLEEPS_MS = (1, 10, 100, 1000)
_HELD = re.compile(r"^held ([\d.]+) ms, deferred$", re.MULTILINE)


def written(worker: Program, _: str) -> list[float]:
    """Workers write it: "held MS ms, deferred"."""
    return [float(found) for found in _HELD.findall(worker.text())]


def measure(engine: Engine, held_ms: Callable[[Program, str], list[float]] = written) -> dict[str, str]:
    """A line of a table each.

    `held_ms` of the worker and the works' prefix: how long deferred questions held a slot.
    """
    alone = _measure(engine, "alone", works=1, calls=CALLS, held_ms=held_ms)
    crowd = _measure(engine, "crowd", works=CALLS, calls=1, held_ms=held_ms)
    bar = f"bar: median {OCCUPANCY_MS_MAX}"
    return {
        f"{CALLS} calls one after the other, slot held by a deferred question, ms ({bar})": alone[0],
        "the same, questions (Admit) per call": alone[1],
        f"{CALLS} calls at once, slot held by a deferred question, ms": crowd[0],
        "the same at once, questions (Admit) per call": crowd[1],
    }


def _measure(
    engine: Engine, name: str, *, works: int, calls: int, held_ms: Callable[[Program, str], list[float]]
) -> tuple[str, str]:
    dimension: dict[str, Any] = {
        "name": "requests",
        "limit": CALLS_PER_S,
        "window": "1s",
        "window_model": "WINDOW_MODEL_CONTINUOUS",
    }
    if works == 1:  # slower than it is, and without a reserve: it is always deferred
        dimension |= {"limit": CALLS_PER_S_ALONE, "burst_fraction": 1 / CALLS_PER_S_ALONE}
    engine.gate.configure(name, dimensions=[dimension])
    with engine.worker(WorkerOptions()) as worker:
        handles = [
            engine.submit(Work(work=f"{name}-{n}", target=name, upstream=engine.upstream.url, calls=calls))
            for n in range(works)
        ]
        for handle in handles:
            engine.wait(handle, 120)
        held = sorted(held_ms(worker, name))
    state = engine.gate.state(name)
    assert held, "nobody was deferred"
    median_ms, p95_ms = statistics.median(held), held[int(len(held) * 0.95)]
    occupancy = f"median {median_ms:.1f}, p95 {p95_ms:.1f}, most {held[-1]:.1f}, of {len(held)}"
    return occupancy, f"{state['admits_total'] / state['grants_total']:.2f}"


def timer(slept_s: Callable[[float], float]) -> dict[str, str]:
    """`slept_s` of the asked milliseconds: how long a sleep on the engine's timer really was."""
    lines = {}
    for asked_ms in SLEEPS_MS:
        real_ms = sorted(1000 * slept_s(asked_ms) for _ in range(9))
        lines[f"durable sleep of {asked_ms} ms really takes, ms: least / median / most of 9"] = (
            f"{real_ms[0]:.0f} / {real_ms[4]:.0f} / {real_ms[-1]:.0f}"
        )
    return lines


def write(engine: str, title: str, how: str, figures: Mapping[str, str]) -> None:
    """FIGURES-<engine>.md."""
    rows = "\n".join(f"| {what} | {value} |" for what, value in figures.items())
    when = datetime.datetime.now(datetime.UTC).date()
    head = f"# {title}, measured\n\n{how}\nOne run on {when}, on two cores that others used, too."
    text = f"{head}\n\n| | |\n| --- | --- |\n{rows}\n"
    (HERE / f"FIGURES-{engine}.md").write_text(text)
    print(text)
