"""L2 and L3: whose turn it is. Two-level start-time fair queueing on dominant share (DESIGN 3.2).

    class k  start tag F_k against V;  flow  start tag max_d F_d against its class's v
    a grant moves F by sigma / w and F_k by sigma / omega_k; v and V follow the least waiting tag, never the clock
"""

from __future__ import annotations

from collections.abc import Callable

import constants as k
from leases import lose_place
from policy import Policy
from state import Call, Flow, State, Vector, at


class Turns:
    """`near(a, b)` hears of every comparison whose outcome rounding could turn."""

    def __init__(self, policy: Policy, state: State, near: Callable[[float, float], None]) -> None:
        self.policy, self.state, self.near = policy, state, near

    # --- who stands where ---------------------------------------------------------------------------------------------

    def omega(self, cls: int) -> float:
        return self.policy.classes[cls].weight

    def waits(self, cls: int) -> bool:
        return bool(self.state.queued(cls))

    def heads(self, cls: int) -> list[Flow]:
        """Flows of the class that wait, by start tag."""
        return sorted((f for f in self.state.flows_of(cls) if f.standing == "waiting"), key=lambda f: (f.tag, f.field))

    def least(self, cls: int) -> float | None:
        heads = self.heads(cls)
        return heads[0].tag if heads else None

    def is_active(self, cls: int) -> bool:
        counted = any(f.counted for f in self.state.flows_of(cls))
        if counted and not self.waits(cls):
            self.near(self.state.classes[cls].finish, self.state.virtual)
        return counted and (self.waits(cls) or self.state.classes[cls].finish > self.state.virtual)

    def count_in(self, f: Flow) -> None:
        f.counted = (f.weight, dict(f.profile))

    def wake(self, f: Flow) -> None:
        """Who was idle starts where the others are: no old credit, no old debt beyond its finish tag."""
        c = self.state.classes[f.cls]
        if not self.waits(f.cls):
            c.finish = max(c.finish, self.state.virtual)
        if not self.state.queued(flow=f):
            for d in range(len(self.policy.dims)):
                f.finish[d] = max(f.finish.get(d, 0.0), c.virtual)

    def reweigh(self, f: Flow, weight: float) -> None:
        """A changed weight takes effect on first touch; a lead that is still owed is rescaled with it."""
        if weight == f.weight:
            return
        v = self.state.classes[f.cls].virtual
        for d, tag in f.finish.items():
            if tag > v:
                f.finish[d] = v + (tag - v) * f.weight / weight
        f.weight = weight
        if f.counted:
            self.count_in(f)

    def enqueue(self, f: Flow, call: Call) -> None:
        f.enqueued += call.sigma
        call.queued = True
        self.count_in(f)
        f.stand("waiting", self.state.now_us)

    def dequeue(self, f: Flow, call: Call) -> None:
        f.left += call.sigma
        call.queued = False
        if not self.state.queued(flow=f):
            f.left = f.enqueued
            f.stand("active", self.state.now_us)

    def follow_class(self, cls: int) -> None:
        c = self.state.classes[cls]
        c.virtual = max(c.virtual, self.least(cls) or c.virtual)

    # --- speed and turn -----------------------------------------------------------------------------------------------

    def service_rate(self) -> float:
        """X: virtual seconds of service per second, 1 / max_d (sum_k omega_k D_kd / W_k) C_d / rate_d."""
        worst = 0.0
        for d, p in enumerate(self.policy.dims):
            if p.limit > 0:
                used = sum(self.omega(cls) * self.state.demand(cls, d) / self.state.weight_sum(cls)
                           for cls in range(len(self.state.classes))
                           if self.state.weight_sum(cls) > 0 and self.is_active(cls))
                worst = max(worst, used * p.cap / p.rate)
        if worst > 1e-12:
            self.state.share = 1 / worst
        elif self.state.share <= 0:
            self.state.share = 1.0
        return self.state.share

    def class_finish(self, cls: int) -> float:
        c = self.state.classes[cls]
        return c.finish if self.waits(cls) else max(c.finish, self.state.virtual)

    def turn_key(self, f: Flow, before: float) -> float:
        """Global virtual time at which a place's turn comes."""
        w = self.omega(f.cls)
        if w <= 0:
            return 1e300
        c = self.state.classes[f.cls]
        ahead = max(0.0, before - f.left)
        least = self.least(f.cls)
        base = max(c.virtual, f.tag if least is None else least)
        lag = max(0.0, f.tag + ahead / f.weight - base)
        return self.class_finish(f.cls) + lag * max(self.state.weight_sum(f.cls), f.weight) / w

    def heads_before(self, f: Flow, reach: float) -> int:
        """Other flows of the class that stand before this one when its tag is `reach`; equal tags go by name."""
        others = [h for h in self.heads(f.cls) if h is not f]
        for h in others:
            self.near(h.tag, reach)
        return sum(1 for h in others if (h.tag, h.field) < (reach, f.field))

    def wait_s(self, f: Flow, before: float, rate: float) -> float:
        """Forecast: work before the place in its class and in the others, over the service rate."""
        w, mean = self.omega(f.cls), self.state.mean_sigma or 0.0
        own = max(0.0, before - f.left)
        reach = f.tag + own / f.weight
        others = self.heads_before(f, reach) * mean
        pulse = max(k.PULSE_MIN_S, min(0.5 * mean, k.PULSE_MAX_S))
        heads = self.heads(f.cls)
        lag = reach * sum(h.weight for h in heads) - sum(h.weight * h.tag for h in heads)
        spare = min(mean, k.SPARE_S) if f.standing == "waiting" and f.tag < reach else 0.0  # few come before their turn
        if 0 < own < 1e-12:  # what is left of a sum that should be 0
            self.near(own, 0.0)
        work = max(own, others, lag + spare + min(others, pulse))
        waiting = [cls for cls in range(len(self.state.classes)) if self.omega(cls) > 0 and self.waits(cls)]
        if w <= 0:  # background: after all that waits with weight
            backlog = max([0.0] + [self.state.waiting_cost(d) / p.cap for d, p in enumerate(self.policy.dims)
                                   if p.cap > 0 and waiting])
            return backlog + work / max(rate, 1e-9)
        goal = self.class_finish(f.cls) + work / w
        total = 0.0
        for cls in waiting:
            finish = self.state.classes[cls].finish
            self.near(goal, finish)
            if goal > finish:
                total += self.omega(cls) * (goal - finish) + (min(mean, k.OTHER_CLASS_S) if cls != f.cls else 0.0)
        weights = sum(self.omega(cls) for cls in range(len(self.state.classes)) if self.is_active(cls))
        return total / (rate * max(weights, w))

    # --- due places -----------------------------------------------------------------------------------------------------

    def due_places(self, own_id: str, horizon_us: float, dry: bool) -> list[tuple[Call, Flow]]:
        """The oldest of those due within the horizon, without the caller itself. Owners who have not come back within the
        grace period lose the place on the way (`dry`: are only passed over)."""
        state, places = self.state, []
        in_line = sorted((c for c in state.calls.values() if c.is_due), key=lambda c: (c.due_us, c.id.encode()))
        window_us = max([0] + [p.window_us for p in self.policy.dims if p.limit > 0])
        due = [c for c in in_line if c.due_us <= state.now_us + horizon_us][:k.LOOK]
        due += [c for c in in_line if c.big and c.due_us < state.now_us + window_us][:k.LOOK_BIG]
        for call in dict.fromkeys(due):
            if call.id == own_id:
                continue
            f = state.flows[call.cls, call.tenant]
            late_us = state.now_us - call.due_us
            if call.blocked is not None:
                if late_us > k.GRACE_MAX_US and not dry:
                    lose_place(self.policy, state, call)
            elif late_us > min(k.GRACE_MAX_US, max(k.GRACE_MIN_US, k.GRACE_DEVIATIONS * f.deviation_us)):
                if not dry:
                    self.dequeue(f, call)
                    lose_place(self.policy, state, call)
                    self.follow_class(f.cls)
            else:
                places.append((call, f))
        return places

    def reserve(self, f: Flow, key: float, places: list[tuple[Call, Flow]], cost: Vector) -> Vector:
        """What L1 keeps, per dimension, for places with better turns that are due or will be before it could be full."""
        kept, total = [0.0] * len(cost), [0.0] * len(cost)
        for call, owner in places:
            theirs = self.turn_key(owner, call.before)
            self.near(theirs, key)
            if theirs >= key - k.TIE:
                continue
            ahead_s = max(0, call.due_us - self.state.now_us) / 1e6
            for d, p in enumerate(self.policy.dims):
                c = at(call.debit, d)
                if c > 0 and p.limit > 0 and (ahead_s <= p.horizon_s or call.big):
                    total[d] += c
                    if ahead_s <= 0:
                        total[d] = min(total[d], max(p.hold * p.depth - cost[d], c))
                    kept[d] = max(kept[d], total[d] - self.state.dims[d].window.gain(ahead_s))
        return kept

    # --- service ----------------------------------------------------------------------------------------------------------

    def serve(self, f: Flow, call: Call, debit: Callable[[float, float], None]) -> None:
        """A grant: the flow's and the class's tags move on, and virtual time follows. `debit(start, dovetail)` takes the
        cost and moves the flow's tags."""
        c, w = self.state.classes[f.cls], self.omega(f.cls)
        start, class_start = f.tag, c.finish
        share = self.state.share if self.state.share > 0 else 1.0
        debit(start, k.DOVETAIL_S * share * w / max(self.state.weight_sum(f.cls), f.weight))
        if call.queued:
            self.dequeue(f, call)
        if w > 0:
            c.finish = class_start + max(0.0, f.tag - start) * f.weight / w
        if self.state.queued(flow=f):
            f.stand("waiting", self.state.now_us)
        elif f.standing != "active":
            self.count_in(f)
            f.stand("active", self.state.now_us)
        least = self.least(f.cls)
        c.virtual = max(c.virtual, start if least is None else min(start, least))
        tags = [self.state.classes[cls].finish for cls in range(len(self.state.classes))
                if self.waits(cls) and self.omega(cls) > 0] + ([class_start] if w > 0 else [])
        self.state.virtual = max([self.state.virtual] + ([min(tags)] if tags else []))

    def retire(self, cls: int, keep: Flow) -> None:
        """Flows that were not served of late and are not ahead of virtual time leave the sums, those longest unseen first;
        the long idle are forgotten."""
        now_us, v = self.state.now_us, self.state.classes[cls].virtual
        active = sorted((f for f in self.state.flows_of(cls) if f.standing == "active"),
                        key=lambda f: (f.standing_at, f.field))
        for f in active[:k.RETIRED_MAX]:
            if f.standing_at + k.LINGER_US > now_us:
                break
            if f is keep:
                f.stand("active", now_us)
            elif f.used_us + k.LINGER_US > now_us:
                f.stand("active", f.used_us)
            elif f.tag > v:
                f.stand("active", now_us)
            else:
                self.near(f.tag, v)
                f.counted = None
                f.stand("idle", now_us)
        idle = sorted((f for f in self.state.flows.values() if f.standing == "idle"),
                      key=lambda f: (f.standing_at, f.field))
        for f in idle[:k.RETIRED_MAX]:
            if f.standing_at + k.FLOW_LIFE_US <= now_us and f is not keep:
                del self.state.flows[f.cls, f.tenant]


def expected_share(policy: Policy, expected: Vector) -> float:
    return max([k.SIGMA_MIN] + [e / p.cap for e, p in zip(expected, policy.dims) if p.cap > 0])


