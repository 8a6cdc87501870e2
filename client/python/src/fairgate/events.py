"""What metrics are made of: one event per answer."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias


@dataclasses.dataclass(frozen=True)
class AdmitEvent:
    """One question and its answer."""

    target: str
    tenant: str
    priority: str
    outcome: Literal["granted", "deferred", "rejected", "failed_open", "error"]
    degraded: bool
    duration_s: float
    """How long the caller waited for the answer."""
    delay_s: float
    """Of a defer; 0 otherwise."""


@dataclasses.dataclass(frozen=True)
class ReleaseEvent:
    """One settlement, withdrawal or extension."""

    target: str
    outcome: str
    """What the caller said: a CallOutcome's value, "WITHDRAW" or "EXTEND"."""
    result: str
    """A ReleaseResult's value; "LOST": it did not reach the gate; "ERROR": the gate refused it."""
    duration_s: float


@dataclasses.dataclass(frozen=True)
class BreakerEvent:
    """The breaker opened (the gate is not asked any more) or closed."""

    open: bool


Event: TypeAlias = AdmitEvent | ReleaseEvent | BreakerEvent
