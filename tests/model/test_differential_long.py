"""More and longer random histories than test_differential.py."""

import pytest

from test_differential import KNOWN_MAX, agree


@pytest.mark.parametrize("discipline, first, count, steps", [("queue", 10_000, 1200, 40), ("buckets", 10_000, 300, 40)])
def test_many_histories(valkey, discipline, first, count, steps):
    agree(valkey, discipline, first, count, steps, KNOWN_MAX)


def test_long_histories(valkey):
    # The longer a history, the surer it meets one of the known defects, and what comes behind is not compared: with more
    # than 20 of them marked in the vectors, most of 150 steps end early. What counts here is that none parts without one.
    agree(valkey, "queue", 20_000, 100, 150, known_max=0.8)
