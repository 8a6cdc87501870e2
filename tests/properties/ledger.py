"""What was granted, by what the answers said; and what a window model allows of that."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

TOLERANCE = 1e-7


@dataclasses.dataclass
class Granted:
    id: str
    attempt: int
    at_us: float  # the target's own time
    windows: list[int]  # numbers of the fixed windows, by dimension
    charge: dict[str, float]  # what it counts for now
    debited: dict[str, float]
    open: bool = True


@dataclasses.dataclass
class Rates:
    """From `at_us` on: what L1 refills and holds, by dimension."""

    at_us: float
    dims: dict[str, dict[str, Any]]

    def rate(self, name: str) -> float:
        dim = self.dims[name]
        return dim["limit"] * 1e6 / dim["window_us"] * dim["rate_fraction"]


class Ledger:
    def __init__(self, policy: dict[str, Any]) -> None:
        self.rates = [Rates(-math.inf, {d["name"]: d for d in policy["dims"]})]
        self.grants: list[Granted] = []
        self.now_us = 0.0  # the target's own time
        self.windows: dict[str, int] = {}  # greatest number of a fixed window seen

    @property
    def dims(self) -> dict[str, dict[str, Any]]:
        return self.rates[-1].dims

    def configured(self, policy: dict[str, Any], at_us: float | None) -> None:
        """at_us: the target's own time; None: it has no state yet, which will be made by this policy."""
        if at_us is None:
            self.rates, at_us = [], -math.inf
        self.rates.append(Rates(at_us, {d["name"]: d for d in policy["dims"]}))

    def see_clock(self, clock_us: float) -> None:
        for name, dim in self.dims.items():
            number = math.floor((clock_us - dim["phase_us"]) / dim["window_us"])
            self.windows[name] = max(self.windows.get(name, number), number)

    def grant(self, id: str, attempt: int, at_us: float, debited: dict[str, float]) -> None:
        windows = [self.windows[name] for name in self.dims]
        self.grants.append(Granted(id, attempt, at_us, windows, dict(debited), dict(debited)))

    def find(self, id: str, attempt: int) -> Granted | None:
        return next((g for g in reversed(self.grants) if g.id == id and g.attempt == attempt), None)

    def total(self, name: str) -> float:
        return sum(g.charge.get(name, 0.0) for g in self.grants)

    def _refill(self, name: str, from_us: float, to_us: float) -> float:
        out = 0.0
        for i, rates in enumerate(self.rates):
            end = self.rates[i + 1].at_us if i + 1 < len(self.rates) else to_us
            out += max(0.0, min(end, to_us) - max(rates.at_us, from_us)) / 1e6 * rates.rate(name)
        return out

    def _depth(self, name: str, at_us: float) -> float:
        """The greatest that the bucket may have held at that time."""
        fits = [
            r
            for i, r in enumerate(self.rates)
            if r.at_us <= at_us and (i + 1 == len(self.rates) or at_us <= self.rates[i + 1].at_us)
        ]
        return max(r.dims[name]["limit"] * r.dims[name]["burst_fraction"] for r in fits or self.rates[:1])

    def excess(self, name: str) -> str | None:
        """What the last grant takes above what the dimension's window model allows; None: nothing."""
        dim, last = self.dims[name], self.grants[-1]
        if last.charge.get(name, 0.0) <= 0:
            return None
        check = {"continuous": self._excess_continuous, "fixed": self._excess_fixed, "sliding": self._excess_sliding}
        return check[dim["model"]](name, dim, last)

    def _excess_continuous(self, name: str, dim: dict[str, Any], last: Granted) -> str | None:
        """From any earlier grant on: at most a full bucket and what is refilled since. A call larger than the bucket
        needs it full."""
        used = 0.0
        for grant in reversed(self.grants):
            used += grant.charge.get(name, 0.0)
            allowed = max(self._depth(name, grant.at_us), last.charge[name]) + self._refill(
                name, grant.at_us, last.at_us
            )
            if used > allowed * (1 + TOLERANCE) + TOLERANCE:
                return f"{used!r} since {grant.id}, {(last.at_us - grant.at_us) / 1e6} s ago; allowed {allowed!r}"
        return None

    def replayed_level(self, name: str) -> float | None:
        """Of a bucket, if each call had been charged at its grant what it counts for now; None: not to be told."""
        dim = self.dims[name]
        if dim["model"] != "continuous" or any(r.dims[name] != dim for r in self.rates):
            return None
        depth = level = dim["limit"] * dim["burst_fraction"]
        at_us = None
        for grant in [*self.grants, None]:
            now_us = grant.at_us if grant else self.now_us
            level = min(
                depth, level + (now_us - (now_us if at_us is None else at_us)) / 1e6 * self.rates[-1].rate(name)
            )
            level -= grant.charge.get(name, 0.0) if grant else 0.0
            at_us = now_us
        return level

    def _excess_fixed(self, name: str, dim: dict[str, Any], last: Granted) -> str | None:
        """In a window: the limit, less what went above it in the window before by late settlements."""
        d = list(self.dims).index(name)
        limit = dim["limit"] * dim["rate_fraction"]
        used = sum(g.charge.get(name, 0.0) for g in self.grants if g.windows[d] == last.windows[d])
        return f"{used!r} in a window of {limit!r}" if used > limit * (1 + TOLERANCE) + TOLERANCE else None

    def _excess_sliding(self, name: str, dim: dict[str, Any], last: Granted) -> str | None:
        limit = dim["limit"] * dim["rate_fraction"]
        since = last.at_us - dim["window_us"]
        used = sum(g.charge.get(name, 0.0) for g in self.grants if g.at_us > since)
        return f"{used!r} in the last window of {limit!r}" if used > limit * (1 + TOLERANCE) + TOLERANCE else None
