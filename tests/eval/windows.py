"""How a provider counts: hard caps in three window models, with the time passed in (seconds)."""

from __future__ import annotations

import abc
import collections
import dataclasses
from collections.abc import Mapping

_TOLERANCE = 1e-9  # relative; sums of floats


class Window(abc.ABC):
    """One cap of `limit` units per `length` seconds."""

    def __init__(self, limit: float, length: float) -> None:
        if limit <= 0 or length <= 0:
            raise ValueError("limit and length must be positive")
        self.limit = limit
        self.length = length

    def holds(self, now: float, cost: float) -> bool:
        return cost <= self.remaining(now) + self.limit * _TOLERANCE

    @abc.abstractmethod
    def remaining(self, now: float) -> float:
        """Units that would be admitted now, at least 0."""

    @abc.abstractmethod
    def take(self, now: float, cost: float) -> None:
        """Counts the cost, whether it fits or not."""

    @abc.abstractmethod
    def wait(self, now: float, cost: float) -> float:
        """Seconds until the cost fits if nobody else comes; at most a window, even if never."""

    @abc.abstractmethod
    def reset(self, now: float) -> float:
        """Seconds until the whole limit is free again if nobody comes."""


class FixedWindow(Window):
    """A count that starts anew at multiples of the length since the epoch, plus the phase."""

    def __init__(self, limit: float, length: float, phase: float = 0.0) -> None:
        super().__init__(limit, length)
        self._phase = phase
        self._index = -1
        self._used = 0.0

    def _roll(self, now: float) -> None:
        index = int((now - self._phase) // self.length)
        if index > self._index:  # a clock that steps back opens no new window
            self._index, self._used = index, 0.0

    def remaining(self, now: float) -> float:
        self._roll(now)
        return max(0.0, self.limit - self._used)

    def take(self, now: float, cost: float) -> None:
        self._roll(now)
        self._used += cost

    def wait(self, now: float, cost: float) -> float:
        return 0.0 if self.holds(now, cost) else self._left(now)

    def reset(self, now: float) -> float:
        self._roll(now)
        return self._left(now) if self._used else 0.0

    def _left(self, now: float) -> float:
        return max(0.0, (self._index + 1) * self.length + self._phase - now)


class SlidingWindow(Window):
    """An exact log: any half-open span of one length holds at most the limit."""

    def __init__(self, limit: float, length: float) -> None:
        super().__init__(limit, length)
        self._log: collections.deque[tuple[float, float]] = collections.deque()
        self._used = 0.0

    def _expire(self, now: float) -> None:
        while self._log and self._log[0][0] + self.length <= now:
            self._used -= self._log.popleft()[1]
        if not self._log:
            self._used = 0.0

    def remaining(self, now: float) -> float:
        self._expire(now)
        return max(0.0, self.limit - self._used)

    def take(self, now: float, cost: float) -> None:
        self._expire(now)
        self._log.append((now, cost))
        self._used += cost

    def wait(self, now: float, cost: float) -> float:
        if self.holds(now, cost):
            return 0.0
        used = self._used
        for taken_at, taken in self._log:
            used -= taken
            if used + cost <= self.limit * (1 + _TOLERANCE):
                return taken_at + self.length - now
        return self.length

    def reset(self, now: float) -> float:
        self._expire(now)
        return self._log[-1][0] + self.length - now if self._log else 0.0


class ContinuousWindow(Window):
    """A bucket of one window's worth that refills steadily; it starts full."""

    def __init__(self, limit: float, length: float) -> None:
        super().__init__(limit, length)
        self._rate = limit / length
        self._level = limit
        self._at: float | None = None

    def _refill(self, now: float) -> None:
        if self._at is not None and now > self._at:
            self._level = min(self.limit, self._level + (now - self._at) * self._rate)
        self._at = now if self._at is None else max(self._at, now)

    def remaining(self, now: float) -> float:
        self._refill(now)
        return self._level

    def take(self, now: float, cost: float) -> None:
        self._refill(now)
        self._level = max(0.0, self._level - cost)  # a provider keeps no debt

    def wait(self, now: float, cost: float) -> float:
        if self.holds(now, cost):
            return 0.0
        return min(self.length, (cost - self._level) / self._rate)

    def reset(self, now: float) -> float:
        self._refill(now)
        return (self.limit - self._level) / self._rate


MODELS: dict[str, type[Window]] = {
    "fixed": FixedWindow,
    "sliding": SlidingWindow,
    "continuous": ContinuousWindow,
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    admitted: bool
    limited_by: str = ""  # the dimension with the longest wait; empty when admitted
    retry_after: float = 0.0  # seconds


class Limiter:
    """A call passes only if every dimension admits it; then all are charged, else none.

    With count_rejected, a refused call still counts against "requests", as with real providers.
    """

    def __init__(
        self, windows: Mapping[str, Window], count_rejected: bool = False
    ) -> None:
        self.windows = dict(windows)
        self.count_rejected = count_rejected

    def admit(self, now: float, cost: Mapping[str, float]) -> Verdict:
        """Dimensions that the cost does not name are not charged."""
        named = {name: window for name, window in self.windows.items() if name in cost}
        refusing = [n for n, window in named.items() if not window.holds(now, cost[n])]
        if not refusing:
            for name, window in named.items():
                window.take(now, cost[name])
            return Verdict(True)
        if self.count_rejected and "requests" in named:
            named["requests"].take(now, cost["requests"])
        waits = {name: named[name].wait(now, cost[name]) for name in refusing}
        slowest = max(waits, key=lambda name: waits[name])
        return Verdict(False, slowest, waits[slowest])


def make_limiter(
    model: str, caps: Mapping[str, float], length: float = 1.0, count_rejected: bool = False
) -> Limiter:
    """caps: limit per window by dimension."""
    make = MODELS[model]
    return Limiter({name: make(limit, length) for name, limit in caps.items()}, count_rejected)
