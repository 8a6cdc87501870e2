"""What goes into a settlement and what comes back, free of protobuf types."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from datetime import timedelta

USAGE_KINDS: Mapping[str, str] = {
    "tokens": "total",
    "total_tokens": "total",
    "input_tokens": "input",
    "prompt_tokens": "input",
    "output_tokens": "output",
    "completion_tokens": "output",
}
"""Which token usage a dimension of that name takes, unless the gate's options say otherwise."""


class CallOutcome(enum.Enum):
    """How the external call ended: fairgate.v1.CallOutcome."""

    UNKNOWN = "UNSPECIFIED"
    """Not known: the estimate stays charged."""
    OK = "OK"
    RATE_LIMITED = "RATE_LIMITED"
    """The provider refused with a rate limit (429); the charge stays, the flow's turn is given back."""
    SERVER_ERROR = "SERVER_ERROR"
    TIMEOUT = "TIMEOUT"
    NOT_SENT = "NOT_SENT"
    """The request never left: everything is refunded."""


class RejectReason(enum.Enum):
    """Why waiting would not help: fairgate.v1.RejectReason."""

    UNSPECIFIED = "UNSPECIFIED"
    COST_EXCEEDS_CAP = "COST_EXCEEDS_CAP"
    TARGET_DISABLED = "TARGET_DISABLED"
    DEADLINE_UNREACHABLE = "DEADLINE_UNREACHABLE"
    ALREADY_SETTLED = "ALREADY_SETTLED"
    SUPERSEDED = "SUPERSEDED"
    TENANT_NOT_LISTED = "TENANT_NOT_LISTED"

    @classmethod
    def _missing_(cls, value: object) -> RejectReason:
        return cls.UNSPECIFIED  # a newer gate's


class ReleaseResult(enum.Enum):
    """What a release did: fairgate.v1.ReleaseResult."""

    UNSPECIFIED = "UNSPECIFIED"
    SETTLED = "SETTLED"
    WITHDRAWN = "WITHDRAWN"
    EXTENDED = "EXTENDED"
    ALREADY_SETTLED = "ALREADY_SETTLED"
    EXPIRED = "EXPIRED"
    UNKNOWN = "UNKNOWN"
    QUEUED = "QUEUED"

    @classmethod
    def _missing_(cls, value: object) -> ReleaseResult:
        return cls.UNSPECIFIED


@dataclasses.dataclass(frozen=True)
class Limit:
    """What keeps a call from going now."""

    layer: str
    """"target", "class" or "tenant"."""
    dimension: str
    """Empty when no single dimension limits."""


@dataclasses.dataclass(frozen=True)
class RateLimitStatus:
    """A provider's word on one of its limits, as in the headers x-ratelimit-{remaining,reset}-*."""

    remaining: float | None = None
    """Left after this call, in the dimension's unit, 0 to 1e12. None: not told."""
    reset: timedelta | None = None
    """Until the running window ends, 0 to 24 h. None: not told."""


@dataclasses.dataclass(frozen=True)
class Settlement:
    """What a call really used, and how it ended. Dimensions that are absent are unknown and stay charged."""

    outcome: CallOutcome = CallOutcome.UNKNOWN
    actual: Mapping[str, float] = dataclasses.field(default_factory=dict)
    retry_after: timedelta | None = None
    """RATE_LIMITED only: how long the provider asks to wait, 0 to 24 h. The target pauses for it."""
    rate_limits: Mapping[str, RateLimitStatus] = dataclasses.field(default_factory=dict)
    """By dimension: what the response said of the provider's own count."""


@dataclasses.dataclass(frozen=True)
class ReleaseReport:
    """What the gate made of a release."""

    result: ReleaseResult
    refunded: Mapping[str, float]
    """Given back by dimension; negative: charged on top."""
    degraded: bool
    """The gate keeps it until its store is back."""
    lease_expires_in: timedelta | None
    """After EXTENDED."""


@dataclasses.dataclass(frozen=True)
class Counters:
    """Answers since the gate object was made."""

    granted: int = 0
    deferred: int = 0
    rejected: int = 0
    failed_open: int = 0
    """The gate could not be asked, and the call went nevertheless."""
    errors: int = 0
    """An admission ended with a GateError."""
    breaker_skips: int = 0
    """Admissions and releases that did not go out: the breaker was open."""
    releases_lost: int = 0
    """Settlements that did not reach the gate; their leases end by themselves."""
