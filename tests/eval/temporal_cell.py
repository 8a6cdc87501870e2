"""Runs one cell on a real Temporal: workflows, durable timers, and one worker with a fixed number of slots."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import time
import uuid
from datetime import timedelta

import grpc
from temporalio import activity
from temporalio.worker import Worker

import records
from arms import GateArm, Http, NaiveArm
from cell_run import RECORDS, Observed, observe, rebase_answers, upstream_options, write_meta
from cells import Cell
from driver import http_session
from litellm_proxy import proxy_process
from measures import percentile
from records import Record
from servers import TARGET, gate_process, upstream_process
from stubs import admission_pb2 as pb
from temporal_server import QUEUE, Temporal, temporal_process
from temporal_workflow import Caller, Told, Visit, Who
from workloads import Call, Tenant, Workload

SLOTS = 20  # of the worker, for activities


@dataclasses.dataclass
class _Open:
    """A call under way."""

    record: Record
    call: Call
    request: pb.AdmitRequest | None
    events: int  # of the history before it
    left: float = 0.0  # when it last gave its slot back


class Desk:
    """The worker's side: what an activity does, and what is noted about each call."""

    def __init__(self, load: Workload, arm: NaiveArm | GateArm, run: str, seed: int) -> None:
        self.records: list[Record] = []
        self.queued: list[float] = []  # seconds from scheduling to start
        self._arm, self._run = arm, run
        self._workers = [tenant for tenant in load.tenants for _ in range(tenant.concurrency)]
        self._random = load.seeds(seed)
        self._open: dict[int, _Open] = {}
        self._clock = time.monotonic() - time.time()  # the server tells wall time

    @property
    def workers(self) -> list[Tenant]:
        return self._workers

    def _begin(self, visit: Visit, scheduled: float) -> _Open:
        tenant = self._workers[visit.worker]
        before = self._open.get(visit.worker)
        if before is not None:
            before.record.events = visit.events - before.events
        record = Record(tenant.name, tenant.priority, scheduled, worker=visit.worker)
        self.records.append(record)
        call = tenant.draw(self._random[tenant.name])
        request = None
        if isinstance(self._arm, GateArm):
            request_id = f"{self._run}/{visit.worker}/{visit.number}"
            request = self._arm.request_of(tenant, call, request_id)
        return _Open(record, call, request, visit.events)

    @activity.defn(name="visit")
    async def visit(self, visit: Visit) -> Told:
        scheduled = activity.info().current_attempt_scheduled_time.timestamp() + self._clock
        self.queued.append(time.monotonic() - scheduled)
        current = self._open.get(visit.worker)
        if current is None or current.left == 0.0:
            current = self._open[visit.worker] = self._begin(visit, scheduled)
        else:
            current.record.deferred_s += scheduled - current.left
        current.left = 0.0
        if isinstance(self._arm, NaiveArm):
            await self._arm.call(self._workers[visit.worker], current.call, current.record)
            return Told(None)
        assert current.request is not None
        try:
            wait = await self._arm.visit(current.request, current.call, current.record)
        except grpc.aio.AioRpcError as error:
            current.record.error = f"{error.code().name}: {error.details()}"
            return Told(None)
        if wait is not None:
            current.left = time.monotonic()
        return Told(wait)


async def _start_workflows(temporal: Temporal, cell: Cell, desk: Desk) -> None:
    throttled = cell.arm == "tn"
    for number, tenant in enumerate(desk.workers):
        who = Who(number, tenant.think)
        if throttled:
            who.priority, who.fairness_key = int(tenant.priority[1]), tenant.name
        await temporal.client.start_workflow(
            Caller.run, who, id=f"{cell.name}/{number}/{uuid.uuid4().hex[:8]}", task_queue=QUEUE
        )


async def _arm_of(
    cell: Cell, load: Workload, folder: pathlib.Path, stack: contextlib.AsyncExitStack, pids: dict[str, int]
) -> tuple[NaiveArm | GateArm, pathlib.Path | None]:
    """The arm, and the socket of its gate's store."""
    options = upstream_options(cell, folder)
    upstream = await stack.enter_async_context(upstream_process(load, cell.window, cell.repeat, options))
    pids["upstream"] = upstream.pid
    session = await stack.enter_async_context(http_session())
    if cell.how.rule:
        gate = await stack.enter_async_context(gate_process(load, cell.window, cell.how.rule))
        pids["gate"] = gate.pid
        http = Http(upstream.url, session)
        arm = GateArm(http, gate.channel, TARGET, load, cell.name, cell.how.asking)
        return arm, gate.store_socket
    if cell.arm == "litellm":
        upstream = await stack.enter_async_context(proxy_process(load, upstream))
        pids["proxy"] = upstream.pid
    return NaiveArm(Http(upstream.url, session), cell.repeat), None


async def _drive(cell: Cell, folder: pathlib.Path) -> tuple[Desk, float, Observed]:
    load = cell.load
    async with contextlib.AsyncExitStack() as stack:
        pids = {"workers": os.getpid()}
        arm, store = await _arm_of(cell, load, folder, stack, pids)
        temporal = await stack.enter_async_context(temporal_process(not cell.how.asking.timer_floor))
        pids["temporal"] = temporal.pid
        if cell.arm == "tn":
            await temporal.limit_activities(load.caps["requests"])
        desk = Desk(load, arm, cell.name, cell.repeat)
        worker = Worker(
            temporal.client,
            task_queue=QUEUE,
            workflows=[Caller],
            activities=[desk.visit],
            max_concurrent_activities=SLOTS,
            graceful_shutdown_timeout=timedelta(0),
            # An activity that starts where it was scheduled passes the task queue, and its limit, by.
            disable_eager_activity_execution=cell.arm == "tn",
        )
        async with worker:
            await _start_workflows(temporal, cell, desk)
            zero = time.monotonic()
            end = zero + cell.warm_up + cell.seconds
            observed = await observe(zero + cell.warm_up, end, pids, store)
            await asyncio.sleep(0.5)  # so that the last calls' events are told
        return desk, zero, observed


async def run_cell(cell: Cell, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    desk, zero, observed = await _drive(cell, folder)
    records.write(folder / RECORDS, desk.records, zero)
    rebase_answers(folder, zero)
    queued = [seconds * 1000 for seconds in desk.queued]
    more = {
        "drain_begin": None,
        "timer_late_ms": {"p50": None, "p99": None},
        "queued_ms": {"p50": percentile(queued, 0.5), "p95": percentile(queued, 0.95)},
        "slots": SLOTS,
    }
    write_meta(cell, folder, observed, more)
