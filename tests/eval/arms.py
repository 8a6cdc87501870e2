"""How a caller gets its call through: with retries alone, through a proxy's limits, or after asking a gate."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import time
from collections.abc import Mapping
from typing import Protocol

import aiohttp
import grpc

from records import Record, Send
from stubs import admission_pb2 as pb
from stubs import admission_pb2_grpc
from workloads import Call, Tenant, Workload

BACKOFF_MIN = 0.5  # seconds, as the OpenAI SDK
BACKOFF_MAX = 8.0
HINT_MAX = 60.0  # a longer Retry-After is not obeyed, as there


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    tokens: int
    retry_after: float  # seconds; 0: no hint
    # By name: what is left, and the seconds until the window ends.
    limits: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)


class Arm(Protocol):
    async def call(self, tenant: Tenant, call: Call, record: Record) -> None: ...


def _hint(headers: Mapping[str, str]) -> float:
    try:
        if "retry-after-ms" in headers:
            return float(headers["retry-after-ms"]) / 1000
        return float(headers.get("retry-after", "0"))
    except ValueError:
        return 0.0


def _limits(headers: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """As the mock tells them: whole units, and milliseconds."""
    prefix = "x-ratelimit-remaining-"
    names = [name.lower().removeprefix(prefix) for name in headers if name.lower().startswith(prefix)]
    resets = {name: headers[f"x-ratelimit-reset-{name}"].removesuffix("ms") for name in names}
    return {name: (float(headers[prefix + name]), float(resets[name]) / 1000) for name in names}


class Http:
    """Sends one call to the upstream, or to a proxy before it, and notes it in the record."""

    def __init__(self, base: str, session: aiohttp.ClientSession) -> None:
        self._url = base + "/v1/chat/completions"
        self._session = session

    async def send(self, call: Call, record: Record) -> Answer:
        body: dict[str, object] = {
            "model": "mock",
            "messages": [{"role": "user", "content": "tok " * call.prompt_tokens}],
        }
        if call.max_tokens is not None:
            body["max_tokens"] = call.max_tokens
        headers = {
            "x-mock-completion-tokens": str(call.completion_tokens),
            "authorization": f"Bearer sk-{record.tenant}",
        }
        start = time.monotonic()
        try:
            async with self._session.post(self._url, json=body, headers=headers) as response:
                answer = await response.json()
                status = response.status
                hint, limits = _hint(response.headers), _limits(response.headers)
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            record.sends.append(Send(start, time.monotonic(), 0))
            record.error = str(error) or type(error).__name__
            return Answer(0, 0, 0.0)
        record.sends.append(Send(start, time.monotonic(), status))
        tokens = int(answer["usage"]["total_tokens"]) if status == 200 else 0
        record.tokens += tokens
        return Answer(status, tokens, hint, limits)


class NaiveArm:
    """Exponential backoff with jitter on 429 and 5xx, never shorter than the provider's hint."""

    def __init__(self, http: Http, seed: int) -> None:
        self._http = http
        self._random = random.Random(seed)

    async def call(self, tenant: Tenant, call: Call, record: Record) -> None:
        record.granted = record.asked
        for tries in itertools.count():
            answer = await self._http.send(call, record)
            if answer.status == 200:
                return
            backoff = min(BACKOFF_MAX, BACKOFF_MIN * 2 ** min(tries, 10))
            backoff *= 1 - 0.25 * self._random.random()
            hint = answer.retry_after if answer.retry_after <= HINT_MAX else 0.0
            start = time.monotonic()
            try:
                await asyncio.sleep(max(hint, backoff))
            finally:
                record.backoff_s += time.monotonic() - start


@dataclasses.dataclass(frozen=True)
class Asking:
    """How a gate's caller behaves."""

    max_hold: float = 0.0  # seconds
    timer_floor: float = 0.0
    # The paper's rule knows no 429: who gets one waits for its hint and asks anew, and what was
    # debited stays so.
    tells_429: bool = True
    tells_usage: bool = True
    tells_limits: bool = False  # Release carries what the headers say of the provider's limits
    keeps_ticket: bool = True  # else each ask after a deferral is a new request


class GateArm:
    """Admit until granted, one HTTP send per attempt, Release with what was really used."""

    def __init__(
        self,
        http: Http,
        channel: grpc.aio.Channel,
        target: str,
        workload: Workload,
        run: str,
        asking: Asking = Asking(),
    ) -> None:
        self._http = http
        self._gate = admission_pb2_grpc.AdmissionServiceStub(channel)
        self._target = target
        self._metered = frozenset(workload.caps)
        self._kind = pb.COST_KIND_UPPER_BOUND if workload.upper_bound else pb.COST_KIND_ESTIMATE
        self._run = run
        self._asking = asking
        self._numbers = itertools.count()

    async def call(self, tenant: Tenant, call: Call, record: Record) -> None:
        request = self.request_of(tenant, call, self._new_id(tenant))
        while (wait := await self.visit(request, call, record)) is not None:
            start = time.monotonic()
            try:
                await asyncio.sleep(wait)
            finally:
                record.deferred_s += time.monotonic() - start
            if not self._asking.keeps_ticket:
                await self._forget(tenant, request)

    def request_of(self, tenant: Tenant, call: Call, request_id: str) -> pb.AdmitRequest:
        request = pb.AdmitRequest(
            target=self._target,
            tenant=tenant.name,
            priority=tenant.priority,
            cost=self._amounts(call.estimate_tokens),
            cost_kind=self._kind,
            request_id=request_id,
            attempt=1,
        )
        if self._asking.max_hold:
            request.max_hold.FromMilliseconds(round(self._asking.max_hold * 1000))
        if self._asking.timer_floor:
            request.timer_floor.FromMilliseconds(round(self._asking.timer_floor * 1000))
        return request

    async def visit(self, request: pb.AdmitRequest, call: Call, record: Record) -> float | None:
        """What is done with a worker's slot in hand. Seconds to wait without it; None: the call is over.

        Each HTTP send is another attempt of the request.
        """
        while True:
            wait, granted = await self._admit(request, record)
            if not granted:
                return wait
            answer = await self._http.send(call, record)
            if answer.status != 429:
                await self._settle(request, answer, record)
                return None
            if self._asking.tells_429:
                await self._settle(request, answer, record)
            request.attempt += 1
            if not self._asking.tells_429:
                return answer.retry_after

    def _new_id(self, tenant: Tenant) -> str:
        return f"{self._run}/{tenant.name}/{next(self._numbers)}"

    async def _admit(
        self, request: pb.AdmitRequest, record: Record
    ) -> tuple[float | None, bool]:
        """How long to wait (None: for nothing, it is rejected), and whether it is granted."""
        start = time.monotonic()
        try:
            answer = await self._gate.Admit(request)
        finally:
            record.gate_s += time.monotonic() - start
        record.admits += 1
        record.degraded += answer.degraded
        outcome = answer.WhichOneof("outcome")
        if outcome == "defer":
            return answer.defer.retry_delay.ToTimedelta().total_seconds(), False
        if outcome == "reject":
            record.error = answer.reject.message or "rejected"
            return None, False
        record.grants += 1
        record.granted = time.monotonic()
        return None, True

    async def _forget(self, tenant: Tenant, request: pb.AdmitRequest) -> None:
        """Gives the place up and comes back as somebody else."""
        await self._gate.Release(
            pb.ReleaseRequest(
                target=self._target,
                request_id=request.request_id,
                attempt=request.attempt,
                withdraw=pb.Withdraw(),
            )
        )
        request.request_id, request.attempt = self._new_id(tenant), 1

    async def _settle(self, request: pb.AdmitRequest, answer: Answer, record: Record) -> None:
        settle = pb.Settle(outcome=pb.CALL_OUTCOME_UNSPECIFIED)
        if answer.status == 200:
            settle.outcome = pb.CALL_OUTCOME_OK
            if self._asking.tells_usage:
                settle.actual.update(self._amounts(answer.tokens))
        elif answer.status == 429:
            settle.outcome = pb.CALL_OUTCOME_RATE_LIMITED
            settle.retry_after.FromMilliseconds(round(answer.retry_after * 1000))
        elif answer.status >= 500:
            settle.outcome = pb.CALL_OUTCOME_SERVER_ERROR
        if self._asking.tells_limits:
            for name, (remaining, reset) in answer.limits.items():
                settle.rate_limits[name].remaining = remaining
                settle.rate_limits[name].reset.FromMilliseconds(round(1000 * reset))
        start = time.monotonic()
        try:
            await self._gate.Release(
                pb.ReleaseRequest(
                    target=self._target,
                    request_id=request.request_id,
                    attempt=request.attempt,
                    settle=settle,
                )
            )
        finally:
            record.gate_s += time.monotonic() - start

    def _amounts(self, tokens: int) -> Mapping[str, float]:
        amounts = {"requests": 1.0, "tokens": float(tokens)}
        return {name: amount for name, amount in amounts.items() if name in self._metered}
