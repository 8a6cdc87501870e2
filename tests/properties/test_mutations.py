"""Every property finds the fault that is put into the library for it."""

from __future__ import annotations

import mutations
import pytest
import search
from invariants import Violation
from mutations import Mutation
from store import LIBRARY, Store


def _caught(mutation: Mutation, twin: bool, crowd: bool) -> str:
    text = mutation.apply(LIBRARY.read_text())
    stores = [Store(text)]
    try:
        stores += [Store(text)] if twin else []
        names = frozenset({mutation.found_by})
        if crowd:
            search.backlogs(stores[0], 60, names, shrink=False)
        else:
            search.histories(stores[0], stores[1] if twin else None, 300, names, shrink=False)
    except Violation as violation:
        return violation.name
    finally:
        for store in stores:
            store.stop()
    return "nothing"


@pytest.mark.parametrize("mutation", mutations.HISTORIES, ids=lambda mutation: mutation.name)
def test_histories_find(mutation: Mutation) -> None:
    assert _caught(mutation, mutation.found_by == "i2_kept_records_never_show", False) == mutation.found_by


@pytest.mark.parametrize("mutation", mutations.CROWDS, ids=lambda mutation: mutation.name)
def test_crowds_find(mutation: Mutation) -> None:
    assert _caught(mutation, False, True) == mutation.found_by
