"""More and longer random histories than test_differential.py."""

import pytest

from test_differential import agree


@pytest.mark.parametrize("discipline, first, count, steps", [
    ("queue", 10_000, 400, 40), ("queue", 20_000, 40, 150), ("buckets", 10_000, 120, 40)])
def test_long_histories(valkey, discipline, first, count, steps):
    agree(valkey, discipline, first, count, steps)
