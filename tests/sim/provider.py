"""The provider: the evaluation's window models in virtual time."""

from __future__ import annotations

import math
from typing import Any

from windows import MODELS, FixedWindow, Limiter, Verdict, Window

from .demand import Scenario


def _make(scenario: Scenario, cap: float) -> Window:
    limit = cap * scenario.window_s
    if scenario.window == "fixed":
        return FixedWindow(limit, scenario.window_s, scenario.phase_s)
    return MODELS[scenario.window](limit, scenario.window_s)


class Provider:
    """Counts calls; `now` is seconds since the start of the run, a multiple of every window since the epoch."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._limiter = Limiter({name: _make(scenario, cap) for name, cap in scenario.caps.items()})

    def call(self, now: float, cost: dict[str, float]) -> Verdict:
        return self._limiter.admit(now, cost)

    def headers(self, now: float) -> dict[str, Any]:
        """What an answer says of the limits, as Release passes it on: rounded as the evaluation's provider does."""
        return {
            name: {"remaining": math.floor(w.remaining(now)), "reset_us": math.ceil(w.reset(now) * 1e3) * 1000}
            for name, w in self._limiter.windows.items()
        }

    def change_cap(self, now: float, name: str, cap: float) -> None:
        """What is left of the old cap is kept, up to the new one."""
        left = self._limiter.windows[name].remaining(now)
        window = _make(self._scenario, cap)
        window.take(now, max(0.0, window.remaining(now) - left))
        self._limiter.windows[name] = window
