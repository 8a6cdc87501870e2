"""Histories that once violated a property."""

from __future__ import annotations

import crowds
import pytest
from crowds import Crowd, Flow
from store import Store, Subject


def test_a_raised_cap_mints_nothing_for_the_time_before(store: Store) -> None:
    policy = crowds.policy([crowds.dimension("requests", 20.0, "continuous")], {"a": 1.0})
    subject = Subject(store, policy)
    for i in range(18):
        assert subject.admit(f"r{i}")["outcome"] == "grant"
    subject.advance(0.5)
    before = subject.left("requests")
    subject.configure({**policy, "dims": [crowds.dimension("requests", 200.0, "continuous")]})
    assert subject.left("requests") == pytest.approx(before)


def test_a_flow_with_one_call_at_a_time_keeps_its_arrears(store: Store) -> None:
    flows = tuple(Flow(tenant, "a", 1.0, {"requests": 1.0}, 1) for tenant in ("t0", "t1"))
    policy = crowds.policy([crowds.dimension("requests", 20.0, "fixed")], {"a": 1.0})
    served = crowds.run(store, Crowd(policy, flows, 0, 1, 12.0))
    for apart, worth, who in crowds.shares_apart(served):
        assert apart <= 4 * worth, f"{who}: {apart} apart, requests worth {worth}"
