"""Searches for a history, or a crowd, that violates a property."""

from __future__ import annotations

import os
import random

import crowds
import hypothesis
from histories import Histories
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from invariants import INVARIANTS
from store import Store

STEPS = 40


def seed() -> int:
    """FAIRGATE_PROPERTIES_SEED repeats a run."""
    chosen = int(os.environ.get("FAIRGATE_PROPERTIES_SEED", random.SystemRandom().randrange(10**9)))
    print(f"FAIRGATE_PROPERTIES_SEED={chosen}")
    return chosen


def options(examples: int, shrink: bool, derandomize: bool) -> settings:
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=derandomize,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )


def histories(
    store: Store,
    twin: Store | None,
    examples: int,
    names: frozenset[str] = frozenset(INVARIANTS),
    *,
    chosen: int | None = None,
    shrink: bool = True,
) -> None:
    """Fails with the shortest history that was found. `chosen`: a seed; None: always the same histories."""
    machine = type("AnyHistory", (Histories,), {"store": store, "twin": twin, "names": names})
    if chosen is not None:
        hypothesis.seed(chosen)(machine)
    run_state_machine_as_test(machine, settings=options(examples, shrink, chosen is None))


def backlogs(
    store: Store,
    examples: int,
    names: frozenset[str] = frozenset(crowds.PROPERTIES),
    *,
    chosen: int | None = None,
    shrink: bool = True,
) -> None:
    @options(examples, shrink, chosen is None)
    @hypothesis.given(crowds.crowds())
    def holds(crowd: crowds.Crowd) -> None:
        crowds.check(crowds.run(store, crowd), names)

    if chosen is not None:
        holds = hypothesis.seed(chosen)(holds)
    holds()
