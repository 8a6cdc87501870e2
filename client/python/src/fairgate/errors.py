"""What an admission raises. All of them can be pickled."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any, TypeVar

from fairgate.values import Limit, RejectReason

_Error = TypeVar("_Error", bound="FairgateError")


def _revive(cls: type[_Error], args: tuple[Any, ...], state: dict[str, Any]) -> _Error:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class FairgateError(Exception):
    """Base of everything that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.args, self.__dict__)


class NotAdmitted(FairgateError):
    """The call may not go now: Deferred or Rejected."""

    def __init__(self, message: str, *, request_id: str, attempt: int, degraded: bool) -> None:
        super().__init__(message)
        self.request_id = request_id
        """Ask again with the same one."""
        self.attempt = attempt
        self.degraded = degraded
        """Answered without the gate's store, or, for a deadline that passed meanwhile, without the gate."""


class Deferred(NotAdmitted):
    """Give the worker's slot back, sleep `delay`, and ask again with the same request_id and attempt."""

    def __init__(
        self,
        *,
        delay: timedelta,
        projected_wait: timedelta,
        place: int,
        limited_by: tuple[Limit, ...],
        request_id: str,
        attempt: int,
        degraded: bool,
    ) -> None:
        super().__init__(
            f"{request_id}: ask again in {delay.total_seconds():.3f} s",
            request_id=request_id,
            attempt=attempt,
            degraded=degraded,
        )
        self.delay = delay
        self.projected_wait = projected_wait
        """When the turn is expected, without corrections for timers."""
        self.place = place
        """Calls of the same flow that are ahead, plus 1; 0: no place is kept."""
        self.limited_by = limited_by


class Rejected(NotAdmitted):
    """Waiting would not help."""

    def __init__(
        self,
        *,
        reason: RejectReason,
        message: str,
        dimension: str,
        earliest: timedelta | None,
        request_id: str,
        attempt: int,
        degraded: bool,
    ) -> None:
        text = f"{request_id}: {reason.value}: {message}"
        super().__init__(text, request_id=request_id, attempt=attempt, degraded=degraded)
        self.reason = reason
        self.message = message
        """For people; names the dimension and the numbers."""
        self.dimension = dimension
        self.earliest = earliest
        """DEADLINE_UNREACHABLE: when the call could go, from now."""


@dataclasses.dataclass(frozen=True)
class FieldViolation:
    """One bad field of a request."""

    field: str
    description: str


class GateError(FairgateError):
    """The gate answered with a status, or, without fail_open, could not be reached. Never an answer to wait for."""

    def __init__(self, code: str, message: str, fields: tuple[FieldViolation, ...] = ()) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        """Name of the gRPC status code, for example "INTERNAL"."""
        self.message = message
        self.fields = fields


class BadRequest(GateError):
    """INVALID_ARGUMENT; `fields` says what is wrong. Nothing changed."""


class UnknownTarget(GateError):
    """NOT_FOUND."""


class GateClosed(GateError):
    """UNAVAILABLE, said by the gate: its store is away, and the target's policy is to stay closed."""


class GateUnreachable(GateError):
    """The gate could not be asked, and fail_open is off."""
