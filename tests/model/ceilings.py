"""Hard ceilings beside the shared caps: a tenant's own caps (over all its classes) and a class's max_share.

Plain buckets of one window's worth, with a line of those that wait for nothing else. They hold no place that others would
have to respect.
"""

from __future__ import annotations

import dataclasses
import math

import constants as k


@dataclasses.dataclass(eq=False)
class Ceiling:
    layer: str      # "tenant" or "class"
    dimension: str  # empty for a class: dominant share
    level: float
    at_us: int
    enqueued: float = 0.0  # need that ever waited here, and that left
    left: float = 0.0
    rate: float = 0.0      # units per second
    depth: float = 0.0
    after: float = math.nan  # level that the last debit left
    headroom: list[list[float]] = dataclasses.field(default_factory=list)  # [serial, headroom before that debit]

    def refill(self, now_us: int, rate: float, depth: float) -> None:
        self.rate, self.depth = rate, depth
        self.level = min(depth, self.level + max(0, now_us - self.at_us) / 1e6 * rate)
        self.at_us = now_us

    def wait_s(self, need: float, before: float) -> float:
        """Time until `need` may go, after those that waited before."""
        total = min(need, self.depth) + max(0.0, before - self.left)
        if self.level >= total - k.CAP_TOLERANCE * total:
            return 0.0
        return (total - self.level) / self.rate

    def debit(self, need: float, serial: int) -> None:
        if self.level != self.after:  # as the last debit left it: nothing can have spilled in between
            self.headroom.append([serial, self.depth - self.level])
        self.level -= need
        self.after = self.level

    def adjust(self, serial: int, more: float) -> float:
        """As in the target's own buckets: a refund is worth no more than the least headroom since the debit."""
        if more < 0:
            since = [e for e in self.headroom if e[0] > serial]
            more = -min(-more, max(0.0, min([self.depth - self.level] + [e[1] for e in since])))
            for e in since:
                e[1] += more
        self.level -= more
        return more

    def leave(self, need: float) -> None:
        self.left += need
        if self.left >= self.enqueued:
            self.left = self.enqueued = 0.0
