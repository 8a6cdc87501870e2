"""Discipline `queue`: L1 gates the rate, turn order decides who goes; a refused call keeps its place. Mixed into a Question."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import constants as k
import leases
from answers import Answer, Limit, up_to_ms
from ceilings import Ceiling
from state import Call, Flow, Vector, at

if TYPE_CHECKING:
    from gate import Gate


class QueueRule:
    def ceilings(self, call: Call) -> list[tuple[Ceiling, float]]:
        """The ceilings that apply, with the call's need of each."""
        state, found = self.state, []
        book = state.books.setdefault(call.tenant, {})
        for cap in self.policy.tenant_caps(call.tenant):
            d = self.policy.dim_index(cap.dimension)
            if d is not None and at(call.debit, d) > 0:
                c = book.setdefault(cap.dimension, Ceiling("tenant", cap.dimension, cap.limit, state.now_us))
                c.refill(state.now_us, cap.limit / (cap.window_us / 1e6), cap.limit)
                found.append((c, call.debit[d]))
        share = self.policy.classes[call.cls].max_share
        if share is not None and share < 1:
            depth, cls = share * self.policy.dims[0].window_s, state.classes[call.cls]
            cls.ceiling = cls.ceiling or Ceiling("class", "", depth, state.now_us)
            cls.ceiling.refill(state.now_us, share, depth)
            found.append((cls.ceiling, call.sigma))
        return found

    def ceiling_wait(self, call: Call, ceilings: list[tuple[Ceiling, float]]) -> Limit:
        """Seconds until every ceiling lets the call go, and the one that takes longest."""
        since = {id(c): before for c, before, _ in call.blocked or []}
        worst: Limit = (0.0, [])
        for c, need in ceilings:
            t = c.wait_s(need, since.get(id(c), c.enqueued))
            if t > worst[0]:
                worst = (t, [c.layer, c.dimension])
        return worst

    @staticmethod
    def block(call: Call, ceilings: list[tuple[Ceiling, float]]) -> None:
        if call.blocked is None:
            call.blocked = [(c, c.enqueued, need) for c, need in ceilings]
            for c, need in ceilings:
                c.enqueued += need

    def sweep(self, gate: Gate) -> list[tuple[Call, Flow]]:
        """The due places; a look at them gives back what was lost."""
        horizon_s = max([0.0] + [p.horizon_s for p in gate.policy.dims if p.limit > 0])
        return gate.turns.due_places(self.args["id"], horizon_s * 1e6, self.check)

    def bare_needs(self, call: Call) -> Vector:
        """Headroom that L1 must show: the cost with a margin for noisy estimates in flight."""
        bare = []
        for d, p in enumerate(self.policy.dims):
            own = 0.0 if call.bound else self.f.variance.get(d, 0.0)
            noise = self.state.open_variance(d) + own if own > 0 else 0.0
            bare.append(min(at(call.debit, d) + k.MARGIN_Z * math.sqrt(noise), p.depth))
        return bare

    def look_around(self, call: Call, places: list[tuple[Call, Flow]]) -> tuple[float, Vector, bool]:
        """Seconds until the call's turn, what L1 keeps for better places, and whether it asks out of turn."""
        state, f, turns, policy = self.state, self.f, self.turns, self.policy
        rate = turns.service_rate()
        turn_s = turns.wait_s(f, call.before, rate)
        debit = [at(call.debit, d) for d in range(len(policy.dims))]
        kept = turns.reserve(f, turns.turn_key(f, call.before), places, debit)
        threshold_s = max(k.OUT_OF_TURN_MIN_S, 2 * (state.mean_sigma or 0.0))
        self.gate.near(turn_s, threshold_s)
        out_of_turn = len(state.queued()) > len(state.queued(flow=f)) and turn_s > threshold_s
        if out_of_turn:  # only from what would soon spill
            kept = [max(x, k.BANK * p.hold * p.depth) for x, p in zip(kept, policy.dims)]
        return turn_s, kept, out_of_turn

    def take(self, call: Call, ceilings: list[tuple[Ceiling, float]], joining: bool) -> Answer:
        return self.too_late(call, k.DEFER_MIN_US, None) if self.is_past() else self.grant(call, ceilings, joining)

    def caps_wait(self, call: Call, need: Vector) -> tuple[float, str | None]:
        worst, short = max(0, self.state.pause_us - self.state.now_us) / 1e6, None
        for d, (p, s) in enumerate(zip(self.policy.dims, self.state.dims)):
            if at(call.debit, d) > 0 and p.limit > 0:
                t = s.window.wait_s(need[d])
                if t > worst:
                    worst, short = t, p.name
        return worst, short

    def caps_hold(self, call: Call, need: Vector, out_of_turn: bool) -> bool:
        if self.state.pause_us > self.state.now_us:
            return False
        for d, (p, s) in enumerate(zip(self.policy.dims, self.state.dims)):
            if at(call.debit, d) > 0 and p.limit > 0:
                available = s.window.available(call.debit[d], out_of_turn)
                if abs(available - need[d]) < 1e-4 * max(1.0, need[d]) and self.state.open_variance(d) > 0:
                    self.gate.close = True
                self.gate.near(available, need[d])
                if available < need[d] - k.CAP_TOLERANCE * max(1.0, need[d]):
                    return False
        return True

    def decide_by_queue(self, call: Call) -> Answer:
        state, f, turns, policy = self.state, self.f, self.turns, self.policy
        ceilings = self.ceilings(call)
        blocked_s, ceiling = self.ceiling_wait(call, ceilings)
        eligible = blocked_s <= 0 or self.force
        turns.wake(f)
        joining = not call.queued  # fresh, lost to a sweep, or blocked before
        if joining:
            call.before = f.enqueued if self.fresh or call.blocked is not None else f.left
        places = self.sweep(self.gate)
        bare = self.bare_needs(call)
        if self.force or (not state.queued() and eligible and self.caps_hold(call, bare, False)):
            return self.take(call, ceilings, joining)  # nobody stands before it
        self.saw_places = True
        turn_s, kept, out_of_turn = self.look_around(call, places)
        full = [min(x + y, p.depth) for x, y, p in zip(bare, kept, policy.dims)]
        if eligible and self.caps_hold(call, full, out_of_turn):
            return self.take(call, ceilings, joining)
        return self.defer(call, ceilings, ceiling, blocked_s, eligible, joining, turn_s, bare, full)

    def grant(self, call: Call, ceilings: list[tuple[Ceiling, float]], joining: bool) -> Answer:
        """Debits every layer at once."""
        f = self.f
        leases.unblock(call)
        if joining:
            f.enqueued += call.sigma
            f.left += call.sigma
            if not self.state.queued(flow=f):
                f.left = f.enqueued
        call.debit = [at(call.debit, d) for d in range(len(self.policy.dims))]
        self.turns.serve(f, call, lambda start, dovetail: self.debit(call, start, dovetail))
        for c, need in ceilings:
            c.debit(need, call.serial)
        self.count(call)
        self.open_lease(call)
        return self.granted(call)

    def defer(self, call: Call, ceilings: list[tuple[Ceiling, float]], ceiling: list[str], blocked_s: float, eligible: bool,
              joining: bool, turn_s: float, bare: Vector, full: Vector) -> Answer:
        """The time of its own turn: work before it, then L1; a wrong forecast parks nobody for long."""
        args, f, state, policy = self.args, self.f, self.state, self.policy
        caps_s, short = self.caps_wait(call, bare)
        wait_s = turn_s + caps_s
        if eligible:
            wait_s = max(wait_s, min(k.RESERVE_WAIT_MAX_S, self.caps_wait(call, full)[0]))
            backlog = max([0.0] + [(state.waiting_cost(d) + at(call.debit, d)) / p.rate
                                   for d, p in enumerate(policy.dims) if p.limit > 0])
            wait_s = min(wait_s, max(1.0, 2 * backlog, caps_s + backlog))
        else:
            wait_s = max(wait_s, blocked_s)
        projected_us = max(k.DEFER_MIN_US, math.ceil(wait_s * 1e6 - 1e-3))
        deadline_us = args.get("deadline_us")
        if deadline_us is not None:
            self.gate.close |= abs(projected_us - deadline_us) < 1000
            if deadline_us <= 0 or projected_us > deadline_us:
                return self.too_late(call, projected_us, short)
        hold = args.get("hold_us", 0) >= projected_us
        delay = projected_us
        if not hold:  # its timer is late; who may be held comes earlier, and goes at the very moment
            delay = max(args.get("timer_floor_us", 0), projected_us - f.late_us - args.get("hold_us", 0) / 2)
        delay_us = min(policy.max_defer_us, max(k.DEFER_MIN_US, up_to_ms(delay)))

        limits = [] if eligible else [ceiling]
        self.gate.near(turn_s, 0.0)
        if turn_s > 0 or short is None:
            own = max(0.0, call.before - f.left) > 0 or self.turns.heads_before(f, f.tag) > 0
            limits.append(["tenant" if own else "class", ""])
        if short is not None:
            limits.append(["target", short])
        place = self.keep_place(call, ceilings, eligible, joining, delay_us, projected_us, hold)
        return {"outcome": "defer", "delay_us": delay_us, "projected_us": projected_us, "limits": limits, "place": place,
                **self.head} | ({"hold": True} if hold else {})

    def too_late(self, call: Call, projected_us: int, short: str | None) -> Answer:
        """Rejected at once: whoever waited gives the place back, whoever came has left no trace."""
        state, f = self.state, self.f
        if call.queued:
            self.turns.dequeue(f, call)
            del state.calls[call.id]
        elif call.blocked is not None:
            leases.unblock(call)
            del state.calls[call.id]
        elif not self.fresh:
            del state.calls[call.id]
        if self.fresh:
            f.profile, f.finish = self.f_before.profile, self.f_before.finish
            self.left_no_trace = True
            if self.f_is_new:
                del state.flows[f.cls, f.tenant]
        more = {"dimension": short} if short is not None else {}
        return self.reject("deadline_unreachable", earliest_us=projected_us, **more)

    def keep_place(self, call: Call, ceilings: list[tuple[Ceiling, float]], eligible: bool, joining: bool, delay_us: int,
                   projected_us: int, hold: bool) -> int:
        """Puts the call in line, or at its ceilings. Answers how many of the flow are ahead, plus 1; 0: no place."""
        f, state = self.f, self.state
        if self.check:
            return 0
        if not call.queued and len(state.queued(flow=f)) >= self.policy.places_max:
            if not self.fresh:
                state.calls[call.id] = self.before
            return 0
        if self.fresh or call.lost:
            call.big = any(p.limit > 0 and at(call.debit, d) > k.BIG * p.depth for d, p in enumerate(self.policy.dims))
        state.calls[call.id] = call
        if eligible:
            leases.unblock(call)
            if joining:
                self.turns.enqueue(f, call)
        else:
            if call.queued:
                self.turns.dequeue(f, call)
            self.block(call, ceilings)
            if f.standing is None:
                f.stand("idle", state.now_us)
        call.told_us = state.now_us + delay_us
        call.due_us = max(state.now_us + min(projected_us, self.policy.max_defer_us), call.told_us)
        call.parked, call.lost = hold, False
        call.projected_us = call.projected_us or projected_us
        return max(1, math.floor(max(0.0, call.before - f.left) / call.sigma + 1.5))
