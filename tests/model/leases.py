"""The life of a request_id after it was decided: leases, settlement with signed refunds, learning, memory of ids."""

from __future__ import annotations

import constants as k
from policy import Policy
from state import Call, Flow, State, Vector, at

Usage = dict[int, float]  # absent: unknown


def forget_later(policy: Policy, state: State, call: Call, how: str) -> None:
    call.state, call.ends_us = how, state.now_us + policy.retention_us


def unblock(call: Call) -> None:
    for ceiling, _, need in call.blocked or []:
        ceiling.leave(need)
    call.blocked = None


def lose_place(policy: Policy, state: State, call: Call) -> None:
    unblock(call)
    call.lost = True
    call.ends_us = state.now_us + policy.retention_us


def reap(state: State, policy: Policy) -> int:
    """Ends leases and forgets ids that have had their time; a bounded number. Answers how many leases."""
    past = sorted((c for c in state.calls.values() if (c.state != "waiting" or c.lost) and c.ends_us <= state.now_us),
                  key=lambda c: (c.ends_us, c.id.encode()))
    expired = 0
    for call in past[:k.REAPED_MAX]:
        if call.state == "lease":  # nobody released it: how the call ended is unknown, its charge stays
            state.expired += 1
            expired += 1
            forget_later(policy, state, call, "expired")
        else:
            del state.calls[call.id]
    return expired


def learn(state: State, f: Flow, call: Call, actual: Usage) -> None:
    """Actual against estimate, per flow and dimension, and for the target as the prior of new flows."""
    for d, used in actual.items():
        s, estimate = state.dims[d], at(call.raw, d)
        if estimate <= 0:
            continue
        if d not in f.actual:
            f.actual[d], f.asked[d] = s.actual / s.asked * estimate, estimate
        f.actual[d] += k.FLOW_GAIN * (used - f.actual[d])
        f.asked[d] += k.FLOW_GAIN * (estimate - f.asked[d])
        s.actual += k.PRIOR_GAIN * (used / estimate - s.actual)
        miss = used - at(call.expected, d)
        f.variance[d] = f.variance.get(d, 0.0) + k.FLOW_GAIN * (miss * miss - f.variance.get(d, 0.0))


def settle(policy: Policy, state: State, f: Flow, call: Call, actual: Usage, at_caps: bool) -> dict[str, float]:
    """Charges the difference at every layer, as if `actual` had been charged at the grant. `at_caps` false: only the turn
    is given back, as the provider counted the call. Answers what the caps gave back, by dimension."""
    c = state.classes[call.cls]
    refunded: dict[str, float] = {}
    credit, before = 0.0, f.tag
    for d, p in enumerate(policy.dims):
        s = state.dims[d]
        more = actual.get(d, at(call.charged, d)) - at(call.charged, d)
        if more == 0:
            continue
        if at_caps and p.limit > 0:
            done = s.window.adjust(call.marks[d] if d < len(call.marks) else 0, more)
            if done != 0:
                refunded[p.name] = -done
            if done < 0:
                s.refunded -= done
            else:
                s.debited += done
        if call.by_buckets and d in c.shares:
            c.shares[d] -= more
        if p.cap > 0:
            if f.finish.get(d):
                f.finish[d] += more / p.cap / f.weight
            if abs(more / p.cap) > abs(credit):
                credit = more / p.cap
    move_tags(policy, state, f, before)
    f.service += credit
    c.service += credit
    if call.by_buckets and f.level is not None:
        f.level -= credit
    return refunded


def move_tags(policy: Policy, state: State, f: Flow, before: float) -> None:
    """The class's tag follows the flow's; nobody falls further back than about one second of its share."""
    c = state.classes[f.cls]
    second = state.share if state.share > 0 else 1.0
    own = f.tag - before  # the class is charged what the call cost, not the lift that follows
    floor = c.virtual - second / max(state.weight_sum(f.cls), f.weight)
    if f.tag < floor:
        short = f.tag
        f.finish = {d: tag + floor - short if tag > 0 else tag for d, tag in f.finish.items()}
    weight = policy.classes[f.cls].weight
    if weight > 0:
        c.finish = max(c.finish + own * f.weight / weight, min(c.finish, state.virtual - second))


def settle_ceilings(policy: Policy, state: State, call: Call, charged: Vector, actual: Usage) -> None:
    """The same for the hard ceilings."""
    for cap in policy.tenant_caps(call.tenant):
        d, ceiling = policy.dim_index(cap.dimension), state.books.get(call.tenant, {}).get(cap.dimension)
        if d is None or ceiling is None or d not in actual:
            continue
        more = actual[d] - at(charged, d)
        ceiling.refill(state.now_us, cap.limit / (cap.window_us / 1e6), cap.limit)
        ceiling.adjust(call.serial, more)
    ceiling = state.classes[call.cls].ceiling
    if ceiling is not None and policy.classes[call.cls].max_share is not None:
        known = [actual.get(d, at(call.expected, d)) / p.cap for d, p in enumerate(policy.dims) if p.cap > 0]
        more = max([k.SIGMA_MIN, *known]) - call.sigma
        share = policy.classes[call.cls].max_share
        ceiling.refill(state.now_us, share, share * policy.dims[0].window_s)
        if abs(more) > 1e-12:
            ceiling.adjust(call.serial, more)
