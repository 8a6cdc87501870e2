"""Client of a Fairgate gate: ask before a call to an API with hard quotas, settle after it.

    gate = fairgate.AsyncGate("127.0.0.1:50051")
    async with gate.admit(target="openai", tenant="acme", priority="interactive", tokens=900) as call:
        response = await ask_the_provider()
        call.settle(response=response)

`Gate` is the same with `with`. `Deferred` and `Rejected` are raised by entering the block.
"""

from fairgate._version import __version__
from fairgate.aio import AsyncCall, AsyncGate
from fairgate.durations import Duration, deadline
from fairgate.errors import (
    BadRequest,
    Deferred,
    FairgateError,
    FieldViolation,
    GateClosed,
    GateError,
    GateUnreachable,
    NotAdmitted,
    Rejected,
    UnknownTarget,
)
from fairgate.events import AdmitEvent, BreakerEvent, Event, ReleaseEvent
from fairgate.options import GateOptions
from fairgate.providers import settlement_from_response
from fairgate.sync import Call, Gate
from fairgate.tokens import estimate_tokens, tiktoken_counter
from fairgate.values import (
    CallOutcome,
    Counters,
    Limit,
    RateLimitStatus,
    RejectReason,
    ReleaseReport,
    ReleaseResult,
    Settlement,
)

__all__ = [
    "AdmitEvent",
    "AsyncCall",
    "AsyncGate",
    "BadRequest",
    "BreakerEvent",
    "Call",
    "CallOutcome",
    "Counters",
    "Deferred",
    "Duration",
    "Event",
    "FairgateError",
    "FieldViolation",
    "Gate",
    "GateClosed",
    "GateError",
    "GateOptions",
    "GateUnreachable",
    "Limit",
    "NotAdmitted",
    "RateLimitStatus",
    "RejectReason",
    "Rejected",
    "ReleaseEvent",
    "ReleaseReport",
    "ReleaseResult",
    "Settlement",
    "UnknownTarget",
    "__version__",
    "deadline",
    "estimate_tokens",
    "settlement_from_response",
    "tiktoken_counter",
]
