"""Backlogged flows whose owners return when told, in virtual time: what they get, and when."""

from __future__ import annotations

import dataclasses
import heapq
import random

import hypothesis.strategies as st
from invariants import Violation
from ledger import Ledger
from store import START_US, Answer, Store, Subject

SECOND_US = 1_000_000
# What random crowds reached, with some room. Strict start-time fair queueing would keep flows within one request's
# worth; here a place is kept, but who is not back yet cannot be served, and what would spill goes to who asks.
APART_MAX = 8.0  # requests' worth
OVERTAKEN_MAX = 4  # times the calls of its flow that wait
GAP_MAX = 8.0  # ideal spacings
USED_MIN = {"continuous": 0.97, "fixed": 0.93, "sliding": 0.85}


@dataclasses.dataclass(frozen=True)
class Flow:
    tenant: str
    klass: str
    weight: float
    cost: dict[str, float]  # of each of its calls
    waiters: int  # so many of its calls wait at any time
    from_s: float = 0.0  # when its backlog begins
    early: int = 0  # single calls at the start, before it falls idle

    @property
    def key(self) -> tuple[str, str]:
        return self.tenant, self.klass


@dataclasses.dataclass(frozen=True)
class Crowd:
    policy: Answer
    flows: tuple[Flow, ...]
    late_us: int  # timers fire up to so much late
    seed: int
    seconds: float
    reweigh: tuple[float, float] | None = None  # at that time the first flow's weight is multiplied so

    def sigma(self, flow: Flow) -> float:
        """Seconds of the cap that one of its calls is worth."""
        return max(flow.cost[d["name"]] / d["limit"] * d["window_us"] / 1e6 for d in self.policy["dims"])


@dataclasses.dataclass
class Served:
    crowd: Crowd
    grants: list[tuple[float, Flow, int]]  # time, flow, the call's number in its flow
    excess: list[str]
    asks: int


def run(store: Store, crowd: Crowd) -> Served:
    """Grants are settled at once, as they were charged, and the next call of the flow asks at the same instant."""
    rng = random.Random(crowd.seed)
    weights = {f.tenant: f.weight for f in crowd.flows}
    subject = Subject(store, crowd.policy, {t: {"weight": w, "caps": []} for t, w in weights.items()})
    ledger, out = Ledger(crowd.policy), Served(crowd, [], [], 0)
    events: list[tuple[int, int, Flow, int]] = []  # when, tie, flow, number of the call
    numbers = {f.key: 0 for f in crowd.flows}
    for flow in crowd.flows:
        for at_s in [0.0] * flow.early + [flow.from_s] * flow.waiters:
            heapq.heappush(events, (round(at_s * 1e6), len(events), flow, numbers[flow.key]))
            numbers[flow.key] += 1
    tie = len(events)
    reweighed = crowd.reweigh is None
    while events and events[0][0] < crowd.seconds * 1e6:
        at_us, _, flow, number = heapq.heappop(events)
        subject.now_us = START_US + at_us
        if not reweighed and at_us >= crowd.reweigh[0] * 1e6:
            reweighed = True
            first = crowd.flows[0].tenant
            weights[first] *= crowd.reweigh[1]
            subject.configure(crowd.policy, {t: {"weight": w, "caps": []} for t, w in weights.items()})
        id = f"{flow.tenant}/{flow.klass}/{number}"
        answer = subject.admit(id, flow.tenant, cls=flow.klass, cost=flow.cost, bound=True)
        out.asks += 1
        tie += 1
        if answer["outcome"] == "defer":
            told = at_us + answer["delay_us"]
            heapq.heappush(events, (told + rng.randint(0, crowd.late_us), tie, flow, number))
            continue
        assert answer["outcome"] == "grant", answer
        ledger.see_clock(subject.now_us)
        ledger.grant(id, 1, subject.now_us, answer["debited"])
        ledger.grants = [g for g in ledger.grants if g.at_us > subject.now_us - 130 * SECOND_US]
        out.excess += [f"{name} at {at_us}: {x}" for name in ledger.dims if (x := ledger.excess(name))]
        out.grants.append((at_us / 1e6, flow, number))
        subject.release(id, usage={n: x for n, x in answer["debited"].items() if n != "requests"})
        if number >= flow.early:
            heapq.heappush(events, (at_us, tie, flow, numbers[flow.key]))
            numbers[flow.key] += 1
    subject.drop()
    return out


# Properties. Each takes what was served.


def p1_cap_respect(served: Served) -> None:
    assert not served.excess, served.excess[0]


def overtaken(served: Served) -> list[tuple[int, int, str]]:
    """(most younger siblings that went before one call, calls of its flow that wait at a time, who), by flow."""
    out = []
    for flow in served.crowd.flows:
        numbers = [n for _, f, n in served.grants if f.key == flow.key]
        most = max((sum(m > n for m in numbers[:i]) for i, n in enumerate(numbers)), default=0)
        out.append((most, flow.waiters, str(flow.key)))
    return out


def order_inside_a_flow(served: Served) -> None:
    """With exact timers a flow's calls go in order: each is overtaken by at most four times those beside it."""
    if served.crowd.late_us > 0:
        return
    for most, waiters, who in overtaken(served):
        assert most <= OVERTAKEN_MAX * waiters, f"{who}: a call was overtaken by {most}, {waiters} wait at a time"


def _start(crowd: Crowd) -> float:
    """From when on all are backlogged and weights stay."""
    return max([f.from_s for f in crowd.flows] + ([crowd.reweigh[0]] if crowd.reweigh else []))


def _weight(crowd: Crowd, flow: Flow) -> float:
    changed = crowd.reweigh and flow.tenant == crowd.flows[0].tenant
    return flow.weight * (crowd.reweigh[1] if changed else 1.0)


def _apart(a: list[tuple[float, float]], b: list[tuple[float, float]]) -> float:
    """The most that a got above b, or b above a, in any span: steps (time, amount)."""
    both = sorted([(at, x) for at, x in a] + [(at, -x) for at, x in b], key=lambda step: step[0])
    level = high = low = most = 0.0
    for i, (at, x) in enumerate(both):
        level += x
        if i + 1 < len(both) and both[i + 1][0] == at:
            continue
        high, low = max(high, level), min(low, level)
        most = max(most, high - level, level - low)
    return most


def shares_apart(served: Served) -> list[tuple[float, float, str]]:
    """(difference of weighted dominant shares in any span, one request's worth of both, who) of flows of a class and of
    classes."""
    crowd, start, out = served.crowd, _start(served.crowd), []
    grants = [(at, flow) for at, flow, _ in served.grants if at > start]
    for i, a in enumerate(crowd.flows):
        for b in crowd.flows[:i]:
            if a.klass == b.klass:
                worth = [crowd.sigma(f) / _weight(crowd, f) for f in (a, b)]
                steps = [[(at, w) for at, f in grants if f.key == x.key] for x, w in zip((a, b), worth, strict=True)]
                out.append((_apart(*steps), sum(worth), f"{a.key} and {b.key}"))
    omega = {c["name"]: c["weight"] for c in crowd.policy["classes"]}
    for i, a in enumerate(omega):
        for b in list(omega)[:i]:
            members = [[f for f in crowd.flows if f.klass == k] for k in (a, b)]
            if all(members):
                worth = sum(max(crowd.sigma(f) for f in m) / omega[k] for m, k in zip(members, (a, b), strict=True))
                steps = [[(at, crowd.sigma(f) / omega[k]) for at, f in grants if f.klass == k] for k in (a, b)]
                out.append((_apart(*steps), worth, f"classes {a} and {b}"))
    return out


def p2_weighted_dominant_shares(served: Served) -> None:
    """Flows of a class, and classes, are never further apart than some requests' worth, in any span."""
    for apart, worth, who in shares_apart(served):
        assert apart <= APART_MAX * worth * (1 + 1e-9), f"{who}: {apart!r} apart, requests worth {worth!r}"


def used(served: Served) -> float:
    """Part of the binding dimension that was used, from two windows after all came."""
    crowd = served.crowd
    best = 0.0
    for d in crowd.policy["dims"]:
        from_s = 2 * d["window_us"] / 1e6 + _start(crowd)
        total = sum(f.cost[d["name"]] for at, f, _ in served.grants if at > from_s)
        best = max(best, total / (d["limit"] * d["rate_fraction"] * (crowd.seconds - from_s) / d["window_us"] * 1e6))
    return best


def gaps(served: Served) -> list[tuple[float, float, str]]:
    """(longest time without a grant, ideal spacing, who), of all flows while all are backlogged."""
    crowd, start, out = served.crowd, _start(served.crowd), []
    weight = {c["name"]: c["weight"] for c in crowd.policy["classes"]}
    present = {f.klass for f in crowd.flows}
    in_class = {k: sum(_weight(crowd, f) for f in crowd.flows if f.klass == k) for k in present}
    share = {
        f.key: weight[f.klass] / sum(weight[k] for k in present) * _weight(crowd, f) / in_class[f.klass]
        for f in crowd.flows
    }
    load = max(
        sum(share[f.key] / crowd.sigma(f) * f.cost[d["name"]] for f in crowd.flows)
        / d["limit"]
        * d["window_us"]
        / 1e6
        / d["rate_fraction"]
        for d in crowd.policy["dims"]
    )
    for f in crowd.flows:
        times = [start, *(at for at, g, _ in served.grants if g.key == f.key and at > start), crowd.seconds]
        longest = max(b - a for a, b in zip(times, times[1:], strict=False))
        out.append((longest, crowd.sigma(f) / share[f.key] * load, str(f.key)))
    return out


def no_starvation(served: Served) -> None:
    for longest, spacing, who in gaps(served):
        late_s = served.crowd.late_us / 1e6
        assert longest <= GAP_MAX * spacing + late_s, f"{who}: {longest} s without a grant, ideal spacing {spacing} s"


def p3_work_conservation(served: Served) -> None:
    """The binding cap does not idle while flows are backlogged."""
    least = min(USED_MIN[d["model"]] for d in served.crowd.policy["dims"])
    assert used(served) >= least, f"{used(served)} of the binding cap used"


def bounded_asks(served: Served) -> None:
    """Who returns when told is not turned away again and again."""
    assert served.asks <= 4 * len(served.grants), f"{served.asks} asks for {len(served.grants)} grants"


PROPERTIES = {
    check.__name__: check
    for check in (
        p1_cap_respect,
        order_inside_a_flow,
        p2_weighted_dominant_shares,
        no_starvation,
        p3_work_conservation,
        bounded_asks,
    )
}


def check(served: Served, names: frozenset[str] = frozenset(PROPERTIES)) -> None:
    for name in sorted(names):
        try:
            PROPERTIES[name](served)
        except AssertionError as failure:
            raise Violation(name, str(failure)) from None


def policy(dims: list[Answer], classes: dict[str, float]) -> Answer:
    return {
        "discipline": "queue",
        "dims": dims,
        "classes": [{"name": k, "weight": w} for k, w in classes.items()],
        "default_class": list(classes)[-1],
        "default_weight": 1.0,
        "listed_only": False,
        "max_defer_us": 300_000_000,
        "lease_us": 60_000_000,
        "retention_us": 3_600_000_000,
        "places_max": 1000,
    }


def dimension(name: str, limit: float, model: str) -> Answer:
    rate, burst = (0.995, 0.9) if model == "continuous" else (1.0, 0.2)
    return {
        "name": name,
        "limit": limit,
        "window_us": SECOND_US,
        "model": model,
        "phase_us": 0,
        "rate_fraction": rate,
        "burst_fraction": burst,
    }


LIMITS = {"requests": 20.0, "tokens": 1000.0, "dollars": 10.0}


@st.composite
def crowds(draw: st.DrawFn, seconds: float = 12.0) -> Crowd:
    """Two to five flows in one or two classes, some of which were idle for seconds."""
    model = draw(st.sampled_from(["continuous", "fixed", "sliding"]))
    dims = [dimension(name, LIMITS[name], model) for name in list(LIMITS)[: draw(st.integers(1, 3))]]
    classes = {"a": 1.0, "b": draw(st.sampled_from([0.3, 1.0, 3.0]))} if draw(st.booleans()) else {"a": 1.0}
    equal = draw(st.booleans())
    flows = []
    for i in range(draw(st.integers(2, 5))):
        part = draw(st.sampled_from([0.01, 0.03, 0.05]))
        other = draw(st.sampled_from([0.01, 0.03, 0.05]))
        cost = {"requests": 1.0, "tokens": LIMITS["tokens"] * part, "dollars": LIMITS["dollars"] * other}
        weight = 1.0 if equal else draw(st.sampled_from([0.5, 1.0, 2.0, 4.0]))
        returns_s, early = draw(st.sampled_from([(0.0, 0), (0.0, 0), (4.0, 0), (4.0, 2)]))
        flows.append(
            Flow(
                f"t{i}",
                draw(st.sampled_from(list(classes))),
                weight,
                {d["name"]: cost[d["name"]] for d in dims},
                draw(st.integers(1, 6)),
                returns_s,
                early,
            )
        )
    reweigh = draw(st.sampled_from([None, None, (3.0, 4.0), (3.0, 0.25)]))
    return Crowd(
        policy(dims, classes),
        tuple(flows),
        draw(st.sampled_from([0, 50_000])),
        draw(st.integers(0, 10**6)),
        seconds,
        reweigh,
    )
