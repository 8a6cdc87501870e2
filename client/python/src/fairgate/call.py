"""What the async and the sync call share: the lease, and how leaving the block settles it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from fairgate import wire
from fairgate.core import Core
from fairgate.durations import Duration, seconds, to_proto
from fairgate.errors import GateError
from fairgate.options import Question
from fairgate.providers import http_response_of, settlement_from_response
from fairgate.v1 import admission_pb2 as pb
from fairgate.values import USAGE_KINDS, CallOutcome, RateLimitStatus, ReleaseReport, ReleaseResult, Settlement


class CallBase:
    """A permission to call. Used by one task or thread at a time."""

    def __init__(self, core: Core, question: Question, granted: wire.Granted) -> None:
        self._core = core
        self._question = question
        self._granted = granted
        self._lease_expires_in = granted.lease_expires_in
        self._settlement: Settlement | None = None
        self._sent = not question.tells_sent
        self._open = not question.check_only and (not granted.failed_open or granted.maybe_leased)
        self._report: ReleaseReport | None = None

    @property
    def target(self) -> str:
        """As asked."""
        return self._question.target

    @property
    def request_id(self) -> str:
        """The question's, or the one that was made."""
        return self._granted.request_id

    @property
    def attempt(self) -> int:
        """At least 1. One attempt is one HTTP send: whoever sends again asks with the next number."""
        return self._granted.attempt

    @property
    def debited(self) -> Mapping[str, float]:
        """What was debited by dimension; empty when failed open."""
        return self._granted.debited

    @property
    def lease_expires_in(self) -> timedelta:
        """How long the lease lives without a settlement, from the grant or the last extension."""
        return self._lease_expires_in

    @property
    def repeated(self) -> bool:
        """This grant was given before, to the same request_id and attempt."""
        return self._granted.repeated

    @property
    def degraded(self) -> bool:
        """The answer was given without the store (by the gate) or without the gate (failed open)."""
        return self._granted.degraded

    @property
    def failed_open(self) -> bool:
        """The gate could not be asked."""
        return self._granted.failed_open

    @property
    def config_version(self) -> int:
        """Version of the policy that decided; 0: none."""
        return self._granted.config_version

    @property
    def report(self) -> ReleaseReport | None:
        """What the gate made of the settlement; None before, without a lease, and when it was lost."""
        return self._report

    def settle(
        self,
        *,
        response: Any = None,
        body: Any = None,
        outcome: CallOutcome | None = None,
        retry_after: Duration | None = None,
        rate_limits: Mapping[str, RateLimitStatus] | None = None,
        actual: Mapping[str, float] | None = None,
        **amounts: float,
    ) -> None:
        """Says what the call really used; it is sent when the block is left (or by release()).

        Amounts are named by dimension, as keywords or, for names that are none, in `actual`. A dimension that is absent
        is unknown: its estimate stays charged. `rate_limits`: what the provider said of its own count, by dimension.
        `response` is the provider's (see settlement_from_response), `body` its body where that cannot be read from it:
        they give what was not given otherwise. Without them the outcome is OK unless said. The last settle() holds.
        """
        known = Settlement(CallOutcome.OK)
        if response is not None or body is not None:
            known = settlement_from_response(response, body=body, dimensions=self._usage_dimensions())
        wait = known.retry_after if retry_after is None else timedelta(seconds=seconds(retry_after))
        self._settlement = Settlement(
            outcome or known.outcome,
            {**known.actual, **(actual or {}), **amounts},
            wait,
            {**known.rate_limits, **(rate_limits or {})},
        )

    def sent(self) -> None:
        """With tells_sent: the request leaves now. Whatever happens from here on, the provider may have counted it."""
        self._sent = True

    def not_sent(self) -> None:
        """The call never left: everything is refunded."""
        self._settlement = Settlement(CallOutcome.NOT_SENT)

    # For the subclasses

    def _take_settlement(self, ended_by: BaseException | None) -> pb.ReleaseRequest | None:
        """The release that ends the lease; None: there is nothing to end (any more)."""
        if not self._open:
            return None
        self._open = False
        settlement = self._settlement or self._known(ended_by)
        return wire.settle_request(self.target, self.request_id, self.attempt, settlement)

    def _known(self, ended_by: BaseException | None) -> Settlement:
        if not self._sent:
            return Settlement(CallOutcome.NOT_SENT)
        if ended_by is not None and http_response_of(ended_by) is not None:
            return settlement_from_response(ended_by, dimensions=self._usage_dimensions())
        return Settlement(CallOutcome.UNKNOWN)

    def _extend_request(self, lease_ttl: Duration | None, used_so_far: Mapping[str, float] | None) -> pb.ReleaseRequest:
        if not self._open or self._granted.failed_open:
            raise GateError("FAILED_PRECONDITION", "no open lease")
        extend = pb.Extend(used_so_far={name: float(amount) for name, amount in (used_so_far or {}).items()})
        if lease_ttl is not None:
            extend.lease_ttl.CopyFrom(to_proto(lease_ttl))
        return pb.ReleaseRequest(target=self.target, request_id=self.request_id, attempt=self.attempt, extend=extend)

    def _extended(self, report: ReleaseReport) -> None:
        if report.result not in (ReleaseResult.EXTENDED, ReleaseResult.QUEUED):
            self._open = False
            raise GateError("FAILED_PRECONDITION", f"the lease has ended: {report.result.value}")
        if report.lease_expires_in is not None:
            self._lease_expires_in = report.lease_expires_in

    def _usage_dimensions(self) -> dict[str, str]:
        """Of the dimensions that the question or the grant names, those that hold token usage."""
        kinds = {**USAGE_KINDS, **self._core.options.usage_dimensions}
        return {name: kinds[name] for name in (*self._question.cost, *self.debited) if name in kinds}


def withdraw_request(target: str, request_id: str, attempt: int) -> pb.ReleaseRequest:
    """A release that gives up the place in line, or an open lease as not sent."""
    return pb.ReleaseRequest(target=target, request_id=request_id, attempt=attempt, withdraw=pb.Withdraw())
