"""What arXiv 2611.02926 reports (section VI), and the bars that our results are held against."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any

Row = Mapping[str, Any]
# Workload -> arm -> measure -> value, as in the rows of the results; where the paper gives none there is none.
PAPER: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "cross-priority": {
        "naive": {"share_429": 0.232, "jain": 0.60, "ok_per_class": (8.4, 17.4, 34.8), "ok_per_s": 55.5,
                  "p1_http_p95_ms": 3506, "slot_ms": 709},
        "tn": {"share_429": 0.031, "ok_per_class": (8.1, 16.1, 32.0), "p1_http_p95_ms": 3692},
        "litellm": {"share_429": 0.012, "jain": 0.67, "ok_per_class": (7.9, 15.9, 31.4), "ok_per_s": 35.4},
        "bp": {"share_429": 0.041, "jain": 0.89, "ok_per_class": (21.3, 18.5, 11.8), "ok_per_s": 49.6,
               "p1_http_p95_ms": 415, "deferral_p95_ms": 1900, "slot_ms": 259},
    },
    "overload": {"naive": {"share_429": 0.142, "slot_ms": 412}, "bp": {"share_429": 0.060, "slot_ms": 224}},
    "uncongested": {"naive": {"slot_ms": 172}, "litellm": {"slot_ms": 252}, "bp": {"slot_ms": 166}},
    "request-bound": {
        "naive": {"share_429": 0.226, "jain": 0.888}, "tn": {"share_429": 0.029, "jain": 0.883},
        "litellm": {"share_429": 0.0, "jain": 0.887}, "bp": {"share_429": 0.031, "jain": 0.990},
    },
    "token-bound": {
        "naive": {"share_429": 0.413, "jain": 0.889}, "tn": {"share_429": 0.411, "jain": 0.888},
        "litellm": {"share_429": 0.172, "jain": 0.888}, "bp": {"share_429": 0.061, "jain": 0.995},
    },
    "mixed-dominant": {
        "naive": {"share_429": 0.328, "jain": 0.722, "min_r": 0.52, "max_r": 1.76},
        "tn": {"share_429": 0.242, "jain": 0.753},
        "litellm": {"share_429": 0.095, "jain": 0.694, "min_r": 0.47, "max_r": 1.73},
        "bp": {"share_429": 0.067, "jain": 0.996, "min_r": 0.80, "max_r": 0.99},
    },
    "noisy-estimates": {
        "naive": {"share_429": 0.526, "jain": 0.890}, "tn": {"share_429": 0.525, "jain": 0.885},
        "litellm": {"share_429": 0.347, "jain": 0.889},
        "bp": {"share_429": 0.060, "jain": 0.986, "cap_used": 0.95},
    },
    "reservation": {
        "naive": {"share_429": 0.524, "jain": 0.886}, "tn": {"share_429": 0.520, "jain": 0.883},
        "litellm": {"share_429": 0.346, "jain": 0.892},
        "bp": {"share_429": 0.036, "jain": 0.996, "cap_used": 0.94},
    },
    "reservation-capped": {
        "naive": {"share_429": 0.529, "jain": 0.881}, "tn": {"share_429": 0.521, "jain": 0.893},
        "litellm": {"share_429": 0.292, "jain": 0.885},
        "bp": {"share_429": 0.036, "jain": 0.998, "cap_used": 0.96},
    },
}  # fmt: skip


def mean_of(row: Row, measure: str) -> float | None:
    value = row.get(measure)
    return value["mean"] if isinstance(value, Mapping) and "mean" in value else None


Limit = float | Callable[[Mapping[str, Row]], float | None]
_HOLDS = {"<=": operator.le, ">=": operator.ge}


@dataclasses.dataclass(frozen=True)
class Bar:
    measure: str
    relation: str
    limit: Limit  # or what it is, given the rows of all arms
    says: str = ""  # where the limit is no number

    def bound(self, arms: Mapping[str, Row]) -> float | None:
        return self.limit(arms) if callable(self.limit) else self.limit

    def holds(self, row: Row, arms: Mapping[str, Row]) -> bool | None:
        """None: it cannot be said, for want of a measure."""
        value, bound = mean_of(row, self.measure), self.bound(arms)
        return None if value is None or bound is None else _HOLDS[self.relation](value, bound)


def _of(arm: str, measure: str, times: float = 1.0, plus: float = 0.0) -> Limit:
    def limit(arms: Mapping[str, Row]) -> float | None:
        value = mean_of(arms[arm], measure) if arm in arms else None
        return None if value is None else value * times + plus

    return limit


_RATIOS = (Bar("min_r", ">=", 0.95), Bar("max_r", "<=", 1.05))
_AS_BP = Bar("p1_first_ask_p95_ms", "<=", _of("bp", "p1_first_ask_p95_ms"), "bp's")
_SLOT = Bar("slot_ms", "<=", 140)
_OWN: Mapping[str, tuple[Bar, ...]] = {
    "cross-priority": (
        Bar("jain", ">=", 0.99), *_RATIOS, Bar("share_429", "<=", 0.002), Bar("p1_http_p95_ms", "<=", 200),
        Bar("p1_first_ask_p95_ms", "<=", 600), _AS_BP, Bar("ok_per_s", ">=", 58), _SLOT,
    ),
    "overload": (Bar("share_429", "<=", 0.002), _SLOT),
    "uncongested": (Bar("slot_ms", "<=", _of("naive", "slot_ms", plus=2.0), "naive's + 2"),),
    "request-bound": (Bar("share_429", "<=", 0.002), Bar("jain", ">=", 0.995)),
    "token-bound": (Bar("share_429", "<=", 0.003), Bar("jain", ">=", 0.997)),
    "mixed-dominant": (Bar("share_429", "<=", 0.003), Bar("jain", ">=", 0.998), *_RATIOS),
    "noisy-estimates": (Bar("share_429", "<=", 0.02), Bar("jain", ">=", 0.995), Bar("cap_used", ">=", 0.95)),
    "reservation": (Bar("share_429", "<=", 0.002), Bar("jain", ">=", 0.997), Bar("cap_used", ">=", 0.95)),
    "reservation-capped": (Bar("share_429", "<=", 0.002), Bar("jain", ">=", 0.998), Bar("cap_used", ">=", 0.97)),
    "trace": (  # the paper has none; its estimates are as rough as the noisy ones
        Bar("share_429", "<=", 0.02), _AS_BP,
    ),
}  # fmt: skip
_ALL = (
    Bar("calls_per_grant", "<=", 2.5),
    Bar("leak", "<=", 0.02),
    Bar("drain_s", "<=", _of("naive", "drain_s", times=1.03), "naive's x 1.03"),
)
MEAN_LATENCY_MS, P95_LATENCY_MS = 100.0, 145.0  # the upstream's own: uniform from 50 to 150
_ENGINE = (
    Bar("cap_used", ">=", lambda arms: 0.97 * (mean_of(next(iter(arms.values())), "cap_ideal") or 1), "0.97 of ideal"),
    Bar("slot_ms", "<=", MEAN_LATENCY_MS + 40),
    Bar("p1_http_p95_ms", "<=", 1.3 * P95_LATENCY_MS),
)


def bars_of(stack: str, workload: str, window: str) -> tuple[Bar, ...]:
    """Ours, of an arm `fairgate…` that is no ablation. The paper's windows are fixed; others are told beside them."""
    if stack == "temporal":
        shares = tuple(b for b in _OWN[workload] if b.measure in ("jain", "min_r", "max_r", "share_429"))
        own = tuple(b for b in _OWN[workload] if b.measure == "slot_ms" and callable(b.limit))
        return (*shares, *own, Bar("calls_per_grant", "<=", 2.5), Bar("leak", "<=", 0.02), *_ENGINE)
    if window != "fixed":
        return tuple(b for b in (*_OWN[workload], *_ALL) if b.measure != "cap_used" and b.measure != "ok_per_s")
    return (*_OWN[workload], *_ALL)
