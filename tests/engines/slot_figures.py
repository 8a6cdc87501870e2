"""What a deferral costs an engine, measured; and the page on it."""

from __future__ import annotations

import datetime
import platform
import re
import statistics
from collections.abc import Callable, Mapping

from common import HERE, Engine, Program, Work, WorkerOptions

CALLS = 40
CALLS_PER_S = 10
OCCUPANCY_MS_MAX = 30
SLEEPS_MS = (1, 10, 100, 1000)
_HELD = re.compile(r"^held ([\d.]+) ms, deferred$", re.MULTILINE)


def written(worker: Program) -> list[float]:
    """Workers write it: "held MS ms, deferred"."""
    return [float(found) for found in _HELD.findall(worker.text())]


def measure(engine: Engine, name: str, held_ms: Callable[[Program], list[float]] = written) -> dict[str, str]:
    """40 calls at once under a cap of 10 a second: a line of a table each.

    `held_ms` of the worker: how long each deferred question held a slot.
    """
    dimension = {"name": "requests", "limit": CALLS_PER_S, "window": "1s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    engine.gate.configure(name, dimensions=[{**dimension, "burst_fraction": 0.1}])
    with engine.worker(WorkerOptions()) as worker:
        works = [Work(work=f"{name}-{n}", target=name, upstream=engine.upstream.url) for n in range(CALLS)]
        for handle in [engine.submit(work) for work in works]:
            engine.wait(handle, 120)
        held = sorted(held_ms(worker))
    state = engine.gate.state(name)
    assert held, "nobody was deferred"
    median_ms, p95_ms = statistics.median(held), held[int(len(held) * 0.95)]
    return {
        f"slot held by a deferred question, ms: median / p95 / most of {len(held)} (bar: {OCCUPANCY_MS_MAX})": (
            f"{median_ms:.1f} / {p95_ms:.1f} / {held[-1]:.1f}"
        ),
        "questions (Admit) per call": f"{state['admits_total'] / state['grants_total']:.2f}",
    }


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
    text = f"# {title}, measured\n\n{how}\nOne run on {when}, {platform.machine()}.\n\n| | |\n| --- | --- |\n{rows}\n"
    (HERE / f"FIGURES-{engine}.md").write_text(text)
    print(text)
