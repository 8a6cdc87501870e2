"""Turn order: shares, order inside a flow, and what must not disturb them."""

import pytest

from simulate import Flow, jain, simulate
from valkey import dimension, policy

CLASSES = {"p1": 0.5, "p2": 0.3, "p3": 0.2}
MODELS = {"continuous": (0.995, 0.9), "fixed": (1.0, 0.2), "sliding": (1.0, 0.2)}


def second(model: str, **limits: float) -> list[dict]:
    rate, burst = MODELS[model]
    return [dimension(name, limit, 1.0, model, rate_fraction=rate, burst_fraction=burst) for name, limit in limits.items()]


def six_tenants(cost: dict[str, float]) -> list[Flow]:
    workers = {"p1": 4, "p2": 8, "p3": 16}
    return [Flow(f"{t}{cls}", cls, workers[cls], cost) for cls in CLASSES for t in "ab"]


@pytest.mark.parametrize("model, used", [("continuous", 0.99), ("fixed", 0.99), ("sliding", 0.96)])
def test_P1_P2_P3_cross_priority(make_target, model, used):
    target = make_target(policy(second(model, requests=60), CLASSES))
    result = simulate(target, six_tenants({"requests": 1}), 25, seed=1)
    rate = {q: n / result.span_s for q, n in result.served("requests").items()}
    ratio = [r / (60 * CLASSES[cls] / 2) for (_, cls), r in rate.items()]
    assert jain(ratio) >= 0.99 and len(ratio) == 6
    assert sum(rate.values()) >= used * 60
    assert result.admits / len(result.grants) <= 3
    if model == "sliding":
        assert result.most_in_any_window("requests", 1.0) <= 60


def test_P2_mixed_dominant_shares(make_target):
    target = make_target(policy(second("continuous", requests=60, tokens=12_000), {"p1": 1.0}))
    flows = [Flow("heavy", "p1", 16, {"tokens": 800}), Flow("light1", "p1", 16, {"tokens": 80}),
             Flow("light2", "p1", 16, {"tokens": 80})]
    result = simulate(target, flows, 25, seed=2)
    requests, tokens = result.served("requests"), result.served("tokens")
    share = [max(requests[q] / 60, tokens[q] / 12_000) for q in requests]
    assert jain(share) >= 0.998 and max(share) / min(share) <= 1.05


def test_tenant_weights(make_target):
    target = make_target(policy(second("continuous", requests=60), {"p1": 1.0}), {"big": {"weight": 3.0, "caps": []}})
    result = simulate(target, [Flow("big", "p1", 20, {}), Flow("small", "p1", 20, {})], 25, seed=3)
    served = result.served("requests")
    assert served["big", "p1"] / served["small", "p1"] == pytest.approx(3, rel=0.03)


def test_order_inside_a_flow(make_target):
    target = make_target(policy([dimension("requests", 60)]))
    n = 0
    while target.admit(f"x{n}")["outcome"] == "grant":
        n += 1
    delays = [target.admit(f"w{i}")["delay_us"] for i in range(10)]
    assert delays == sorted(delays) and len(set(delays[1:])) == 9
    assert [target.admit(f"w{i}")["place"] for i in range(10)] == list(range(2, 12))


def test_late_class_starts_where_the_others_are(make_target):
    """A class (and flow) first seen late starts at virtual time: it neither jumps the line nor starts a lap behind."""
    target = make_target(policy(second("sliding", requests=60), CLASSES))
    simulate(target, six_tenants({})[2:], 10, seed=4)
    simulate(target, six_tenants({}), 10, seed=5, warm_up_s=0)
    classes = {c["name"]: c for c in target.inspect()["classes"]}
    assert classes["p1"]["start_tag"] - classes["p2"]["start_tag"] < 1


def test_check_only_changes_nothing(make_target):
    target = make_target(policy([dimension("requests", 2)]))
    assert target.admit("a", check=True)["outcome"] == "grant"
    assert target.left("requests") == 2
    target.admit("b"), target.admit("c")
    assert target.admit("d", check=True)["outcome"] == "defer"
    assert target.inspect()["waiters"] == 0


def test_withdraw_gives_the_place_back(make_target):
    target = make_target(policy([dimension("requests", 1)]))
    target.admit("a")
    target.admit("b")
    assert target.inspect()["waiters"] == 1
    assert target.release("b", action="withdraw")["result"] == "withdrawn"
    assert target.inspect()["waiters"] == 0
    assert target.release("b", action="withdraw")["result"] == "unknown"


def test_deadline_before_the_turn_is_rejected_at_once(make_target):
    target = make_target(policy([dimension("requests", 1)]))
    target.admit("a")
    answer = target.admit("b", deadline_us=30_000_000)
    assert (answer["reason"], answer["earliest_us"]) == ("deadline_unreachable", 60_000_000)
    assert target.inspect()["waiters"] == 0
    assert target.admit("b", deadline_us=61_000_000)["outcome"] == "defer"


def test_lost_owner_gives_the_place_back(make_target):
    target = make_target(policy([dimension("requests", 60)]))
    n = 0
    while target.admit(f"x{n}")["outcome"] == "grant":
        n += 1
    target.admit("lost", tenant="gone")
    target.advance(10)
    target.admit("y")
    assert target.inspect()["waiters"] <= 1


def test_lease_ends_by_itself_and_keeps_the_charge(make_target):
    target = make_target(policy([dimension("requests", 600), dimension("tokens", 600, 3600)]))
    target.admit("a", cost={"tokens": 300})
    target.advance(61)
    target.admit("b")
    state = target.inspect()
    assert (state["leases_open"], state["leases_expired_total"]) == (1, 1)
    assert target.release("a", usage={"tokens": 0})["result"] == "expired"
    assert target.left("tokens") == pytest.approx(300 + 61 / 6)


def test_raised_cap_mints_nothing_and_lowered_cap_cuts(make_target):
    target = make_target(policy([dimension("requests", 60)]))
    for i in range(60):
        target.admit(f"a{i}")
    target.configure(policy([dimension("requests", 600)]))
    assert target.admit("b")["outcome"] == "defer"
    target.advance(60)
    target.configure(policy([dimension("requests", 30)]))
    target.admit("b")
    assert target.left("requests") <= 30


def test_class_ceiling(make_target):
    compiled = policy([dimension("requests", 60, 1.0)], CLASSES)
    compiled["classes"][2]["max_share"] = 0.2
    target = make_target(compiled)
    result = simulate(target, [Flow("t", "p3", 30, {})], 15, seed=6)
    assert len(result.grants) / result.span_s == pytest.approx(12, rel=0.05)


def test_clock_that_steps_back_stands_still(make_target):
    target = make_target(policy([dimension("requests", 60)]))
    for i in range(60):
        target.admit(f"a{i}")
    target.advance(-3600)
    assert target.admit("b")["outcome"] == "defer"
    target.advance(1)
    assert target.admit("b")["outcome"] == "grant"


def test_million_tenants_vanish(make_target):
    target = make_target(policy([dimension("requests", 1e9, 1.0)], retention_us=1_000_000))
    for i in range(200):
        target.admit(f"a{i}", f"tenant{i}")
        target.release(f"a{i}")
    for i in range(400):
        target.advance(40)
        target.admit(f"b{i}", "one")
        target.release(f"b{i}")
    assert target.client.hlen(target.keys[2]) <= 3
    assert target.client.hlen(target.keys[4]) <= 5


def test_a_look_at_a_sliding_window_shows_what_has_left_since(make_target):
    watched = make_target(policy([dimension("requests", 10, 10.0, "sliding")]))
    for i in range(3):
        assert watched.admit(f"r{i}")["outcome"] == "grant"
    assert watched.left("requests") == 7
    watched.advance(9.9)
    assert watched.left("requests") == 7
    watched.advance(0.2)
    assert watched.left("requests") == 10
    watched.advance(3600)
    assert watched.left("requests") == 10


def test_a_look_between_a_changed_window_and_the_next_decision(make_target):
    watched = make_target(policy([dimension("requests", 10, 10.0, "sliding")]))
    assert watched.admit("r")["outcome"] == "grant"
    watched.configure(policy([dimension("requests", 10, 20.0, "sliding")]))
    assert watched.left("requests") == 9
