"""Discipline `buckets`: the paper's rule, with its strengths and its known weaknesses."""

from simulate import jain, simulate
from test_queue import CLASSES, second, six_tenants
from valkey import dimension, policy


def test_all_waiters_are_told_the_same(make_target):
    target = make_target(policy([dimension("requests", 60)], discipline="buckets"))
    n = 0
    while target.admit(f"x{n}")["outcome"] == "grant":
        n += 1
    answers = [target.admit(f"w{i}") for i in range(5)]
    assert {a["delay_us"] for a in answers} == {1_000_000}
    assert all(a["place"] == 0 for a in answers)


def test_shares_and_calls_per_grant(make_target):
    target = make_target(policy(second("continuous", requests=60), CLASSES, discipline="buckets"))
    result = simulate(target, six_tenants({}), 20, seed=1)
    rate = {q: n / result.span_s for q, n in result.served("requests").items()}
    assert jain([r / (60 * CLASSES[cls] / 2) for (_, cls), r in rate.items()]) >= 0.98
    assert result.admits / len(result.grants) > 6


def test_idle_share_flows_to_who_asks(make_target):
    target = make_target(policy(second("continuous", requests=60), CLASSES, discipline="buckets"))
    result = simulate(target, six_tenants({})[4:], 15, seed=2)
    assert len(result.grants) / result.span_s >= 0.85 * 60


def test_release_settles_every_layer(make_target):
    target = make_target(policy([dimension("requests", 60), dimension("tokens", 600)], discipline="buckets"))
    target.admit("a", cost={"tokens": 600}, bound=True)
    assert target.admit("b", cost={"tokens": 300}, bound=True)["outcome"] == "defer"
    target.release("a", usage={"tokens": 100})
    assert target.admit("b", cost={"tokens": 300}, bound=True)["outcome"] == "grant"
