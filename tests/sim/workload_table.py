"""The evaluation's nine workloads as scenarios."""

from __future__ import annotations

import dataclasses
import random

from workloads import WORKLOADS, Tenant, Workload

from .demand import Amounts, Draw, Flow, Scenario


def _draw(tenant: Tenant, names: tuple[str, ...]) -> Draw:
    def draw(rng: random.Random, _number: int) -> tuple[Amounts, Amounts]:
        call = tenant.draw(rng)
        told = tuple(1.0 if name == "requests" else float(call.estimate_tokens) for name in names)
        actual = tuple(1.0 if name == "requests" else float(call.actual_tokens) for name in names)
        return told, actual

    return draw


def scenario_of(workload: Workload, window: str, seconds: float = 45.0) -> Scenario:
    names = tuple(workload.caps)
    flows = tuple(
        Flow(t.name, t.priority, _draw(t, names), workers=t.concurrency, weight=t.weight, think=t.think)
        for t in workload.tenants
    )
    return Scenario(workload.name, workload.caps, flows, window=window, bound=workload.upper_bound, seconds=seconds)


def workload_scenario(name: str, window: str, seconds: float = 45.0) -> Scenario:
    """`unknown` is a fixed window whose phase the policy does not know, `learnt` one that it learns from headers."""
    if window == "learnt":
        return dataclasses.replace(scenario_of(WORKLOADS[name], "fixed", seconds), told="fixed_learnt", headers=True)
    if window == "unknown":
        return dataclasses.replace(scenario_of(WORKLOADS[name], "fixed", seconds), told="sliding")
    return scenario_of(WORKLOADS[name], window, seconds)
