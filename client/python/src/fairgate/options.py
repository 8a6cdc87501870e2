"""Settings of a gate object, and the fields of a question."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc

from fairgate.durations import Duration
from fairgate.events import Event

DEFAULT_ADDRESS = "127.0.0.1:50051"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GateOptions:
    """How to reach a gate, and what to do when that fails."""

    rpc_timeout: Duration = 0.1
    """Longest time to wait for an answer; a question's max_hold comes on top."""
    fail_open: bool = True
    """When the gate cannot be reached, let the call go (marked and counted) instead of raising GateUnreachable.
    An answer of the gate itself, UNAVAILABLE included, is never turned into a permission."""
    breaker_failures: int = 3
    """So many failures in a row open the breaker: for breaker_cooldown nobody waits for the gate. Then one call tries
    it again. 0: no breaker."""
    breaker_cooldown: Duration = 1.0
    keepalive: Duration = 30.0
    """Interval of pings while an answer is awaited, which detect a silent peer."""
    credentials: grpc.ChannelCredentials | None = None
    """None: not encrypted."""
    metadata: Sequence[tuple[str, str]] = ()
    """Sent with every call, for example an authorization header."""
    channel_options: Sequence[tuple[str, Any]] = ()
    """gRPC channel arguments, over the ones set here."""
    on_event: Callable[[Event], None] | None = None
    """Called after every answer, release and change of the breaker; must be quick. What it raises is logged."""
    usage_dimensions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Dimensions of yours that hold token usage: name to "total", "input" or "output". See values.USAGE_KINDS."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """One admission; fields as in fairgate.v1.AdmitRequest."""

    target: str
    tenant: str
    priority: str
    cost: Mapping[str, float]
    upper_bound: bool
    request_id: str
    attempt: int
    due_at: float | None
    """Instant of time.monotonic() at which the work is useless."""
    timer_floor: Duration
    max_hold: Duration
    check_only: bool
    tells_sent: bool
    max_wait: Duration
