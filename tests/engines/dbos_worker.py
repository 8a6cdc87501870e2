"""The Python worker on DBOS: dbos_worker.py DATABASE GATE OPTIONS. See common.py for what it does.

Workflows wait in the queue "works", which is not limited; calls go through "calls", whose slots are the worker's.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from dbos import DBOS, DBOSConfig
from python_steps import RPC_TIMEOUT_S, Sender, question_of

import fairgate
from fairgate.dbos import DBOSGate

POLLING_INTERVAL_S = 0.05

DATABASE, GATE, OPTIONS = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
CONFIG: DBOSConfig = {
    "name": "fairgate-tests",
    "system_database_url": DATABASE,
    "application_version": "1",
    "executor_id": "worker",
    "console_log_level": "WARNING",
    "notification_listener_polling_interval_sec": POLLING_INTERVAL_S,
}
sender = Sender(OPTIONS)
gate = DBOSGate(
    fairgate.AsyncGate(GATE, fairgate.GateOptions(rpc_timeout=RPC_TIMEOUT_S)), max_hold=OPTIONS["max_hold_s"]
)


@gate.step(
    queue="calls",
    polling_interval=POLLING_INTERVAL_S,
    options={"retries_allowed": True, "interval_seconds": 0.1, "max_attempts": 3},
)
async def call(call: fairgate.AsyncCall, work: dict[str, Any]) -> None:
    await sender.admitted(work, call)


@DBOS.step()
async def naive_step(work: dict[str, Any]) -> None:
    await sender.naive(work, f"{DBOS.workflow_id}/{DBOS.step_id}")


@DBOS.workflow()
async def naive(work: dict[str, Any]) -> None:
    await naive_step(work)


@DBOS.workflow()
async def calls(work: dict[str, Any]) -> None:
    for _ in range(work["calls"]):
        if OPTIONS["mode"] == "naive":
            handle = await DBOS.enqueue_workflow_async("calls", naive, work)
            await handle.get_result(polling_interval_sec=POLLING_INTERVAL_S)
        else:
            await call.run(work, **question_of(work))


@DBOS.step()
async def now() -> float:
    return time.time()


@DBOS.workflow()
async def sleep(delay_ms: float) -> float:
    """How long a sleep took."""
    began = await now()
    await DBOS.sleep_async(delay_ms / 1000)
    return await now() - began


async def main() -> None:
    DBOS(config=CONFIG)
    DBOS.launch()
    await DBOS.register_queue_async("works", polling_interval_sec=POLLING_INTERVAL_S, on_conflict="always_update")
    await DBOS.register_queue_async(
        "calls",
        worker_concurrency=OPTIONS["slots"],
        polling_interval_sec=POLLING_INTERVAL_S,
        on_conflict="always_update",
    )
    print("ready", flush=True)
    await asyncio.Event().wait()  # until it is killed


if __name__ == "__main__":
    asyncio.run(main())
