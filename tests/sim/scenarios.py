"""The table of scenarios."""

from __future__ import annotations

import dataclasses

from workloads import WORKLOADS

from .demand import Scenario
from .workload_table import workload_scenario

SCENARIOS: dict[str, Scenario] = {}


def find(name: str, window: str = "", seconds: float = 0.0) -> Scenario:
    if name in WORKLOADS:
        return workload_scenario(name, window or "continuous", seconds or 45.0)
    scenario = SCENARIOS[name]
    return dataclasses.replace(scenario, seconds=seconds) if seconds else scenario
