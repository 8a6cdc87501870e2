"""Discipline `buckets`: Algorithm 1 of arXiv 2611.02926. Three nested buckets, all checked and debited at once; a refused
call keeps no place and is told the earliest refill among the depleted.

    L2  per class and dimension, nominal omega_k C_d / sum omega; what overflows is lent, first down, then up to who asks
    L3  per active flow in dominant share: refill (w_t / W_k) X*,  X* = min_d C_d W_k / D_kd (costs as parts of C_d)
"""

from __future__ import annotations

import constants as k
from policy import Dimension, Policy
from state import Call, Flow, State


class Buckets:
    def __init__(self, policy: Policy, state: State) -> None:
        self.policy, self.state = policy, state

    def ask(self, f: Flow) -> None:
        """The flow asks, so it is active; who has not asked for a while no longer is."""
        f.counted = (f.weight, dict(f.profile))
        f.stand("asking", self.state.now_us)
        for cls in range(len(self.state.classes)):
            asking = sorted((g for g in self.state.flows_of(cls) if g.standing == "asking"),
                            key=lambda g: (g.standing_at, g.field))
            for g in asking[:k.INACTIVE_MAX]:
                if g.standing_at < self.state.now_us - k.ACTIVE_US:
                    g.counted = None
                    g.stand("idle", self.state.now_us)

    def nominal(self, cls: int, p: Dimension) -> float:
        total = sum(c.weight for c in self.policy.classes if not c.retired)
        return self.policy.classes[cls].weight / total * p.cap if total > 0 else 0.0

    def refill(self) -> None:
        elapsed_s = (self.state.now_us - self.state.shares_at_us) / 1e6
        self.state.shares_at_us = self.state.now_us
        for d, p in enumerate(self.policy.dims):
            spare = 0.0
            for cls, c in enumerate(self.state.classes):
                rate = self.nominal(cls, p)
                depth = rate * p.window_s
                level = c.shares.get(d, depth) + elapsed_s * rate + spare
                spare = max(0.0, level - depth)
                c.shares[d] = min(depth, level)
            for cls, c in enumerate(self.state.classes):
                if any(f.counted for f in self.state.flows_of(cls)):
                    given = max(0.0, min(spare, p.limit - c.shares[d]))
                    c.shares[d] += given
                    spare -= given

    def flow_rate(self, f: Flow) -> float:
        demands = [self.state.demand(f.cls, d) for d, p in enumerate(self.policy.dims) if p.cap > 0]
        if not any(x > 0 for x in demands):
            return 1.0
        total = self.state.weight_sum(f.cls)
        return f.weight / total * min(total / x for x in demands if x > 0)

    def wait(self, f: Flow, call: Call) -> tuple[float, str, str]:
        """Seconds until the earliest refill among the depleted, its layer and dimension; 0 when all hold."""
        depleted: list[tuple[float, str, str]] = []
        for d, p in enumerate(self.policy.dims):
            need = call.debit[d]
            if need <= 0 or p.limit <= 0:
                continue
            t = self.state.dims[d].window.wait_s(min(need, p.depth))
            if t > 0:
                depleted.append((t, "target", p.name))
            rate = self.nominal(call.cls, p)
            short = min(need, rate * p.window_s) - self.state.classes[call.cls].shares[d]
            if short > 1e-9:
                depleted.append((short / rate if rate > 0 else 1e300, "class", p.name))
        rate = self.flow_rate(f)
        depth = max(call.sigma, rate * self.policy.dims[0].window_s)
        elapsed_us = max(0, self.state.now_us - f.level_us) if f.level is not None else 0
        f.level = min(depth, (depth if f.level is None else f.level) + elapsed_us / 1e6 * rate)
        f.level_us = self.state.now_us
        if f.level < call.sigma - 1e-12:
            depleted.append(((call.sigma - f.level) / rate, "tenant", ""))
        if self.state.pause_us > self.state.now_us:
            return (self.state.pause_us - self.state.now_us) / 1e6, "target", ""
        return min(depleted, key=lambda x: x[0], default=(0.0, "", ""))

    def debit(self, f: Flow, call: Call) -> None:
        for d in range(len(self.policy.dims)):
            self.state.classes[call.cls].shares[d] -= call.debit[d]
        f.level = (f.level or 0.0) - call.sigma


