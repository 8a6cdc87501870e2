"""Every property over the same few hundred histories and crowds; the long test goes on with others."""

from __future__ import annotations

import search
from store import Store


def test_any_history(store: Store) -> None:
    search.histories(store, None, 150)


def test_records_kept_in_memory_never_show(store: Store, twin: Store) -> None:
    search.histories(store, twin, 60, frozenset({"i2_kept_records_never_show"}))


def test_backlogged_flows(store: Store) -> None:
    search.backlogs(store, 40)
