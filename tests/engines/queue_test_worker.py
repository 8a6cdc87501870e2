"""The worker of the message queue: queue_test_worker.py BROKER GATE OPTIONS. See common.py for what it does.

It is the example's, with the tests' calls. Writes what it parks, and how long each task held its slot.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from python_steps import RPC_TIMEOUT_S, Sender
from queue_worker import TASKS, Worker

import fairgate


class TestWorker(Worker):
    """A task is one call of Work; the next one follows it."""

    def __init__(self, options: dict[str, Any], gate: fairgate.AsyncGate, channel: AbstractChannel) -> None:
        super().__init__(gate, channel, max_hold_s=options["max_hold_s"])
        self._options = options
        self._sender = Sender(options)
        self._parked: set[AbstractIncomingMessage] = set()

    async def _take(self, message: AbstractIncomingMessage) -> None:
        began = time.monotonic()
        if self._options["mode"] == "naive":
            work = json.loads(message.body)
            await self._sender.naive(work, message.message_id or "")
            return await self.finish(message, work, None)
        await super()._take(message)
        if message in self._parked:
            self._parked.remove(message)
            print(f"held {1000 * (time.monotonic() - began):.2f} ms, deferred", flush=True)
        return None

    async def call(self, call: fairgate.AsyncCall, task: dict[str, Any]) -> None:
        await self._sender.admitted(task, call)

    async def park(self, message: AbstractIncomingMessage, task: dict[str, Any], attempt: int, delay_ms: int) -> None:
        await super().park(message, task, attempt, delay_ms)
        self._parked.add(message)
        print(f"parked {task['work']}", flush=True)

    async def finish(self, message: AbstractIncomingMessage, task: dict[str, Any], result: Any) -> None:
        print(f"finished {task['work']}", flush=True)
        if task["calls"] == 1 or result is not None:
            return await super().finish(message, task, result)
        following = {**task, "calls": task["calls"] - 1}
        message.message_id = f"{task['work']}/{following['calls']}"
        return await self._instead_of(message, TASKS, following)


async def main(broker: str, gate_address: str, options: dict[str, Any]) -> None:
    connection = await aio_pika.connect(broker)
    async with fairgate.AsyncGate(gate_address, fairgate.GateOptions(rpc_timeout=RPC_TIMEOUT_S)) as gate:
        channel = await connection.channel(publisher_confirms=False)
        worker = asyncio.ensure_future(TestWorker(options, gate, channel).run(options["slots"]))
        print("ready", flush=True)
        await worker


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3], json.loads(sys.argv[3])))
