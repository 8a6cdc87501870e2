"""The properties over new histories each time; FAIRGATE_PROPERTIES_SEED repeats a run."""

from __future__ import annotations

import phases
import search
from store import Store


def test_any_history(store: Store) -> None:
    search.histories(store, None, 800, chosen=search.seed())


def test_records_kept_in_memory_never_show(store: Store, twin: Store) -> None:
    search.histories(store, twin, 300, frozenset({"i2_kept_records_never_show"}), chosen=search.seed())


def test_backlogged_flows(store: Store) -> None:
    search.backlogs(store, 150, chosen=search.seed())


def test_no_window_of_unknown_phase_is_exceeded(store: Store) -> None:
    first = search.seed() * 1000
    phases.check(store, range(first, first + 100))
