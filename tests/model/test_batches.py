"""Questions that share an evaluation are decided as if each had one of its own, in their order, at one time."""

from itertools import groupby

import pytest

from differential import seeds
from histories import Author
from subjects import Production, Step

TICK_US = 400_000  # what happens within it is asked for at once


def at_once(steps: list[Step]) -> list[Step]:
    return [{**step, "at_us": step["at_us"] // TICK_US * TICK_US} for step in steps]


def evaluations(steps: list[Step]) -> list[list[Step]]:
    """Neighbours of one time that are questions of `decide` go together; then what Inspect says."""
    out: list[list[Step]] = []
    for (at_us, together), group in groupby(steps, lambda s: (s["at_us"], s["ask"] in ("admit", "release"))):
        asked = list(group)
        out += [asked] if together else [[step] for step in asked]
        out.append([{"ask": "inspect", "at_us": at_us, "flows_max": 100}])
    return out


@pytest.mark.parametrize("discipline, first, count, steps", [("queue", 1, 150, 60), ("buckets", 1, 40, 40)])
def test_a_batch_is_its_questions_one_by_one(valkey, discipline, first, count, steps):
    largest = 0
    for seed in seeds(first, count):
        history = Author(seed, discipline).write(steps)
        groups = evaluations(at_once(history["steps"]))
        alone, together = Production(valkey, history), Production(valkey, history)
        for group in groups:
            largest = max(largest, len(group))
            expected = [alone.ask(step) for step in group]
            assert together.ask_together(group) == expected, (seed, group)
        alone.drop()
        together.drop()
    assert largest >= 5
