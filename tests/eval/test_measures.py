import math
import random
from collections.abc import Mapping, Sequence

import numpy
import pytest
from scipy.optimize import linprog

from measures import Queue, achievement, ideal_rates, jain, percentile
from workloads import WORKLOADS, Workload


def queue(name: str, cost: Mapping[str, float], weight: float = 1.0, demand: float = math.inf,
          priority: str = "one", class_weight: float = 1.0) -> Queue:
    return Queue(name, priority, class_weight, weight, cost, demand)


def test_classes_share_by_weight() -> None:
    queues = WORKLOADS["cross-priority"].queues()
    rates = ideal_rates(queues, {"requests": 60})
    assert rates == pytest.approx([15, 15, 9, 9, 6, 6])


def test_what_a_class_leaves_flows_to_the_others_by_weight() -> None:
    one = {"requests": 1.0}
    queues = [
        queue("a", one, demand=5, priority="p1", class_weight=0.5),
        queue("b", one, priority="p2", class_weight=0.3),
        queue("c", one, priority="p3", class_weight=0.2),
    ]
    assert ideal_rates(queues, {"requests": 60}) == pytest.approx([5, 33, 22])


def test_what_a_tenant_leaves_stays_in_its_class() -> None:
    one = {"requests": 1.0}
    queues = [
        queue("a", one, demand=5, priority="p1", class_weight=0.5),
        queue("b", one, priority="p1", class_weight=0.5),
        queue("c", one, priority="p2", class_weight=0.5),
    ]
    assert ideal_rates(queues, {"requests": 60}) == pytest.approx([5, 25, 30])


def test_dominant_resource_fairness_of_the_original_paper() -> None:
    """Ghodsi et al. 2011, section 4.1: 9 CPUs, 18 GB; tasks of (1, 4) and (3, 1): 3 and 2."""
    queues = [queue("a", {"cpu": 1, "ram": 4}), queue("b", {"cpu": 3, "ram": 1})]
    assert ideal_rates(queues, {"cpu": 9, "ram": 18}) == pytest.approx([3, 2])


def test_mixed_dominant_shares_are_equal() -> None:
    workload = WORKLOADS["mixed-dominant"]
    queues = workload.queues()
    rates = ideal_rates(queues, workload.caps)
    shares = [rate * q.dominant(workload.caps) for rate, q in zip(rates, queues)]
    assert shares == pytest.approx([shares[0]] * 3)
    assert sum(rates) == pytest.approx(60)  # requests bind; tokens are used to 80 %
    assert shares[0] == pytest.approx(4 / 9)


def test_who_does_not_use_the_full_dimension_goes_on() -> None:
    queues = [queue("a", {"x": 1}), queue("b", {"x": 1}), queue("c", {"y": 1})]
    assert ideal_rates(queues, {"x": 10, "y": 10}) == pytest.approx([5, 5, 10])


def test_a_queue_without_cost_has_no_ideal() -> None:
    with pytest.raises(ValueError):
        ideal_rates([queue("a", {"z": 1})], {"x": 1})


def lp_rates(
    queues: Sequence[Queue], caps: Mapping[str, float], weights: Sequence[float]
) -> list[float]:
    """Weighted max-min of dominant shares by linear programs: the level rises as far as it can,
    then who cannot exceed it is fixed."""
    n = len(queues)
    dominant = [q.dominant(caps) for q in queues]
    rows = [[q.cost.get(name, 0.0) for q in queues] for name in caps]
    right = list(caps.values())
    fixed: dict[int, float] = {}
    for _ in range(n):
        if len(fixed) == n:
            break
        bounds = [(fixed.get(i, 0.0), fixed.get(i, queues[i].demand)) for i in range(n)]
        above = [[-dominant[i] if j == i else 0.0 for j in range(n)] + [weights[i]]
                 for i in range(n) if i not in fixed]
        level = linprog([0.0] * n + [-1.0], A_ub=[row + [0.0] for row in rows] + above,
                        b_ub=right + [0.0] * len(above), bounds=bounds + [(0, None)])
        assert level.status == 0
        floor = {i: weights[i] * level.x[-1] / dominant[i] for i in range(n) if i not in fixed}
        low = [(fixed.get(i, floor.get(i, 0.0) * (1 - 1e-9)), bounds[i][1]) for i in range(n)]
        for i, least in floor.items():
            goal = [-1.0 if j == i else 0.0 for j in range(n)]
            most = linprog(goal, A_ub=rows, b_ub=right, bounds=low)
            assert most.status == 0
            if most.x[i] <= least * (1 + 1e-6) + 1e-9:
                fixed[i] = least
    return [fixed[i] for i in range(n)]


@pytest.mark.parametrize("seed", range(40))
def test_filling_agrees_with_linear_programs(seed: int) -> None:
    rng = random.Random(seed)
    caps = {name: rng.uniform(10, 1000) for name in "xyz"[: rng.randint(1, 3)]}
    queues = []
    for i in range(rng.randint(1, 6)):  # each alone in its class: the levels coincide
        cost = {n: rng.uniform(0.5, 20) if rng.random() < 0.7 else 0.0 for n in caps}
        cost[rng.choice(list(caps))] = rng.uniform(0.5, 20)
        demand = rng.uniform(0.1, 60)
        weights = rng.uniform(0.2, 5), rng.uniform(0.1, 1)
        queues.append(queue(f"q{i}", cost, weights[0], demand, f"c{i}", weights[1]))
    expected = lp_rates(queues, caps, [q.class_weight for q in queues])
    assert numpy.allclose(ideal_rates(queues, caps), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_two_levels_agree_with_nested_linear_programs(seed: int) -> None:
    """With one dimension a class is a queue with the sum of its members' demands."""
    rng = random.Random(1000 + seed)
    one, caps = {"x": 1.0}, {"x": 60.0}
    members = {
        f"c{k}": [queue(f"{k}{i}", one, rng.uniform(0.2, 3), rng.uniform(1, 40), f"c{k}", w)
                  for i in range(rng.randint(1, 4))]
        for k, w in enumerate([0.5, 0.3, 0.2])
    }
    classes = [queue(c, one, 1.0, sum(q.demand for q in qs), c, qs[0].class_weight)
               for c, qs in members.items()]
    totals = lp_rates(classes, caps, [c.class_weight for c in classes])
    expected: list[float] = []
    for qs, total in zip(members.values(), totals):
        expected += lp_rates(qs, {"x": total}, [q.tenant_weight for q in qs])
    queues = [q for qs in members.values() for q in qs]
    assert numpy.allclose(ideal_rates(queues, caps), expected, rtol=1e-4, atol=1e-6)


def test_jain() -> None:
    assert jain([0.7, 0.7, 0.7]) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == pytest.approx(0.25)
    assert jain([1, 1, 1, 1, 1, 0.78]) == pytest.approx(0.993, abs=5e-4)
    assert math.isnan(jain([0, 0]))


def test_achievement_leaves_out_who_is_due_nothing() -> None:
    assert achievement({"a": 5, "b": 1}, {"a": 10, "b": 0, "c": 2}) == {"a": 0.5, "c": 0}


def test_percentile_matches_numpy() -> None:
    values = [random.Random(1).random() for _ in range(101)]
    for part in (0, 0.5, 0.95, 0.99, 1):
        assert percentile(values, part) == pytest.approx(numpy.quantile(values, part))
    assert math.isnan(percentile([], 0.5))


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda w: w.name)
def test_workloads_draw_what_they_say(workload: Workload) -> None:
    first, again = workload.seeds(3), workload.seeds(3)
    for tenant in workload.tenants:
        calls = [tenant.draw(first[tenant.name]) for _ in range(4000)]
        assert calls == [tenant.draw(again[tenant.name]) for _ in range(4000)]
        mean = sum(c.actual_tokens for c in calls) / len(calls)
        assert mean == pytest.approx(tenant.mean_tokens, rel=0.03)
        if workload.upper_bound:
            assert all(c.actual_tokens <= c.estimate_tokens for c in calls)


def test_there_are_nine_and_only_one_is_uncongested() -> None:
    assert len(WORKLOADS) == 9
    for workload in WORKLOADS.values():
        queues = workload.queues()
        rates = ideal_rates(queues, workload.caps)
        met = all(rate >= q.demand * 0.999 for rate, q in zip(rates, queues))
        assert met == (workload.name == "uncongested")
    assert WORKLOADS["uncongested"].queues()[0].demand == pytest.approx(15)
