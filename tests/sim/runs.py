"""Runs many simulations at once: a process per core, each with a Valkey of its own."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from valkey import Valkey

from .demand import TIMERS
from .engine import Conditions, Engine
from .gates import Connection, Gate, Scripts
from .jobs import Job
from .results import measure
from .scenarios import find


class Worker:
    """A connection and the scripts loaded over it."""

    def __init__(self, socket: str) -> None:
        self._connection = Connection(socket)
        self._scripts = Scripts(self._connection)

    def close(self) -> None:
        self._connection.close()

    def run(self, job: Job) -> dict[str, Any]:
        scenario = find(job.scenario, job.window, job.seconds)
        gate = None
        if job.arm != "naive":
            discipline, _, off = job.arm.partition("-")
            self._scripts.load(off)
            gate = Gate(self._connection, self._scripts, scenario, discipline)
        engine = Engine(
            scenario, gate, job.seed, Conditions(TIMERS[job.timers], job.hold, hints=not job.arm.startswith("buckets"))
        )
        began = time.perf_counter()
        engine.run()
        result = measure(engine)
        result["drain_ratio"] = engine.drain() if job.drain else None
        result["wall_s"] = time.perf_counter() - began
        return result


_worker: Worker


def _begin(sockets: Any) -> None:
    global _worker
    _worker = Worker(sockets.get())


def _run(job: Job) -> tuple[Job, dict[str, Any]]:
    return job, _worker.run(job)


def run_all(jobs: Sequence[Job], processes: int = 0) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Results in the order in which they come."""
    processes = min(len(jobs), processes or os.cpu_count() or 1)
    servers: list[Valkey] = []
    try:
        if processes <= 1:
            servers.append(Valkey())
            worker = Worker(servers[0].socket)
            for job in jobs:
                yield job, worker.run(job)
            return
        context = multiprocessing.get_context("spawn")
        sockets = context.Queue()
        for _ in range(processes):
            servers.append(Valkey())
            sockets.put(servers[-1].socket)
        with context.Pool(processes, _begin, (sockets,)) as pool:
            yield from pool.imap_unordered(_run, jobs)
    finally:
        for server in servers:
            server.stop()
