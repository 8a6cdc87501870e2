"""More and longer random histories than test_differential.py."""

import pytest

from test_differential import agree


@pytest.mark.parametrize("discipline, first, count, steps", [("queue", 10_000, 1200, 40), ("buckets", 10_000, 300, 40)])
def test_many_histories(valkey, discipline, first, count, steps):
    agree(valkey, discipline, first, count, steps)


def test_long_histories(valkey):
    # The longer a history, the surer it meets a tie, and what comes behind is not compared.
    agree(valkey, "queue", 20_000, 100, 150, ties_max=0.25)
