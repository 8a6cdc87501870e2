"""Faults from the field as tests; each is named after its case."""

import pytest

from valkey import dimension, policy


def minute(**limits: float) -> list[dict]:
    return [dimension(name, limit) for name, limit in limits.items()]


def test_C01_concurrent_check_then_charge(make_target):
    # The evaluation is the critical section, so any interleaving is some order of whole calls. Waiters keep places, so
    # only the first is told the plain bucket's 12 s; the later ones are told their own turn.
    target = make_target(policy(minute(requests=10_000, tokens=100)))
    answers = [target.admit(f"c{i}", cost={"tokens": 40}) for i in range(20)]
    assert [a["outcome"] for a in answers] == ["grant"] * 2 + ["defer"] * 18
    assert target.left("tokens") == 20
    assert min(a["delay_us"] for a in answers[2:]) == 12_000_000


def test_C02_refusal_charges_no_level(make_target):
    caps = [{"dimension": "tokens", "limit": 100.0, "window_us": 60_000_000}]
    target = make_target(policy(minute(requests=2, tokens=1000)), {"t1": {"weight": 1.0, "caps": caps}})
    assert target.admit("a", "t1", cost={"tokens": 80})["outcome"] == "grant"
    deferred = target.admit("b", "t1", cost={"tokens": 80})
    assert (deferred["outcome"], deferred["delay_us"]) == ("defer", 36_000_000)
    assert deferred["limits"][0] == ["tenant", "tokens"]
    assert target.admit("c", "t2", cost={"tokens": 80})["outcome"] == "grant"
    assert (target.left("requests"), target.left("tokens")) == (0, 840)
    deferred = target.admit("b", "t1", cost={"tokens": 80})
    assert deferred["limits"][0] == ["tenant", "tokens"]


def test_C04_missing_usage_is_not_zero(make_target):
    target = make_target(policy(minute(requests=1000, tokens=1000)))
    target.admit("a", cost={"tokens": 600})
    assert target.release("a")["usage_missing"] is True
    assert target.left("tokens") == 400
    assert target.admit("b", cost={"tokens": 500})["delay_us"] == 6_000_000


def test_C04_not_sent_refunds(make_target):
    target = make_target(policy(minute(requests=1000, tokens=1000)))
    target.admit("a", cost={"tokens": 600})
    released = target.release("a", outcome="not_sent")
    assert released["refunded"] == {"requests": 1, "tokens": 600}
    assert target.left("tokens") == 1000


def test_C05_late_refund(make_target):
    target = make_target(policy(minute(requests=1000, tokens=1000)))
    target.admit("a", cost={"tokens": 900}, bound=True)
    target.advance(61)
    assert target.admit("b", cost={"tokens": 900}, bound=True)["outcome"] == "grant"
    target.release("a", usage={"tokens": 0})
    assert target.left("tokens") == 100
    assert target.admit("c", cost={"tokens": 500}, bound=True)["delay_us"] == 24_000_000


@pytest.mark.parametrize("late_s, left", [(30, 1000), (0, 1000)])
def test_C05_refund_up_to_headroom(make_target, late_s, left):
    target = make_target(policy(minute(requests=1000, tokens=1000)))
    target.admit("a", cost={"tokens": 900}, bound=True)
    target.advance(late_s)
    target.release("a", usage={"tokens": 0})
    assert target.left("tokens") == left


def test_C05_whole_refund_under_load(make_target):
    target = make_target(policy(minute(requests=1000, tokens=1000)))
    target.admit("a", cost={"tokens": 900}, bound=True)
    target.admit("b", cost={"tokens": 100}, bound=True)
    for i in range(50):  # the bucket stays near empty, and the lease open
        target.advance(1)
        target.admit(f"x{i}", cost={"tokens": 16}, bound=True)
    assert target.release("a", usage={"tokens": 0})["refunded"]["tokens"] == 900


def test_C09_durable_retry_is_charged_once(make_target):
    target = make_target(policy(minute(requests=1000, tokens=1000)))
    first = target.admit("wf7/s3", cost={"tokens": 500})
    again = [target.admit("wf7/s3", cost={"tokens": 500}) for _ in range(2)]
    assert [a["outcome"] for a in (first, *again)] == ["grant"] * 3
    assert all(a["repeated"] for a in again)
    assert target.admit("wf7/s4", cost={"tokens": 500})["outcome"] == "grant"
    assert target.left("tokens") == 0
    assert target.admit("wf7/s3", cost={"tokens": 700}) | {"version": 1} == {
        "outcome": "invalid", "field": "cost", "version": 1,
        "message": "differs from the first ask of this request_id and attempt"}
    target.release("wf7/s3", usage={"tokens": 500})
    assert target.admit("wf7/s3", cost={"tokens": 500})["reason"] == "already_settled"
    assert target.left("tokens") == 0


def test_C09_next_attempt_is_charged_anew(make_target):
    target = make_target(policy(minute(requests=1000, tokens=1000)))
    target.admit("a", cost={"tokens": 400})
    assert target.admit("a", attempt=2, cost={"tokens": 400})["outcome"] == "grant"
    assert target.left("tokens") == 200
    assert target.inspect()["leases_open"] == 1
    assert target.admit("a", attempt=1, cost={"tokens": 400})["reason"] == "superseded"
    assert target.release("a", attempt=1)["result"] == "already_settled"
    assert target.release("a", attempt=2, usage={"tokens": 400})["result"] == "settled"


def test_C14_never_twice_the_cap_after_idle(make_target):
    target = make_target(policy([dimension("requests", 15, model="sliding", burst_fraction=0.03)]))
    target.advance(300)
    grants, n = [], 0
    for _ in range(2400):
        if target.admit(f"p{n}")["outcome"] == "grant":
            grants.append(target.now_us)
            n += 1
        target.advance(0.05)
    assert all(sum(1 for g in grants if s <= g < s + 60e6) <= 15 for s in grants)
    assert len(grants) >= 28


def test_C15_sub_window(make_target):
    target = make_target(policy([dimension("requests", 10, 1.0, "sliding")]))
    waiting = {f"r{i}": target.now_us for i in range(30)}
    deferrals, grants = dict.fromkeys(waiting, 0), []
    start = target.now_us
    while waiting:
        id, due = min(waiting.items(), key=lambda item: item[1])
        target.now_us = due
        answer = target.admit(id)
        if answer["outcome"] == "grant":
            grants.append(due)
            del waiting[id]
        else:
            deferrals[id] += 1
            waiting[id] = due + answer["delay_us"]
    assert all(sum(1 for g in grants if s <= g < s + 1e6) <= 10 for s in grants)
    assert max(grants) - start <= 3e6
    assert sum(1 for g in grants if g == start) == 10
    assert max(deferrals.values()) <= 1


def test_C17_larger_than_the_cap(make_target):
    dims = minute(requests=1000, tokens=30_000)
    target = make_target(policy(dims))
    for amount in (342_389, 30_001):
        answer = target.admit(f"x{amount}", cost={"tokens": amount})
        assert (answer["outcome"], answer["reason"], answer["dimension"]) == ("reject", "cost_exceeds_cap", "tokens")
    assert target.admit("a", cost={"tokens": 30_000})["outcome"] == "grant"
    assert target.admit("b", cost={"tokens": 28_000})["outcome"] == "defer"
    target.configure(policy(minute(requests=1000, tokens=20_000)))
    assert target.admit("b", cost={"tokens": 28_000})["reason"] == "cost_exceeds_cap"
    assert target.inspect()["waiters"] == 0


def drive(target, offers, seconds):
    """Open-loop callers that come back exactly when told: offers {class: per minute}. Grants as (seconds, class)."""
    import heapq
    events, serial, start = [], 0, target.now_us
    for cls, per_minute in offers.items():
        for i in range(int(per_minute * seconds / 60)):
            serial += 1
            heapq.heappush(events, (start + int(i * 60e6 / per_minute), serial, cls))
    grants = []
    while events:
        at, n, cls = heapq.heappop(events)
        if at - start > seconds * 1e6:
            break
        target.now_us = max(target.now_us, at)
        answer = target.admit(f"d{n}", tenant=f"t-{cls}", **({"cls": cls} if cls else {}))
        if answer["outcome"] == "grant":
            grants.append(((at - start) / 1e6, cls))
        else:
            heapq.heappush(events, (target.now_us + answer["delay_us"], n, cls))
    return grants


def drain(target, name="default"):
    n = 0
    while target.admit(f"drain{n}", tenant="drain", cls=name)["outcome"] == "grant":
        n += 1
    target.release(f"drain{n}", action="withdraw")


def test_C22_unset_priority_is_the_lowest(make_target):
    target = make_target(policy([dimension("requests", 100)], {"prod": 0.9, "dev": 0.1, "default": 0}))
    drain(target)
    assert target.admit("u", cls="vip")["field"] == "priority"
    grants = drive(target, {"prod": 200, "dev": 200, None: 200}, 60)
    count = {cls: sum(1 for _, c in grants if c == cls) for cls in ("prod", "dev", None)}
    assert abs(count["prod"] - 90) <= 2 and abs(count["dev"] - 10) <= 2 and count[None] == 0, count


def test_C22_unset_takes_what_others_leave(make_target):
    target = make_target(policy([dimension("requests", 100)], {"prod": 0.9, "dev": 0.1, "default": 0}))
    drain(target)
    assert len(drive(target, {None: 200}, 60)) >= 97


def test_C23_weight_is_a_floor(make_target):
    target = make_target(policy([dimension("requests", 60)], {"high": 0.9, "low": 0.1}))
    drain(target, "high")
    grants = drive(target, {"high": 120, "low": 60}, 300)
    low = [t for t, cls in grants if cls == "low"]
    assert len(low) >= 30
    assert max(b - a for a, b in zip([0, *low], [*low, 300])) <= 12


def test_C23_and_not_a_ceiling(make_target):
    target = make_target(policy([dimension("requests", 60)], {"high": 0.9, "low": 0.1}))
    drain(target, "low")
    assert len(drive(target, {"low": 120}, 60)) >= 58
