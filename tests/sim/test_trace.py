"""The trace in virtual time, a minute of it."""

import pytest

from sim.trace import run
from traces import chains


@pytest.mark.parametrize("arm", ["naive", "queue"])
def test_a_minute_of_the_trace(arm: str) -> None:
    got = run(arm, "fixed", seed=2, seconds=60.0, warm_up=5.0)
    assert got["calls"] > 500
    assert got["cap_used"] > 0.8
    assert (got["share_429"] < 0.03) == (arm == "queue")
    assert got["call_p50_s"]["p1"] < got["call_p50_s"]["p3"] or arm == "naive"
    assert got["calls"] < sum(len(chain.steps) for chain in chains(2, 60.0))


def test_the_same_seed_is_the_same_run() -> None:
    one, two = (run("queue", "continuous", 3, 20.0, 2.0) for _ in range(2))
    assert {**one, "wall_s": 0} == {**two, "wall_s": 0}
