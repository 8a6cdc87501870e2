"""Windows of unknown phase: whatever the phase, no window of the provider's holds more than its limit."""

from __future__ import annotations

import mutations
import phases
import pytest
from invariants import Violation
from mutations import Mutation
from store import LIBRARY, Store

RUNS = 16


def test_no_window_is_exceeded(store: Store) -> None:
    assert phases.check(store, range(RUNS)) == RUNS  # every phase became known


@pytest.mark.parametrize("mutation", mutations.PHASES, ids=lambda mutation: mutation.name)
def test_finds(mutation: Mutation) -> None:
    store = Store(mutation.apply(LIBRARY.read_text()))
    try:
        with pytest.raises(Violation):
            phases.check(store, range(2 * RUNS))
    finally:
        store.stop()
