"""L1 of fixed windows whose phase is learnt from the reset times that the provider tells (operations as in windows.py).

A boundary lies somewhere in `lowest` to `highest` (any boundary: they repeat), so a window is used from its latest start to its
earliest end. The log runs on beside it, and decides while the phase is not known."""

from __future__ import annotations

import dataclasses
import math

import constants as k
from policy import Dimension
from windows import Clock, FixedWindow, SlidingLog


class KnownWindows(FixedWindow):
    """What was charged stays with the number of the window that it was charged to, though the bounds move."""

    def __init__(self, p: Dimension) -> None:
        super().__init__(p)
        self.unsure_s = 0.0
        self.charges: list[tuple[int, float]] = []  # (number of the window, amount)

    @property
    def guard_s(self) -> float:
        return super().guard_s + self.unsure_s

    @property
    def count(self) -> float:
        return sum((x for window, x in self.charges if window == self.window), self.owed)

    def debit(self, cost: float, serial: int) -> int:
        self.charges.append((self.window, cost))
        return self.window


@dataclasses.dataclass
class Reports:
    """Consistent ones: bounds of a boundary as of the last of them, when it and the first were told, and how many."""

    lowest_us: float
    highest_us: float
    last_us: int
    first_us: int
    count: int
    behind_us: int  # of the clock, to the target's own time


class LearntWindow:
    def __init__(self, p: Dimension) -> None:
        self._p = p
        self.log = SlidingLog(p)
        self.came: list[tuple[int, float]] = []
        self.clock = Clock(0, 0)
        self.known: KnownWindows | None = None
        self.reports: Reports | None = None
        self.needed = k.REPORTS_MIN

    @property
    def p(self) -> Dimension:
        return self._p

    @p.setter
    def p(self, p: Dimension) -> None:
        self._p = self.log.p = p

    def cap_changed(self) -> None:
        self.log.cap_changed()

    def shape_changed(self) -> None:
        self.forget()
        self.log.shape_changed()

    # --- the phase --------------------------------------------------------------------------------------------------------

    def bounds(self) -> tuple[float, float]:
        drift = k.DRIFT * (self.clock.now_us - self.reports.last_us)
        return self.reports.lowest_us - drift, self.reports.highest_us + drift

    def is_vague(self, part: float) -> bool:
        lowest, highest = self.bounds()
        return highest - lowest >= part * self.p.window_us

    def forget(self) -> None:
        if self.known:
            self.needed = min(k.REPORTS_MAX, 2 * self.needed)
        self.known = self.reports = None

    def move_windows(self) -> None:
        lowest, highest = self.bounds()
        self.known.p = dataclasses.replace(self.p, model="fixed", phase_us=highest)
        self.known.unsure_s = (highest - lowest) / 1e6
        self.known.advance(Clock(self.clock.now_us, self.clock.now_us))

    def learn(self, granted_us: int, reset_us: int) -> bool:
        """Was it what is known already?"""
        now_us, window_us = self.clock.now_us, self.p.window_us
        off_us = k.RESET_WHOLE_OFF_US if reset_us % 1_000_000 == 0 else k.RESET_OFF_US
        first, last = granted_us + reset_us - off_us, now_us + reset_us + off_us
        if not 0 < reset_us <= window_us or last - first > k.REPORT_PART * window_us:
            return False
        r = self.reports
        if r:
            lowest, highest = self.bounds()
            ahead = math.floor((first + last - lowest - highest) / (2 * window_us) + 0.5) * window_us
            lowest, highest = max(lowest, first - ahead), min(highest, last - ahead)
            if lowest <= highest:
                self.reports = Reports(lowest, highest, now_us, r.first_us, r.count + 1, r.behind_us)
                if self.known:
                    self.move_windows()
                elif r.count + 1 >= self.needed and now_us - r.first_us >= k.REPORTS_SPAN * window_us:
                    self.begin()
                return True
        self.forget()
        self.reports = Reports(first % window_us, first % window_us + last - first, now_us, now_us, 1,
                               now_us - self.clock.wall_us)
        return False

    def begin(self) -> None:
        """Not between two windows; all that may have been charged in the running one counts."""
        lowest, highest = self.bounds()
        window = (self.clock.now_us - highest) // self.p.window_us
        if self.is_vague(k.UNSURE_PART) or self.clock.now_us >= lowest + (window + 1) * self.p.window_us:
            return
        first = self.log.slot_of(lowest + window * self.p.window_us)
        self.known = KnownWindows(self.p)
        self.known.window = window
        self.known.charges = [(window, x) for slot, x in self.log.slots if slot >= first]
        self.move_windows()

    def doubt(self) -> None:
        """A refusal did not confirm it."""
        if self.known and self.known.count <= self.p.depth:
            self.forget()

    # --- L1 -----------------------------------------------------------------------------------------------------------------

    @property
    def decides(self) -> SlidingLog | KnownWindows:
        return self.known or self.log

    @property
    def books(self) -> float:
        return self.decides.books

    def advance(self, clock: Clock) -> None:
        self.clock = clock
        self.log.advance(clock)
        if self.reports:
            stepped = clock.now_us - clock.wall_us != self.reports.behind_us
            if stepped or self.is_vague(k.UNSURE_PART if self.known else k.REPORT_PART):
                self.forget()
                self.came.append(self.log.came[-1])
                return
        if self.known:
            self.move_windows()
        else:
            self.came.append(self.log.came[-1])

    def available(self, cost: float = 0, out_of_turn: bool = False) -> float:
        return self.decides.available(cost, out_of_turn)

    def wait_s(self, need: float) -> float:
        return self.decides.wait_s(need)

    def gain(self, ahead_s: float) -> float:
        return self.decides.gain(ahead_s)

    def in_flight(self, granted_us: int, mark: int) -> bool:
        return self.log.in_flight(granted_us, mark)

    def debit(self, cost: float, serial: int) -> int:
        if self.known:
            self.known.debit(cost, serial)
            self.log.smooth = max(0.0, self.log.smooth)  # which spreads nothing now
        return self.log.debit(cost, serial)

    @property
    def start_us(self) -> float:
        """When the running window has surely begun."""
        return self.known.p.phase_us + self.known.window * self.p.window_us

    def counts(self, mark: int) -> bool:
        if self.known:
            return self.log.slot_of(mark) * self.log.slot_us >= self.start_us
        return self.log.counts(mark)

    def adjust(self, mark: int, more: float) -> float:
        """More is charged to the running window where it may belong to it, less where it surely does."""
        done = self.log.adjust(mark, more)
        if not self.known:
            return done
        ours = self.counts(mark)
        if more > 0:
            ours = (self.log.slot_of(mark) + 1) * self.log.slot_us > self.start_us - self.known.unsure_s * 1e6
        if ours:
            self.known.debit(more, 0)
        return more if ours else 0.0
