"""The table of scenarios: attacks, crowds, churn, big and long calls, odd caps, several dimensions.

Names end in the window model unless it is `continuous`; `unknown` is a fixed window of unknown phase, which the policy
calls sliding, and `learnt` one whose phase is learnt from headers.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable

from workloads import WORKLOADS

from .demand import Amounts, Change, Draw, Flow, Scenario, Timers, const
from .workload_table import workload_scenario

R: dict[str, float] = {"requests": 60.0}
RT: dict[str, float] = {"requests": 60.0, "tokens": 12_000.0}
RIO: dict[str, float] = {"requests": 60.0, "tokens": 12_000.0, "output": 6_000.0}
PER_MINUTE: dict[str, float] = {"requests": 5 / 60}
ONE = const(1.0)


def _tokens(rng: random.Random, mu: float, sigma: float, least: int, most: int) -> int:
    return int(min(most, max(least, rng.lognormvariate(mu, sigma))))


def _same(amount: int) -> tuple[Amounts, Amounts]:
    return (1.0, float(amount)), (1.0, float(amount))


def heavy_tail(rng: random.Random, _number: int) -> tuple[Amounts, Amounts]:
    return _same(_tokens(rng, 4.5, 1.6, 1, 5000))


def tenth_told(rng: random.Random, _number: int) -> tuple[Amounts, Amounts]:
    t = _tokens(rng, 5.5, 0.8, 20, 3000)
    return (1.0, float(max(1, t // 10))), (1.0, float(t))


def tenfold_bound(rng: random.Random, _number: int) -> tuple[Amounts, Amounts]:
    t = _tokens(rng, 5.5, 0.8, 20, 3000)
    return (1.0, float(min(12_000, t * 10))), (1.0, float(t))


def over_told(rng: random.Random, _number: int) -> tuple[Amounts, Amounts]:
    return (1.0, 950.0), (1.0, float(rng.randint(200, 400)))


def wrong(told: float, actual: float) -> Draw:
    return lambda _rng, _number: ((1.0, told), (1.0, actual))


def alternating(every: int) -> Draw:
    return lambda _rng, number: _same(1 if (number + 1) // every % 2 else 800)


SIX = (("a1", "p1", 4), ("b1", "p1", 4), ("a2", "p2", 8), ("b2", "p2", 8), ("a3", "p3", 16), ("b3", "p3", 16))


def six(draw: Draw, workers: int = 0, **more: object) -> tuple[Flow, ...]:
    return tuple(Flow(name, cls, draw, workers=workers or own, **more) for name, cls, own in SIX)


def flows(*rows: tuple[str, str, int, Draw], **more: object) -> tuple[Flow, ...]:
    return tuple(Flow(name, cls, draw, workers=workers, **more) for name, cls, workers, draw in rows)


def crowd(count: int, cls: str, workers: int = 1, **more: object) -> tuple[Flow, ...]:
    return tuple(Flow(f"t{i}", cls, ONE, workers=workers, **more) for i in range(count))


def open_loop(load: float, burst: int = 1) -> tuple[Flow, ...]:
    rows = (("p1", "p1", 0.4), ("q1", "p1", 0.1), ("p2", "p2", 0.25), ("p3", "p3", 0.25))
    return tuple(Flow(name, cls, ONE, rate=60 * load * part, burst=burst) for name, cls, part in rows)


def big(part: float) -> tuple[Flow, ...]:
    return (
        Flow("big", "p1", const(1, int(12_000 * part)), workers=1, big=True),
        *(Flow(f"s{i}", "p1", const(1, 150), workers=20) for i in range(4)),
    )


def late_one() -> tuple[Flow, ...]:
    return (
        Flow("late", "p1", ONE, workers=40, timers=Timers(0.5, 1.5)),
        *flows(("b", "p1", 40, ONE), ("c", "p2", 40, ONE)),
    )


def poller(cls: str) -> tuple[Flow, ...]:
    return (Flow("poll", cls, ONE, workers=20, poll=0.01), *flows(("b", "p1", 20, ONE), ("c", "p2", 20, ONE)))


def lost(part: float) -> tuple[Flow, ...]:
    return (*six(ONE, lost=part), Flow("d3", "p3", ONE, workers=60, lost=part))


def under_told(unreleased: float = 0.0) -> tuple[Flow, ...]:
    return (
        Flow("cheat", "p1", wrong(1, 600), workers=20, unreleased=unreleased),
        *flows(("b", "p1", 20, const(1, 300)), ("c", "p2", 20, const(1, 300))),
    )


def liar() -> tuple[Flow, ...]:
    return (
        Flow("liar", "p1", const(1, 300), workers=20, reported=lambda actual: (1.0, 1.0)),
        *flows(("b", "p1", 20, const(1, 300)), ("c", "p2", 20, const(1, 300))),
    )


def long_calls(draw: Draw) -> tuple[Flow, ...]:
    return flows(
        ("a", "p1", 400, draw),
        ("b", "p1", 400, draw),
        ("c", "p2", 400, draw),
        ("d", "p3", 400, draw),
        latency=(20.0, 40.0),
    )


def three(workers: int, **more: object) -> tuple[Flow, ...]:
    return flows(("a", "p1", workers, ONE), ("b", "p2", workers, ONE), ("c", "p3", workers, ONE), **more)


THREE_DIMENSIONS = flows(
    ("r", "p1", 20, const(1, 50, 20)),
    ("i", "p1", 20, const(1, 600, 50)),
    ("o", "p2", 20, const(1, 100, 400)),
    ("m", "p3", 20, const(1, 300, 150)),
)
ALTERNATE = flows(("req", "p1", 20, const(1, 50)), ("tok", "p1", 20, const(1, 500)))


def _rows() -> Iterable[Scenario]:
    def row(
        name: str,
        caps: dict[str, float],
        who: tuple[Flow, ...],
        seconds: float = 40.0,
        warm_up: float = 5.0,
        **more: object,
    ) -> Scenario:
        window = name.rpartition("/")[2] if "/" in name else "continuous"
        told = {"unknown": "sliding", "learnt": "fixed_learnt"}.get(window, "")
        if told:
            window, more = "fixed", {"headers": told == "fixed_learnt", **more}
        return Scenario(name, caps, who, window=window, told=told, seconds=seconds, warm_up=warm_up, **more)

    # Open loop, by load in caps.
    for load in (0.5, 0.95, 1.5, 5.0):
        yield row(f"open{int(load * 100)}", R, open_loop(load), 30)
    yield row("open150/unknown", R, open_loop(1.5), 30)
    yield row("open150/fixed", R, open_loop(1.5), 30)
    yield row("burst95", R, open_loop(0.95, 15))
    yield row("burst150", R, open_loop(1.5, 15), 30)
    # Costs with a heavy tail; calls as big as most of a window.
    for window in ("continuous", "unknown", "fixed", "sliding"):
        yield row(f"heavy/{window}", RT, six(heavy_tail, 16), 60)
    for part, window in (
        (0.3, "continuous"),
        (0.6, "continuous"),
        (0.85, "continuous"),
        (0.3, "fixed"),
        (0.85, "fixed"),
        (0.3, "sliding"),
        (0.85, "sliding"),
    ):
        yield row(f"big{int(part * 100)}/{window}", RT, big(part), 60)
    # Many tenants, few workers, weights, crowds.
    yield row("tenants300", R, tuple(Flow(f"t{i}", f"p{1 + i % 3}", ONE, workers=2) for i in range(300)), 75, 15)
    yield row("one-against-200", R, flows(("one", "p1", 1, ONE), ("two", "p1", 200, ONE), ("x3", "p3", 200, ONE)))
    yield row(
        "weights",
        R,
        (
            Flow("w30", "p1", ONE, workers=20, weight=30),
            Flow("w3", "p1", ONE, workers=20, weight=3),
            Flow("w.3", "p1", ONE, workers=20, weight=0.3),
            Flow("w.001", "p1", ONE, workers=5, weight=0.001, shared=False),
            Flow("y", "p2", ONE, workers=20),
        ),
        90,
    )
    yield row(
        "weight-vanishes",
        R,
        (Flow("w1000", "p1", ONE, workers=40, weight=1000, stop=15, shared=False), Flow("w1", "p1", ONE, workers=40)),
        40,
        16,
    )
    yield row(
        "class-wave",
        R,
        (
            Flow("a", "p1", ONE, workers=20, on_off=(2, 0.5, 0)),
            Flow("b", "p2", ONE, workers=20, on_off=(2, 0.5, 1)),
            Flow("c", "p3", ONE, workers=20),
            Flow("c2", "p3", ONE, workers=20),
        ),
        45,
        ideal_share={"a": 21.4 / 60, "b": 18 / 60, "c": 10.3 / 60, "c2": 10.3 / 60},
    )
    yield row(
        "crowd-leaves",
        R,
        (*flows(("stay", "p1", 10, ONE), ("z", "p2", 40, ONE)), *crowd(200, "p1", stop=15, shared=False)),
        30,
        15.5,
    )
    yield row(
        "crowd-passes",
        R,
        (*flows(("stay", "p1", 30, ONE), ("z", "p2", 30, ONE)), *crowd(200, "p2", start=15, stop=25, shared=False)),
        40,
        watched="stay",
        ideal_share={"stay": 0.625},
    )
    # Tenants whose dominant dimension changes.
    for every, name in ((1, "alternate"), (50, "alternate50")):
        yield row(name, RT, (Flow("alt", "p1", alternating(every), workers=20), *ALTERNATE), 60)
    # Timers, pollers, lost owners, ids that never come back.
    yield row("all-2s-late", R, six(ONE, timers=Timers(1.0, 1.0)), 60)
    yield row("one-late", R, late_one(), 60)
    yield row("one-late/unknown", R, late_one(), 60)
    yield row("poller", R, poller("p1"), 30)
    yield row("poller/unknown", R, poller("p3"), 30)
    yield row(
        "early50",
        R,
        (
            Flow("early", "p1", ONE, workers=40, early=0.5, timers=Timers(0.0, 0.0)),
            *flows(("b", "p1", 40, ONE), ("c", "p2", 40, ONE)),
        ),
    )
    for part in (0.1, 0.5, 0.9):
        yield row(f"lost{int(part * 100)}", R, lost(part), 60)
    yield row(
        "one-lost90",
        R,
        (
            Flow("dead", "p1", ONE, workers=60, lost=0.9, lost_pause=0.05),
            *flows(("b", "p1", 30, ONE), ("c", "p2", 30, ONE)),
        ),
        60,
    )
    yield row(
        "dead-head",
        R,
        (
            Flow("dead", "p1", ONE, workers=50, lost=1.0, stop=10, shared=False),
            *flows(("b", "p1", 20, ONE), ("c", "p2", 20, ONE)),
            Flow("new", "p1", ONE, workers=20, start=30, shared=False),
        ),
        40,
        12,
    )
    yield row(
        "many-ids",
        R,
        (Flow("ids", "p1", ONE, rate=300, lost=1.0), *flows(("b", "p1", 30, ONE), ("c", "p2", 30, ONE))),
        30,
    )
    # Wrong estimates, missing and false Releases.
    yield row("under-told", RT, under_told())
    yield row("under-told-unreleased", RT, under_told(1.0), policy={"lease_us": 10_000_000}, headers=True)
    yield row(
        "unreleased",
        RT,
        (
            Flow("n", "p1", const(1, 300), workers=20, unreleased=1.0),
            *flows(("b", "p1", 20, const(1, 300)), ("c", "p2", 20, const(1, 300))),
        ),
    )
    yield row(
        "huge-refund",
        RT,
        (
            Flow("hog", "p3", wrong(3000, 10), workers=300, latency=(5.0, 5.0), shared=False),
            *flows(("b", "p1", 40, const(1, 300)), ("c", "p2", 40, const(1, 300))),
        ),
        40,
        1,
        bound=True,
    )
    yield row(
        "false-refund",
        RT,
        (
            Flow(
                "bank",
                "p1",
                const(1, 2000),
                workers=30,
                reported=lambda actual: (0.0, 0.0),
                latency=(8.0, 8.0),
                stop=12,
                shared=False,
            ),
            Flow("bank2", "p1", const(1, 2000), workers=1),
            *flows(("b", "p1", 40, const(1, 300)), ("c", "p2", 40, const(1, 300)), start=10.0),
        ),
        30,
        10.5,
        headers=True,
    )
    for window in ("continuous", "fixed", "sliding"):
        yield row(f"false-usage/{window}", RT, liar(), headers=True)
    yield row(
        "mixed-estimates",
        RT,
        flows(("over", "p1", 30, over_told), ("exact", "p1", 30, const(1, 300)), ("e2", "p2", 30, const(1, 300))),
        60,
        bound=True,
    )
    # Several dimensions, capped tenants, dimensions that classes do not share.
    yield row("three-dimensions", RIO, THREE_DIMENSIONS, 60)
    yield row("three-dimensions/fixed", RIO, THREE_DIMENSIONS, 60)
    for window in ("continuous", "fixed", "sliding"):
        yield row(
            f"capped/{window}",
            R,
            flows(("capped", "p1", 20, ONE), ("b", "p1", 20, ONE), ("c", "p2", 20, ONE)),
            tenant_caps={"capped": {"requests": 5.0}},
        )
        yield row(
            f"disjoint/{window}",
            RT,
            flows(("a", "p1", 20, const(1, 0)), ("b", "p2", 20, const(1, 0)), ("c", "p3", 20, const(0, 400))),
        )
    # Long calls.
    yield row("long-30s", RT, long_calls(const(1, 350)), 150, 60)
    yield row("long-30s-tenth", RT, long_calls(tenth_told), 150, 60)
    yield row("long-30s-tenth-60s/fixed", RT, long_calls(tenth_told), 240, 60, window_s=60.0)
    yield row("long-30s-tenfold-bound", RT, long_calls(tenfold_bound), 200, 80, window_s=10.0, bound=True)
    # Changes of weights and caps.
    yield row(
        "weight-changes",
        R,
        (Flow("a", "p1", ONE, workers=30, weight=0.01), Flow("b", "p1", ONE, workers=30)),
        30,
        10.5,
        changes=(Change(10, weights={"a": 1.0}),),
        ideal_weight={"a": 1.0},
    )
    yield row("cap-down", R, six(ONE, 16), 40, 12, changes=(Change(10, caps={"requests": 20.0}),))
    yield row("cap-up", R, six(ONE, 40), 30, 12, changes=(Change(10, caps={"requests": 240.0}),))
    # Small and huge caps, long windows, a slow network.
    for window in ("continuous", "fixed", "unknown"):
        yield row(f"cap-5-per-minute/{window}", PER_MINUTE, three(4, latency=(1.0, 3.0)), 1800, 180, window_s=60.0)
    yield row("cap-5000-per-second", {"requests": 5000.0}, three(1500), 4, 1.5)
    yield row("window-60s/fixed", R, six(ONE, 20), 240, 60, window_s=60.0)
    yield row("window-60s/unknown", R, six(ONE, 20), 240, 60, window_s=60.0)
    yield row("window-60s/learnt", R, six(ONE, 20), 360, 180, window_s=60.0)
    yield row("window-60s-heavy/unknown", RT, six(heavy_tail, 16), 240, 60, window_s=60.0)
    for window in ("continuous", "fixed", "sliding"):
        yield row(f"slow-network/{window}", R, six(ONE, 16), network=(0.02, 0.08))


SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _rows()}


def find(name: str, window: str = "", seconds: float = 0.0) -> Scenario:
    """A workload in a window model, or a row of the table. seconds: 0 for its own length."""
    if name in WORKLOADS:
        return workload_scenario(name, window or "continuous", seconds or 45.0)
    scenario = SCENARIOS[name]
    return dataclasses.replace(scenario, seconds=seconds) if seconds else scenario
