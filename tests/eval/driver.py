"""Closed-loop workers against the mock: one asyncio task per workflow, one record per call.

Arms: `naive` sends and retries as provider SDKs do; `fairgate` and `bp` ask a gate first (`bp` is
the same client against a target whose discipline is the paper's buckets).
"""

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

from stubs import admission_pb2 as pb
from stubs import admission_pb2_grpc
from workloads import Call, Tenant, Workload

BACKOFF_MIN = 0.5  # seconds, as the OpenAI SDK
BACKOFF_MAX = 8.0
ERROR_PAUSE = 0.1  # seconds before a worker goes on after an error that is no 429


@dataclasses.dataclass
class Send:
    """One HTTP exchange; times are of the monotonic clock, in seconds."""

    start: float
    end: float
    status: int  # 0: no answer


@dataclasses.dataclass
class Record:
    """One call from the first ask to its end."""

    tenant: str
    priority: str
    asked: float
    granted: float = 0.0  # of the last attempt; naive: when it was first sent
    sends: list[Send] = dataclasses.field(default_factory=list)
    admits: int = 0
    grants: int = 0
    degraded: int = 0
    tokens: int = 0  # as the upstream reported
    error: str = ""

    @property
    def ok(self) -> bool:
        return bool(self.sends) and self.sends[-1].status == 200


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    tokens: int
    retry_after: float  # seconds; 0: no hint


class Arm(Protocol):
    async def call(self, tenant: Tenant, call: Call, record: Record) -> None: ...


class Http:
    """Sends one call to the upstream and notes it in the record."""

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
        headers = {"x-mock-completion-tokens": str(call.completion_tokens)}
        start = time.monotonic()
        try:
            async with self._session.post(self._url, json=body, headers=headers) as response:
                answer = await response.json()
                status = response.status
                hint = float(response.headers.get("retry-after-ms", "0")) / 1000
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            record.sends.append(Send(start, time.monotonic(), 0))
            record.error = str(error)
            return Answer(0, 0, 0.0)
        record.sends.append(Send(start, time.monotonic(), status))
        tokens = int(answer["usage"]["total_tokens"]) if status == 200 else 0
        record.tokens += tokens
        return Answer(status, tokens, hint)


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
            await asyncio.sleep(max(answer.retry_after, backoff))


class GateArm:
    """Admit until granted, one HTTP send per attempt, Release with what was really used."""

    def __init__(
        self, http: Http, channel: grpc.aio.Channel, target: str, workload: Workload, run: str
    ) -> None:
        self._http = http
        self._gate = admission_pb2_grpc.AdmissionServiceStub(channel)
        self._target = target
        self._metered = frozenset(workload.caps)
        self._kind = pb.COST_KIND_UPPER_BOUND if workload.upper_bound else pb.COST_KIND_ESTIMATE
        self._run = run
        self._numbers = itertools.count()

    async def call(self, tenant: Tenant, call: Call, record: Record) -> None:
        request = pb.AdmitRequest(
            target=self._target,
            tenant=tenant.name,
            priority=tenant.priority,
            cost=self._amounts(call.estimate_tokens),
            cost_kind=self._kind,
            request_id=f"{self._run}/{tenant.name}/{next(self._numbers)}",
        )
        for attempt in itertools.count(1):
            request.attempt = attempt
            if not await self._admit(request, record):
                return
            answer = await self._http.send(call, record)
            await self._settle(request, answer)
            if answer.status != 429:
                return

    async def _admit(self, request: pb.AdmitRequest, record: Record) -> bool:
        """Asks until there is a verdict, asleep in between. False: rejected."""
        while True:
            answer = await self._gate.Admit(request)
            record.admits += 1
            record.degraded += answer.degraded
            outcome = answer.WhichOneof("outcome")
            if outcome == "grant":
                record.grants += 1
                record.granted = time.monotonic()
                return True
            if outcome == "reject":
                record.error = answer.reject.message or "rejected"
                return False
            await asyncio.sleep(answer.defer.retry_delay.ToTimedelta().total_seconds())

    async def _settle(self, request: pb.AdmitRequest, answer: Answer) -> None:
        settle = pb.Settle(outcome=pb.CALL_OUTCOME_UNSPECIFIED)
        if answer.status == 200:
            settle = pb.Settle(outcome=pb.CALL_OUTCOME_OK, actual=self._amounts(answer.tokens))
        elif answer.status == 429:
            settle.outcome = pb.CALL_OUTCOME_RATE_LIMITED
            settle.retry_after.FromMilliseconds(round(answer.retry_after * 1000))
        elif answer.status >= 500:
            settle.outcome = pb.CALL_OUTCOME_SERVER_ERROR
        await self._gate.Release(
            pb.ReleaseRequest(
                target=self._target,
                request_id=request.request_id,
                attempt=request.attempt,
                settle=settle,
            )
        )

    def _amounts(self, tokens: int) -> Mapping[str, float]:
        amounts = {"requests": 1.0, "tokens": float(tokens)}
        return {name: amount for name, amount in amounts.items() if name in self._metered}


async def _work(
    arm: Arm, tenant: Tenant, rng: random.Random, records: list[Record], delay: float
) -> None:
    await asyncio.sleep(delay)
    while True:
        record = Record(tenant.name, tenant.priority, time.monotonic())
        records.append(record)
        try:
            await arm.call(tenant, tenant.draw(rng), record)
        except grpc.aio.AioRpcError as error:
            record.error = f"{error.code().name}: {error.details()}"
        if not record.ok:
            await asyncio.sleep(ERROR_PAUSE)
        if tenant.think:
            await asyncio.sleep(tenant.think * rng.uniform(0.5, 1.5))


async def drive(arm: Arm, workload: Workload, seconds: float, seed: int) -> list[Record]:
    """Runs all workers for `seconds`; calls under way then are cut off, their records kept."""
    records: list[Record] = []
    seeds = workload.seeds(seed)
    starts = random.Random(seed)
    tasks = [
        asyncio.create_task(
            _work(arm, tenant, seeds[tenant.name], records, starts.uniform(0, 0.2))
        )
        for tenant in workload.tenants
        for _ in range(tenant.concurrency)
    ]
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return records


def http_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=30)
    )
