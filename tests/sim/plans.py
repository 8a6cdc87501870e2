"""Which cells are run."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from workloads import WORKLOADS

from .jobs import ARMS, Job
from .mechanisms import ABLATIONS
from .scenarios import SCENARIOS

WINDOWS = ("fixed", "sliding", "continuous")
HELD = ("noisy-estimates", "reservation", "reservation-capped")


def _seeds(cells: Iterator[Job], count: int) -> list[Job]:
    return [dataclasses.replace(cell, seed=seed) for cell in cells for seed in range(1, count + 1)]


def _arms() -> Iterator[Job]:
    for name, window, arm in itertools.product(WORKLOADS, WINDOWS, ARMS):
        yield Job(name, window, arm, drain=True)


def _conditions() -> Iterator[Job]:
    """The production discipline under unknown phase, slow timers, and with holds."""
    for name in WORKLOADS:
        yield Job(name, "unknown")
        yield Job(name, "learnt")
        for window in WINDOWS:
            yield Job(name, window, timers="late")
            yield Job(name, window, timers="floor")
            yield Job(name, window, timers="floor", hold=0.25)
    for name, window in itertools.product(HELD, WINDOWS):
        yield Job(name, window, hold=0.1)


def quick(seeds: int) -> list[Job]:
    return _seeds(_arms(), seeds)


def full(seeds: int) -> list[Job]:
    table = (Job(name) for name in SCENARIOS)
    ablations = (dataclasses.replace(job, arm=f"queue-{name}") for name, jobs in ABLATIONS.items() for job in jobs)
    return [*_seeds(_arms(), seeds), *_seeds(_conditions(), seeds), *_seeds(table, 2), *_seeds(ablations, 2)]
