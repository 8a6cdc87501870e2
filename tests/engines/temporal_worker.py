"""The Python worker: temporal_worker.py run SERVER QUEUE GATE OPTIONS, or replay JSON BYTES; common.py has the rest."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import sys
import time
from datetime import timedelta
from typing import Any

import aiohttp
from temporalio import activity
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, Worker

from temporal_workflow import Calls

import fairgate
from fairgate.temporal import FairgateInterceptor, of_activity

RPC_TIMEOUT_S = 5.0


class Steps:
    """The activity."""

    def __init__(self, options: dict[str, Any], gate: fairgate.AsyncGate, http: aiohttp.ClientSession) -> None:
        self._options, self._gate, self._http = options, gate, http

    @activity.defn(name="call")
    async def call(self, work: dict[str, Any]) -> None:
        """One call."""
        if self._options["mode"] == "naive":
            return await self._naive(work)
        question = {"target": work["target"], "tenant": work["tenant"], "priority": work["priority"]}
        async with self._gate.admit(**question, **of_activity()) as call:
            self._die_at("granted")
            response = await self._send(work, call.request_id, call.attempt, call.degraded)
            self._die_at("answered")
            if call.attempt <= self._options["fail_sends"]:
                raise ConnectionError("the connection broke")
            call.settle(response=await response.json())
        return None

    async def _naive(self, work: dict[str, Any]) -> None:
        while True:
            response = await self._send(work, activity.info().activity_id, activity.info().attempt, False)
            if response.status == 200:
                return
            await asyncio.sleep(float(response.headers["Retry-After"]))

    async def _send(self, work: dict[str, Any], request_id: str, attempt: int, degraded: bool) -> Any:
        body = {name: work[name] for name in ("work", "tenant", "priority")}
        body |= {"request_id": request_id, "attempt": attempt, "degraded": degraded}
        response = await self._http.post(work["upstream"], json=body)
        await response.read()
        return response

    def _die_at(self, point: str) -> None:
        if self._options["die_at"] == point:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal may take a moment, in which nothing more is done


async def run(server: str, queue: str, gate_address: str, options: dict[str, Any]) -> None:
    client = await Client.connect(server)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    gate_options = fairgate.GateOptions(rpc_timeout=RPC_TIMEOUT_S)
    async with fairgate.AsyncGate(gate_address, gate_options) as gate, aiohttp.ClientSession() as http:
        steps = Steps(options, gate, http)
        interceptor = FairgateInterceptor(timer_floor=options["timer_floor_s"], max_hold=options["max_hold_s"])
        async with Worker(
            client,
            task_queue=queue,
            workflows=[] if options["part"] == "steps" else [Calls],
            activities=[] if options["part"] == "workflows" else [steps.call],
            interceptors=[interceptor],
            max_concurrent_activities=options["slots"],
            sticky_queue_schedule_to_start_timeout=timedelta(
                seconds=1
            ),  # for those who wait until a killed one is missed
        ):
            print("ready", flush=True)
            await ended.wait()


async def replay(history: str) -> None:
    replayer = Replayer(workflows=[Calls], interceptors=[FairgateInterceptor()])
    await replayer.replay_workflow(WorkflowHistory.from_json("replayed", pathlib.Path(history).read_text()))
    print("replayed", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "replay":
        asyncio.run(replay(sys.argv[2]))
    else:
        asyncio.run(run(*sys.argv[2:5], json.loads(sys.argv[5])))
