"""The gate's decision: Admit, Release, Configure and Inspect of one target, with the scripts' arguments and answers
(server/lua/README.md). Read DESIGN.md section 3 beside it; each part below names what it does, not how it is stored."""

from __future__ import annotations

import copy
from typing import Any

import admit
import constants as k
import feedback
import leases
from buckets import Buckets
from learnt import LearntWindow
from policy import Policy
from state import Call, Flow, State, at
from turns import Turns
from windows import SlidingLog

Answer = dict[str, Any]


class Gate:
    """One target. `close`: rounding could turn a comparison; one with the scripts must not go on behind that."""

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.state: State | None = None
        self.close = False

    # --- shared -------------------------------------------------------------------------------------------------------

    def near(self, a: float, b: float) -> None:
        if abs(a - b) <= 1e-11 * max(1.0, abs(a), abs(b)):
            self.close = True

    @property
    def turns(self) -> Turns:
        return Turns(self.policy, self.state, self.near)

    def pass_time(self, clock_us: int) -> None:
        """Time alone moves the clock and what refills; state is created at the first decision."""
        if self.state is None:
            self.state = State(self.policy, clock_us)
        self.state.read_clock(clock_us)
        self.state.fit(self.policy)
        for p, s in zip(self.policy.dims, self.state.dims):
            if p.limit > 0:
                s.window.advance(self.state.clock)

    def flow(self, cls: int, tenant: str) -> Flow:
        return self.state.flows.get((cls, tenant)) or Flow(cls, tenant, self.policy.tenant_weight(tenant))

    def named(self, values: dict[int, float]) -> dict[str, float]:
        return {p.name: values[d] for d, p in enumerate(self.policy.dims) if d in values}

    def __deepcopy__(self, memo: dict[int, Any]) -> Gate:
        other = Gate()
        memo[id(self)] = other
        other.policy, other.close = self.policy, self.close
        other.state = copy.deepcopy(self.state, memo | {id(self.policy): self.policy})
        return other

    # --- the four questions ---------------------------------------------------------------------------------------------

    def configure(self, expected_version: int, compiled: dict[str, Any] | None = None,
                  tenants: dict[str, Any] | None = None, delete: bool = False, *, clock_us: int, **_: Any) -> Answer:
        version = self.policy.version if self.policy else 0
        if expected_version != version:
            return {"result": "conflict", "version": version}
        if delete:
            self.policy = self.state = None
            return {"result": "ok", "version": 0}
        if self.state is not None:  # what has passed was under the old policy
            self.pass_time(clock_us)
        self.policy = Policy(compiled, tenants or {}, self.policy)
        return {"result": "ok", "version": self.policy.version}

    def admit(self, **args: Any) -> Answer:
        if self.policy is None:
            return {"outcome": "no_target"}
        if not args.get("check"):
            return admit.Question(self, args).decide()
        # A check-only question works on a copy. What time alone does would have been done by any other question, too.
        question = admit.Question(copy.deepcopy(self), args)
        answer = question.decide()
        self.close |= question.gate.close
        if question.saw_time:
            self.pass_time(args["clock_us"])
            leases.reap(self.state, self.policy)
            if question.saw_places:
                self.turns.service_rate()
            if question.saw_shares:
                Buckets(self.policy, self.state).refill()
        return answer

    def release(self, id: str, clock_us: int, attempt: int = 1, action: str = "settle", outcome: str = "unknown",
                usage: dict[str, float] | None = None, retry_after_us: int = 0, lease_us: int | None = None,
                rate_limits: feedback.Told | None = None) -> Answer:
        if self.policy is None:
            return {"result": "no_target"}
        policy, version = self.policy, self.policy.version
        unknown = [name for name in usage or {} if policy.dim_index(name) is None]
        if unknown:
            return {"result": "invalid", "field": f'usage["{unknown[0]}"]', "version": version}
        call = self.state.calls.get(id) if self.state else None
        if call is None:
            return {"result": "unknown", "version": version}

        def answer(result: str, **more: Any) -> Answer:
            return {"result": result, "version": version, "tenant": call.tenant,
                    "class": policy.classes[call.cls].name, **more}

        if attempt > call.attempt:
            return answer("unknown")
        if attempt < call.attempt or call.state == "settled":
            return answer("already_settled")
        if call.state == "expired":
            return answer("expired")
        if call.state == "waiting" and action != "withdraw":
            return answer("unknown")

        self.pass_time(clock_us)
        state = self.state
        if call.state == "waiting":
            self.withdraw(call)
            return answer("withdrawn")
        f = self.flow(call.cls, call.tenant)
        state.flows[call.cls, call.tenant] = f
        amounts = {policy.dim_index(name): x for name, x in (usage or {}).items()}
        if action == "extend":
            return answer("extended", **self.extend(f, call, amounts, lease_us or policy.lease_us))
        settled = self.settle(f, call, "not_sent" if action == "withdraw" else outcome, amounts, retry_after_us,
                              rate_limits or {})
        return answer("withdrawn" if action == "withdraw" else "settled", **settled)

    def inspect(self, clock_us: int, **_: Any) -> Answer:
        if self.policy is None:
            return {"result": "no_target"}
        now = self.state is not None and (self.state.clock.wall_us, self.state.version) == (clock_us, self.policy.version)
        return (self if now else copy.deepcopy(self)).describe(clock_us)  # only then does a look at it change nothing

    # --- Release ----------------------------------------------------------------------------------------------------------

    def withdraw(self, call: Call) -> None:
        leases.unblock(call)
        if call.queued:
            self.turns.dequeue(self.state.flows[call.cls, call.tenant], call)
            self.turns.follow_class(call.cls)
        del self.state.calls[call.id]

    def extend(self, f: Flow, call: Call, used: dict[int, float], lease_us: int) -> Answer:
        """The lease lives on; usage so far raises the charge, at every layer, and what is known is no longer noise."""
        more = {d: x for d, x in used.items() if x > at(call.charged, d)}
        before = list(call.charged)
        refunded = leases.settle(self.policy, self.state, f, call, more, at_caps=True)
        leases.settle_ceilings(self.policy, self.state, call, before, more)
        for d, x in more.items():
            call.charged[d] = x
        call.variance = [0.0] * len(call.variance)
        call.ends_us = self.state.now_us + lease_us
        return {"refunded": refunded, "lease_us": lease_us}

    def settle(self, f: Flow, call: Call, outcome: str, actual: dict[int, float], retry_after_us: int,
               told: feedback.Told) -> Answer:
        policy, state = self.policy, self.state
        dims = range(len(policy.dims))
        if outcome == "not_sent":
            actual = {d: actual.get(d, 0.0) for d in dims}
        missing = False
        for d in dims:
            if at(call.charged, d) > 0 and d not in actual:
                if policy.dims[d].name == "requests":  # one call is one request, whatever it used besides
                    actual[d] = call.charged[d]
                else:
                    missing = True
        if outcome == "rate_limited":
            # the provider counted it and is full: caps keep the charge, the turn is given back, the target pauses
            # back, but for the paper's rule, which has none
            refunded = {} if call.by_buckets else leases.settle(policy, state, f, call, dict.fromkeys(dims, 0.0), at_caps=False)
            feedback.refused(policy, state, f, call, told, self.near)
            self.pause(call, retry_after_us, told)
        else:
            refunded = leases.settle(policy, state, f, call, actual, at_caps=True)
            if outcome == "ok":
                leases.learn(state, f, call, actual)
        leases.forget_later(policy, state, call, "settled")
        if outcome != "rate_limited":
            feedback.answered(policy, state, call, told)
        leases.settle_ceilings(policy, state, call, call.charged, actual)
        charged = {d: actual.get(d, at(call.charged, d)) for d in dims if d in actual or d < len(call.charged)}
        answer = {"refunded": refunded, "charged": self.named(charged), "estimated": self.named(dict(enumerate(call.raw)))}
        return answer | ({"usage_missing": True} if missing else {})

    def pause(self, call: Call, retry_after_us: int, told: feedback.Told) -> None:
        """No grant before the provider's time. Unless it said what it has left, the pause's own refill is no budget: at its
        end one such call fits, and then the next by the rate."""
        retry_us = min(retry_after_us, k.RETRY_MAX_US)
        if retry_us <= 0:
            return
        self.state.pause_us = max(self.state.pause_us, self.state.now_us + retry_us)
        for d, (p, s) in enumerate(zip(self.policy.dims, self.state.dims)):
            known = told.get(p.name, {}).get("remaining") is not None
            if p.limit > 0 and p.model == "continuous" and at(call.charged, d) > 0 and not known:
                s.window.level = min(s.window.level, min(call.charged[d], p.depth) - p.rate * retry_us / 1e6)

    # --- Inspect ----------------------------------------------------------------------------------------------------------

    def describe(self, clock_us: int) -> Answer:
        self.pass_time(clock_us)
        policy, state, turns = self.policy, self.state, self.turns
        dims = []
        for d, (p, s) in enumerate(zip(policy.dims, state.dims)):
            if p.retired:
                continue
            left = 0.0
            if p.limit > 0:  # without what only spreads
                window = s.window.decides if isinstance(s.window, LearntWindow) else s.window
                left = window.books if isinstance(window, SlidingLog) else window.available()
            shown = {"name": p.name, "rate_per_second": p.rate, "capacity": p.depth, "available": left,
                     "waiting": state.waiting_cost(d), "debited_total": s.debited, "refunded_total": s.refunded}
            if p.limit > 0 and isinstance(s.window, LearntWindow) and s.window.known:
                lowest, highest = s.window.bounds()
                shown |= {"phase_us": (lowest - s.window.reports.behind_us) % p.window_us, "phase_unsure_us": highest - lowest}
            dims.append(shown)
        classes = [{"name": p.name, "weight": p.weight, "start_tag": turns.class_finish(i), "virtual_time": c.virtual,
                    "waiters": len(state.queued(i)), "flows_active": sum(1 for f in state.flows_of(i) if f.counted),
                    "grants_total": c.grants, "service_seconds": c.service}
                   for i, (p, c) in enumerate(zip(policy.classes, state.classes)) if not p.retired]
        flows = [{"tenant": f.tenant, "class": policy.classes[f.cls].name, "weight": f.weight, "start_tag": f.tag,
                  "waiters": len(state.queued(flow=f)), "grants_total": f.grants, "service_seconds": f.service,
                  "lateness_us": f.late_us, "ratio": self.named({d: f.actual[d] / f.asked[d] for d in f.actual})}
                 for f in state.flows.values() if f.standing is not None]
        return {"result": "ok", "version": policy.version, "dims": dims, "classes": classes, "flows": flows,
                "virtual_time": state.virtual, "waiters": len(state.queued()), "leases_open": len(state.leases()),
                "leases_expired_total": state.expired, "grants_total": state.grants, "admits_total": state.admits,
                "paused_us": max(0, state.pause_us - state.now_us)}
