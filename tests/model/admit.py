"""Admit: may this call go now? Grant, defer with the time of its own turn, or reject what waiting cannot help."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import constants as k
import leases
from answers import Answer, up_to_ms
from buckets import Buckets
from queue_rule import QueueRule
from state import Call, Vector, at
from turns import expected_share

if TYPE_CHECKING:
    from gate import Gate

class Question(QueueRule):
    """One Admit on its way through the gate. `saw_*`: how far it came (for questions that only check)."""

    def __init__(self, gate: Gate, args: dict[str, Any]) -> None:
        self.gate, self.args, self.policy = gate, args, gate.policy
        self.check, self.force = bool(args.get("check")), bool(args.get("force"))
        self.attempt = args.get("attempt", 1)
        self.left_no_trace = False
        self.saw_time = self.saw_places = self.saw_shares = False
        self.head: Answer = {"version": gate.policy.version}

    # --- answers ----------------------------------------------------------------------------------------------------------

    def invalid(self, field: str) -> Answer:
        return {"outcome": "invalid", "field": field, "version": self.policy.version}

    def reject(self, reason: str, **more: Any) -> Answer:
        return {"outcome": "reject", "reason": reason, **more, **self.head}

    def granted(self, call: Call) -> Answer:
        return {"outcome": "grant", "debited": self.amounts(call.debit), "lease_us": self.policy.lease_us,
                "admits": call.admits, "waited_us": self.state.now_us - call.first_us,
                "first_us": call.projected_us or 0, **self.head}

    def amounts(self, values: Vector) -> dict[str, float]:
        return {p.name: at(values, d) for d, p in enumerate(self.policy.dims) if at(values, d) != 0}

    # --- the walk ---------------------------------------------------------------------------------------------------------

    def decide(self) -> Answer:
        args, policy = self.args, self.policy
        name = args.get("class", policy.default_class)
        self.cls = policy.class_index(name)
        if self.cls is None:
            return self.invalid("priority")
        unknown = [n for n in args.get("cost", {}) if policy.dim_index(n) is None]
        if unknown:
            return self.invalid(f'cost["{unknown[0]}"]')
        self.raw: Vector = [float(args.get("cost", {}).get(p.name, p.name == "requests")) if not p.retired else 0.0
                            for p in policy.dims]
        self.gate.pass_time(args["clock_us"])
        self.saw_time = True
        self.state, self.turns = self.gate.state, self.gate.turns
        self.head["class"] = name
        expired = leases.reap(self.state, policy)
        if expired:
            self.head["expired"] = expired

        self.f = self.gate.flow(self.cls, args["tenant"])
        weight = policy.tenant_weight(args["tenant"])
        if not self.check:  # which has the weights of the last question
            self.turns.reweigh(self.f, weight)
        call, answer = self.known()
        if answer is None and policy.listed_only and args["tenant"] not in policy.tenants:
            answer = self.reject("tenant_not_listed")
        if answer is None and not self.force:
            answer = self.impossible(call)
        if answer is None:
            answer = self.good(call)
        return answer

    def known(self) -> tuple[Call | None, Answer | None]:
        """What the id is already: the call that waits on under it, or the answer that it gets."""
        call = self.state.calls.get(self.args["id"])
        if call is None:
            return None, None
        if self.attempt < call.attempt:
            return None, self.reject("superseded")
        repeated = self.attempt == call.attempt
        if call.state in ("settled", "expired"):
            return None, self.reject("already_settled") if repeated else None
        differs = self.differs(call)
        if differs and repeated:
            return None, self.invalid(differs)
        if call.state == "lease":
            if repeated:
                left_us = max(0, call.ends_us - self.state.now_us)
                return None, {"outcome": "grant", "debited": self.amounts(call.charged), "repeated": True,
                              "lease_us": left_us, "admits": call.admits, "waited_us": 0, **self.head}
            leases.forget_later(self.policy, self.state, call, "settled")  # its send is unknown: its charge stays
            return None, None
        if differs:
            self.give_up(call)
            return None, None
        self.before = copy.copy(call)
        call.attempt = self.attempt
        return call, None

    def differs(self, call: Call) -> str | None:
        if call.tenant != self.args["tenant"]:
            return "tenant"
        if call.cls != self.cls:
            return "priority"
        if call.bound != bool(self.args.get("bound")):
            return "cost_kind"
        return "cost" if any(at(call.raw, d) != x for d, x in enumerate(self.raw)) else None

    def give_up(self, call: Call) -> None:
        """The call waits no more, and its place is free."""
        leases.unblock(call)
        if call.queued:
            self.turns.dequeue(self.state.flows[call.cls, call.tenant], call)
        del self.state.calls[call.id]

    def impossible(self, call: Call | None) -> Answer | None:
        """What can never be granted, whoever waits."""
        answer = None
        for d, p in enumerate(self.policy.dims):
            if answer is None and self.raw[d] > 0:
                most = p.limit if p.model == "continuous" else p.depth
                if p.limit <= 0:
                    answer = self.reject("target_disabled", dimension=p.name)
                elif self.raw[d] > most * (1 + 1e-12):
                    answer = self.reject("cost_exceeds_cap", dimension=p.name)
        for cap in self.policy.tenant_caps(self.args["tenant"]):
            d = self.policy.dim_index(cap.dimension)
            if answer is None and d is not None and self.raw[d] > max(0.0, cap.limit):
                answer = self.reject("target_disabled" if cap.limit <= 0 else "cost_exceeds_cap", dimension=cap.dimension)
        if answer is not None and call is not None:
            self.give_up(call)
        return answer

    def estimate(self, call: Call) -> None:
        """The estimate corrected by the flow's learnt ratio (the target's until the flow has one). A bound is debited as it
        stands, but tagged and forecast with the expectation."""
        ratios = [self.f.actual[d] / self.f.asked[d] if d in self.f.actual else s.actual / s.asked
                  for d, s in enumerate(self.state.dims)]
        call.expected = [min(p.limit, raw * min(k.RATIO_MAX, max(k.RATIO_MIN, ratio)))
                         for raw, ratio, p in zip(call.raw, ratios, self.policy.dims)]
        call.debit = call.raw if call.bound else call.expected
        call.sigma = expected_share(self.policy, call.expected)

    def good(self, call: Call | None) -> Answer:
        """From here on the request is good."""
        state, f, now_us = self.state, self.f, self.state.now_us
        if call is not None and self.policy.discipline == "buckets":  # no places there: one of the other discipline ends
            self.give_up(call)
            call = None
        self.fresh = call is None
        self.f_before = copy.deepcopy(f)
        self.f_is_new = (f.cls, f.tenant) not in state.flows
        state.flows[f.cls, f.tenant] = f
        if call is None:
            call = Call(self.args["id"], f.tenant, f.cls, self.raw, bool(self.args.get("bound")), self.attempt, now_us)
            self.estimate(call)
            if not self.check:
                mean = call.sigma if state.mean_sigma is None else state.mean_sigma
                state.mean_sigma = mean + k.MEAN_SIGMA_GAIN * (call.sigma - mean)
            for d, p in enumerate(self.policy.dims):
                u = call.expected[d] / p.cap / call.sigma if p.cap > 0 else 0.0
                f.profile[d] = f.profile[d] + k.PROFILE_GAIN * (u - f.profile[d]) if d in f.profile else u
        else:
            self.learn_lateness(call)
        if not self.check:
            state.admits += 1
            call.admits += 1
        answer = self.decide_by_buckets(call) if self.policy.discipline == "buckets" else self.decide_by_queue(call)
        if (f.cls, f.tenant) in state.flows and not self.left_no_trace:
            self.turns.retire(self.cls, f)
        return answer

    def learn_lateness(self, call: Call) -> None:
        """A caller that was not early shows how late its timer is."""
        if call.told_us is None or call.parked or self.state.now_us < call.told_us:
            return
        late_us = min(k.LATE_MAX_US, self.state.now_us - call.told_us)
        self.f.late_us += k.LATE_GAIN * (late_us - self.f.late_us)
        self.f.deviation_us += k.LATE_GAIN * (abs(late_us - self.f.late_us) - self.f.deviation_us)

    def open_lease(self, call: Call) -> None:
        call.granted_us = self.f.used_us = self.state.now_us
        call.state, call.ends_us = "lease", self.state.now_us + self.policy.lease_us
        call.lost, call.told_us = False, None
        self.state.calls[call.id] = call

    def debit(self, call: Call, start: float, dovetail: float) -> None:
        """Debits L1 and moves the flow's tags on, dimension by dimension; an idle dimension lags by `dovetail` at most."""
        self.state.serial += 1
        call.serial = self.state.serial
        call.charged, call.marks, call.variance = list(call.debit), [], []
        for d, (p, s) in enumerate(zip(self.policy.dims, self.state.dims)):
            x = call.debit[d]
            touched = x > 0 and p.limit > 0
            call.marks.append(s.window.debit(x, self.state.serial) if touched else 0)
            call.variance.append(self.f.variance.get(d, 0.0) if touched else 0.0)
            if touched:
                s.debited += x
                s.granted.append((call.serial, call.expected[d]))
                self.f.finish[d] = max(self.f.finish.get(d, 0.0), start - dovetail) + x / p.cap / self.f.weight

    def is_past(self) -> bool:
        """Is the work useless already?"""
        return self.args.get("deadline_us") is not None and self.args["deadline_us"] <= 0 and not self.force

    def count(self, call: Call) -> None:
        f, c = self.f, self.state.classes[self.cls]
        f.grants, c.grants, self.state.grants = f.grants + 1, c.grants + 1, self.state.grants + 1
        f.service, c.service = f.service + call.sigma, c.service + call.sigma

    # --- discipline buckets ---------------------------------------------------------------------------------------------

    def decide_by_buckets(self, call: Call) -> Answer:
        buckets, args = Buckets(self.policy, self.state), self.args
        if not self.check:
            buckets.ask(self.f)
        buckets.refill()
        self.saw_shares = True
        wait_s, layer, dimension = buckets.wait(self.f, call)
        ceilings = self.ceilings(call)
        for c, need in ceilings:
            t = c.wait_s(need, c.left)
            if t > 0 and (not layer or t < wait_s):
                wait_s, layer, dimension = t, c.layer, c.dimension
        delay_us = up_to_ms(max(k.DEFER_MIN_US, min(wait_s * 1e6, self.policy.max_defer_us)))
        if not layer and self.is_past():
            return self.reject("deadline_unreachable", earliest_us=delay_us)
        if not layer or self.force:
            self.turns.wake(self.f)
            buckets.debit(self.f, call)
            call.by_buckets = True
            self.debit(call, self.f.tag, 0.0)
            for c, need in ceilings:
                c.debit(need, call.serial)
            self.count(call)
            self.open_lease(call)
            return self.granted(call)
        if args.get("deadline_us") is not None and delay_us > args["deadline_us"]:
            return self.reject("deadline_unreachable", earliest_us=delay_us, dimension=dimension)
        delay_us = max(delay_us, up_to_ms(args.get("timer_floor_us", 0)))
        answer = {"outcome": "defer", "delay_us": delay_us, "projected_us": delay_us, "limits": [[layer, dimension]],
                  "place": 0, **self.head}
        return answer | ({"hold": True} if args.get("hold_us", 0) >= delay_us else {})
