"""Closed-loop workers: one asyncio task per workflow, one record per call, no engine in between."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time

import aiohttp
import grpc

from arms import Arm
from records import Record
from traces import Chain, chains
from workloads import Call, Tenant, Workload

ERROR_PAUSE = 0.1  # seconds before a worker goes on after an error that is no 429
DRAIN_MAX = 90.0  # seconds
TICK = 0.02  # seconds between looks at how late this process's timers are


@dataclasses.dataclass
class Run:
    records: list[Record]
    drain_begin: float = 0.0  # 0: nothing was drained
    late: list[float] = dataclasses.field(default_factory=list)  # of timers, in seconds


class _Drain:
    """Once set, every worker does so many further calls and ends."""

    def __init__(self) -> None:
        self.calls_each: int | None = None


def drain_calls(workload: Workload, seconds: float) -> int:
    """Calls of each workflow that together take about `seconds` of the caps."""
    used = dict.fromkeys(workload.caps, 0.0)
    for tenant in workload.tenants:
        for name, amount in {"requests": 1.0, "tokens": tenant.mean_tokens}.items():
            if name in used:
                used[name] += amount * tenant.concurrency
    return max(1, round(seconds / max(used[n] / cap for n, cap in workload.caps.items())))


async def _call(arm: Arm, tenant: Tenant, call: Call, record: Record) -> None:
    try:
        await arm.call(tenant, call, record)
    except grpc.aio.AioRpcError as error:
        record.error = f"{error.code().name}: {error.details()}"


async def _work(
    arm: Arm, worker: int, tenant: Tenant, rng: random.Random, run: Run, delay: float, drain: _Drain
) -> None:
    await asyncio.sleep(delay)
    left: int | None = None
    while True:
        if drain.calls_each is not None:
            left = drain.calls_each if left is None else left - 1
            if left == 0:
                return
        record = Record(
            tenant.name, tenant.priority, time.monotonic(), worker=worker, draining=left is not None
        )
        run.records.append(record)
        await _call(arm, tenant, tenant.draw(rng), record)
        if not record.ok:
            await asyncio.sleep(ERROR_PAUSE)
        if tenant.think:
            await asyncio.sleep(tenant.think * rng.uniform(0.5, 1.5))


async def _watch_timers(late: list[float]) -> None:
    while True:
        start = time.monotonic()
        await asyncio.sleep(TICK)
        late.append(time.monotonic() - start - TICK)


async def drive(
    arm: Arm, workload: Workload, seconds: float, seed: int, drain_seconds: float = 0.0
) -> Run:
    """Runs all workers for `seconds`, and then until each has done its part of the drain.

    Calls under way at the end are cut off, their records kept.
    """
    run = Run([])
    drain = _Drain()
    seeds = workload.seeds(seed)
    starts = random.Random(seed)
    workers = [tenant for tenant in workload.tenants for _ in range(tenant.concurrency)]
    tasks = [
        asyncio.create_task(
            _work(arm, number, tenant, seeds[tenant.name], run, starts.uniform(0, 0.2), drain)
        )
        for number, tenant in enumerate(workers)
    ]
    watch = asyncio.create_task(_watch_timers(run.late))
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    if drain_seconds:
        drain.calls_each = drain_calls(workload, drain_seconds)
        run.drain_begin = time.monotonic()
        await asyncio.wait(tasks, timeout=DRAIN_MAX, return_when=asyncio.FIRST_EXCEPTION)
    await _end(*tasks, watch)
    return run


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


async def _follow(arm: Arm, number: int, tenant: Tenant, chain: Chain, run: Run) -> None:
    await asyncio.sleep(chain.start)
    for step in chain.steps:
        await asyncio.sleep(step.pause)
        record = Record(tenant.name, tenant.priority, time.monotonic(), worker=number)
        run.records.append(record)
        await _call(arm, tenant, step.call, record)


async def drive_trace(arm: Arm, workload: Workload, seconds: float, seed: int) -> Run:
    """Chains of calls that come when they come; the next call of a chain waits for the one before."""
    run = Run([])
    tenants = {tenant.name: tenant for tenant in workload.tenants}
    tasks = [
        asyncio.create_task(_follow(arm, number, tenants[chain.tenant], chain, run))
        for number, chain in enumerate(chains(seed, seconds))
    ]
    watch = asyncio.create_task(_watch_timers(run.late))
    await asyncio.wait([watch, *tasks], timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    await _end(*tasks, watch)
    return run


def http_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=90)
    )
