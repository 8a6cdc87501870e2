"""L1: what one dimension lets go now, by window model. Every sum is made anew from the list of what was charged.

All three have the same operations; times in seconds unless named, amounts in the dimension's unit:
    advance(clock)                   moves to now
    books                            units left by what was charged, whatever spreads them
    came                             every (time, units) that came free by time alone
    available(cost, out_of_turn)     units that may go now
    wait_s(need)                     time until `need` units may go, if nobody else takes any
    debit(cost, serial) -> mark      takes them; the mark says when, for a later settlement
    adjust(mark, more) -> done       charges `more` (negative: refunds), as if it had been charged at the mark
    counts(mark)                     is a debit of then in the books?
    gain(ahead_s)                    units that come free within that time
    in_flight(granted_us, mark)      may a lease of then still be settled into what counts now?
"""

from __future__ import annotations

import dataclasses
import math

import constants as k
from policy import Dimension


@dataclasses.dataclass
class Clock:
    """The target's time: `wall_us` as read, `now_us` monotonic, `elapsed_us` since the last decision."""

    wall_us: int
    now_us: int
    elapsed_us: int = 0


class ContinuousBucket:
    """Refills at `rate` up to `depth`. A refund is worth no more than the least headroom since its debit: what would have
    spilled is gone."""

    def __init__(self, p: Dimension) -> None:
        self.p = p
        self.level = p.depth
        self.headroom: list[list[float]] = []  # every [serial, headroom just before that debit]
        self.kept: list[list[float]] = []      # the bounded summary of it that decides
        self.after = math.nan  # level that the last debit left
        self.last = 0  # its serial
        self.now_us = 0
        self.came: list[tuple[int, float]] = []

    @property
    def books(self) -> float:
        return self.level

    def cap_changed(self) -> None:
        if self.level > self.p.depth:  # cut: full now, so no refund of the past can pass
            self.level = self.p.depth
            self.kept = [[self.last + 0.5, 0.0]]
            self.headroom.append([self.last + 0.5, 0.0])

    def shape_changed(self) -> None:
        self.cap_changed()

    def advance(self, clock: Clock) -> None:
        self.now_us = clock.now_us
        self.came.append((clock.now_us, clock.elapsed_us / 1e6 * self.p.rate))
        self.level = min(self.p.depth, self.level + clock.elapsed_us / 1e6 * self.p.rate)

    def available(self, cost: float = 0, out_of_turn: bool = False) -> float:
        return self.level

    def wait_s(self, need: float) -> float:
        return max(0.0, need - self.level) / self.p.rate

    def counts(self, mark: int) -> bool:
        return True

    def gain(self, ahead_s: float) -> float:
        return self.p.rate * ahead_s

    def in_flight(self, granted_us: int, mark: int) -> bool:
        return self.now_us // self.p.window_us - granted_us // self.p.window_us <= 1

    def debit(self, cost: float, serial: int) -> int:
        self.last = serial
        if self.level == self.after:  # as the last debit left it: nothing can have spilled in between
            self.level -= cost
            self.after = self.level
            return serial
        headroom = self.p.depth - self.level
        self.headroom.append([serial, headroom])
        while self.kept and self.kept[-1][1] >= headroom:
            self.kept.pop()
        self.kept.append([serial, headroom])
        if len(self.kept) > k.HISTORY_MAX:  # join the two that differ least; less headroom stands, which refunds less
            steps = [b[1] - a[1] for a, b in zip(self.kept, self.kept[1:-1])]
            best = steps.index(min(steps))
            self.kept[best + 1][1] = self.kept[best][1]
            del self.kept[best]
        self.level -= cost
        self.after = self.level
        return serial

    def adjust(self, mark: int, more: float) -> float:
        if more < 0:
            def least(points: list[list[float]]) -> float:
                return max(0.0, min([self.p.depth - self.level] + [room for serial, room in points if serial > mark]))

            refund = min(-more, least(self.kept))
            assert refund <= min(-more, least(self.headroom)) + 1e-6, "the summary refunds more than the whole history"
            for points in (self.kept, self.headroom):
                for e in points:
                    if e[0] > mark:
                        e[1] -= refund
            more = -refund
        self.level -= more
        return more


class FixedWindow:
    """Counts per window of the wall clock. What went above the limit is owed by the next window, and only by that."""

    def __init__(self, p: Dimension) -> None:
        self.p = p
        self.window = -1
        self.charges: list[tuple[int, float]] = []  # (wall clock, amount)
        self.owed = 0.0
        self.into_s = 0.0
        self.wall_us = 0
        self.came: list[tuple[int, float]] = []  # within a window nothing does

    @property
    def books(self) -> float:
        return self.p.depth - self.count

    def cap_changed(self) -> None:
        pass

    def shape_changed(self) -> None:
        """Another window or phase: what was charged counts where it falls in the new windows."""
        self.window, self.owed = self.window_of(self.wall_us), 0.0

    def window_of(self, wall_us: int) -> int:
        return (wall_us - self.p.phase_us) // self.p.window_us

    @property
    def guard_s(self) -> float:
        return min(k.FIXED_GUARD_S, self.p.window_s * k.FIXED_GUARD_PART)

    @property
    def count(self) -> float:
        return sum((x for at_us, x in self.charges if self.window_of(at_us) == self.window), self.owed)

    @property
    def carried(self) -> float:
        """What the next window will owe: never more than a whole window, so it cannot reach into a third."""
        over = max(0.0, self.count - self.p.depth)
        return min(self.p.depth, over)

    def advance(self, clock: Clock) -> None:
        window = self.window_of(clock.wall_us)
        if window > self.window:
            self.owed = self.carried if window == self.window + 1 else 0.0
            self.window = window
        # a clock that stepped back over a window's start still charges the window it has seen
        self.wall_us = max(clock.wall_us, self.window * self.p.window_us + self.p.phase_us)
        self.into_s = max(0.0, (clock.wall_us - self.p.phase_us - self.window * self.p.window_us) / 1e6)

    def allowed(self, into_s: float) -> float:
        """Spending is spread over the window, with a small lead."""
        lead_s = self.p.burst_fraction * self.p.window_s
        return self.p.depth * min(1.0, (into_s + lead_s) / (self.p.window_s - self.guard_s))

    def available(self, cost: float = 0, out_of_turn: bool = False) -> float:
        if self.p.window_s - self.into_s < self.guard_s:
            return -1.0
        lead_s = self.p.burst_fraction * self.p.window_s
        spreading = self.into_s + lead_s < self.p.window_s - self.guard_s
        bank = k.SPREAD_BANK * lead_s * self.p.rate if out_of_turn and spreading else 0.0
        return self.allowed(self.into_s) - self.count - bank

    def wait_s(self, need: float) -> float:
        p, usable_s = self.p, self.p.window_s - self.guard_s
        left_s = p.window_s - self.into_s
        target = need + self.count
        if left_s >= self.guard_s:
            if target <= self.allowed(self.into_s) + 1e-9:
                return 0.0
            if target <= p.depth + 1e-9:
                t = (target - self.allowed(self.into_s)) * usable_s / p.depth
                if t < left_s - self.guard_s:
                    return t
        rest = need + self.carried
        windows = max(0, math.ceil(rest / p.depth - 1e-9) - 1)
        t = max(0.0, (rest - windows * p.depth) * usable_s / p.depth - p.burst_fraction * p.window_s)
        return left_s + 1e-4 + windows * p.window_s + t

    def gain(self, ahead_s: float) -> float:
        if self.into_s + ahead_s >= self.p.window_s - self.guard_s:
            return 1e300
        return self.allowed(self.into_s + ahead_s) - self.allowed(self.into_s)

    def in_flight(self, granted_us: int, mark: int) -> bool:
        return self.window_of(mark) == self.window

    def debit(self, cost: float, serial: int) -> int:
        self.charges.append((self.wall_us, cost))
        return self.wall_us

    def counts(self, mark: int) -> bool:
        return self.window_of(mark) == self.window

    def adjust(self, mark: int, more: float) -> float:
        if not self.counts(mark):
            return 0.0
        self.charges.append((mark, more))
        return more


class SlidingLog:
    """The log alone keeps any window within the limit; a smoothing bucket only spreads it, and may go negative."""

    def __init__(self, p: Dimension) -> None:
        self.p = p
        self.charges: list[tuple[int, float]] = []  # (time, amount)
        self.smooth = self.smooth_depth
        self.now_us = 0
        self.came: list[tuple[int, float]] = []

    @property
    def books(self) -> float:
        return self.p.depth - self.sum

    def cap_changed(self) -> None:
        self.smooth = min(self.smooth, self.smooth_depth)

    def shape_changed(self) -> None:
        self.cap_changed()

    @property
    def smooth_depth(self) -> float:
        return self.p.depth * self.p.burst_fraction

    @property
    def slot_us(self) -> float:
        return self.p.window_us / k.SLOTS

    def slot_of(self, time_us: float) -> int:
        return math.floor(time_us / self.slot_us)

    @property
    def slots(self) -> list[tuple[int, float]]:
        """(slot, amount) of the charges that have not left."""
        first = self.slot_of(self.now_us) - k.SLOTS
        return [(self.slot_of(at_us), x) for at_us, x in self.charges if self.slot_of(at_us) >= first]

    def advance(self, clock: Clock) -> None:
        first, now_first = (self.slot_of(at_us) - k.SLOTS for at_us in (self.now_us, clock.now_us))
        gone = sum(x for at_us, x in self.charges if first <= self.slot_of(at_us) < now_first)
        self.came.append((clock.now_us, gone))
        self.now_us = clock.now_us
        self.smooth = min(self.smooth_depth, self.smooth + clock.elapsed_us / 1e6 * self.p.rate)

    @property
    def sum(self) -> float:
        return sum(x for _, x in self.slots)

    def smooth_wait_s(self, need: float, extra: float = 0.0) -> float:
        if self.p.burst_fraction >= 1:
            return 0.0
        return max(0.0, min(need, self.smooth_depth / 2) + extra - self.smooth) / self.p.rate

    def available(self, cost: float = 0, out_of_turn: bool = False) -> float:
        if self.smooth_wait_s(cost, k.SMOOTH_BANK * self.smooth_depth if out_of_turn else 0.0) > 0:
            return min(0.0, self.smooth)
        return self.p.depth - self.sum

    def wait_s(self, need: float) -> float:
        smooth_s = self.smooth_wait_s(need)
        if need + self.sum - self.p.depth <= 1e-9:
            return smooth_s
        for slot in sorted({slot for slot, _ in self.slots}):
            later = sum(x for s, x in self.slots if s > slot)
            if need + later - self.p.depth <= 1e-9:
                return max(smooth_s, ((slot + k.SLOTS + 1) * self.slot_us - self.now_us) / 1e6)
        return max(smooth_s, self.p.window_s)

    def gain(self, ahead_s: float) -> float:
        last = self.slot_of(self.now_us + ahead_s * 1e6) - (k.SLOTS + 1)
        return sum(x for slot, x in self.slots if slot <= last)

    def in_flight(self, granted_us: int, mark: int) -> bool:
        return self.now_us // self.p.window_us - granted_us // self.p.window_us <= 1

    def debit(self, cost: float, serial: int) -> int:
        self.charges.append((self.now_us, cost))
        self.smooth -= cost
        return self.now_us

    def counts(self, mark: int) -> bool:
        return self.slot_of(mark) >= self.slot_of(self.now_us) - k.SLOTS

    def adjust(self, mark: int, more: float) -> float:
        if not self.counts(mark):
            return 0.0
        self.charges.append((mark, more))
        self.smooth = min(self.smooth_depth, self.smooth - more)
        return more


MODELS = {"continuous": ContinuousBucket, "fixed": FixedWindow, "sliding": SlidingLog}
