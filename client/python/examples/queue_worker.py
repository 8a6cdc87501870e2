"""A worker of a RabbitMQ queue whose calls share a quota: queue_worker.py [BROKER [GATE [SLOTS]]].

Takes tasks from the queue "calls" (JSON: target, tenant, priority, tokens, prompt; each with a message_id), and puts
what came out of them into "results". Who is deferred is parked in a queue of its own delay, from which the broker takes
it back to "calls": meanwhile it has no slot. ../../ADAPTERS.md tells why it is done like this.
"""

from __future__ import annotations

import asyncio
import bisect
import json
import sys
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

import fairgate
from fairgate.durable import Deferral, Done, StepQuestion, Steps

TASKS, RESULTS = "calls", "results"
ATTEMPTS_MAX = 3
RETRY_MS = 100
# Delays are rounded up to these, which grow by a quarter at most: 16 ms to 7.6 minutes. Each has its queue.
DELAYS_MS = tuple(quarters << octave for octave in range(2, 17) for quarters in range(4, 8))


async def call_the_provider(call: fairgate.AsyncCall, task: dict[str, Any]) -> str:
    """Stands for the external call."""
    await asyncio.sleep(0.02)
    call.settle(response={"usage": {"total_tokens": 640}})
    return str(task["prompt"]).upper()


class Worker:
    """One channel, on which so many tasks are unacknowledged as there are slots."""

    def __init__(self, gate: fairgate.AsyncGate, channel: AbstractChannel, *, max_hold_s: float = 0.0) -> None:
        self._steps = Steps(gate)
        self._channel = channel
        self._max_hold_s = max_hold_s
        self._transaction = asyncio.Lock()  # there is one per channel
        self._uncommitted: list[
            tuple[AbstractIncomingMessage, aio_pika.Message, str, asyncio.Future[None]]
        ] = []  # acknowledged, published, where to, and who waits for it

    async def run(self, slots: int) -> None:
        """Until the channel is closed, as it is when the broker goes away: then begin anew."""
        await self._channel.set_qos(prefetch_count=slots)
        queue = await self._channel.declare_queue(TASKS, durable=True)
        await self._channel.declare_queue(RESULTS, durable=True)
        # All that wait in one queue wait equally long: a broker looks for what has expired at a queue's head only. They
        # are made beforehand, because a durable queue takes the broker longer than a task.
        back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": TASKS}
        for delay_ms in DELAYS_MS:
            await self._channel.declare_queue(
                parking(delay_ms), durable=True, arguments={"x-message-ttl": delay_ms, **back}
            )
        await queue.consume(self._take)
        await self._channel.closed()

    async def call(self, call: fairgate.AsyncCall, task: dict[str, Any]) -> Any:
        """What a task is about."""
        return await call_the_provider(call, task)

    async def finish(self, message: AbstractIncomingMessage, task: dict[str, Any], result: Any) -> None:
        """The task's end."""
        await self._instead_of(message, RESULTS, {"task": message.message_id, "result": result})

    async def park(self, message: AbstractIncomingMessage, task: dict[str, Any], attempt: int, delay_ms: int) -> None:
        """Back to the broker for a time."""
        await self._instead_of(message, parking(rounded_up(delay_ms)), task, attempt)

    async def _take(self, message: AbstractIncomingMessage) -> None:
        task = json.loads(message.body)
        attempt = int(str(message.headers.get("attempt", 1)))
        question = StepQuestion(
            target=task["target"],
            tenant=task["tenant"],
            priority=task.get("priority", ""),
            cost={"tokens": task["tokens"]} if "tokens" in task else {},
            request_id=message.message_id or "",
            upper_bound=False,
            tells_sent=False,
            timer_floor=DELAYS_MS[0] / 1000,
            max_hold=self._max_hold_s,
            due_at=None,
        )
        try:
            outcome = await self._steps.do(question, attempt, lambda call: self._called(call, task))
        except CallFailed as failed:
            if failed.attempt >= ATTEMPTS_MAX:
                await self.finish(message, task, {"error": str(failed)})
            else:
                await self.park(message, task, failed.attempt + 1, RETRY_MS)
            return
        if isinstance(outcome, Deferral):
            await self.park(message, task, outcome.attempt, outcome.delay_ms)
        elif isinstance(outcome, Done):
            await self.finish(message, task, outcome.result)
        else:
            await self.finish(message, task, {"error": f"{outcome.reason}: {outcome.message}"})

    async def _called(self, call: fairgate.AsyncCall, task: dict[str, Any]) -> Any:
        try:
            return await self.call(call, task)
        except Exception as error:
            raise CallFailed(str(error), call.attempt) from error

    async def _instead_of(
        self, message: AbstractIncomingMessage, queue: str, body: dict[str, Any], attempt: int = 1
    ) -> None:
        """Both or none: a worker that dies in between leaves neither a task lost nor one doubled."""
        instead = aio_pika.Message(
            json.dumps(body).encode(),
            message_id=message.message_id,
            headers={"attempt": attempt},
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        committed = asyncio.get_running_loop().create_future()
        self._uncommitted.append((message, instead, queue, committed))
        async with self._transaction:
            if not committed.done():
                await self._commit()
        await committed

    async def _commit(self) -> None:
        """All at once that came up during the last commit, which is a write to the broker's disk."""
        batch, self._uncommitted = self._uncommitted, []
        try:
            async with self._channel.transaction():
                for message, instead, queue, _ in batch:
                    await self._channel.default_exchange.publish(instead, routing_key=queue)
                    await message.ack()
        except BaseException:  # the broker gives the tasks to others
            for *_, committed in batch:
                committed.cancel()
            raise
        for *_, committed in batch:
            committed.set_result(None)


class CallFailed(Exception):
    """The external call ended with an error; what it used is settled."""

    def __init__(self, message: str, attempt: int) -> None:
        super().__init__(message)
        self.attempt = attempt


def rounded_up(delay_ms: int) -> int:
    """To the next delay that has a queue; what is longer than the longest is asked again in between."""
    return DELAYS_MS[min(bisect.bisect_left(DELAYS_MS, delay_ms), len(DELAYS_MS) - 1)]


def parking(delay_ms: int) -> str:
    """The queue of that delay."""
    return f"{TASKS}.in.{delay_ms}ms"


async def main(broker: str, gate_address: str, slots: str) -> None:
    """Until it is interrupted."""
    connection = await aio_pika.connect(broker)
    async with connection, fairgate.AsyncGate(gate_address) as gate:
        channel = await connection.channel(publisher_confirms=False)  # transactions take their place
        await Worker(gate, channel).run(int(slots))


if __name__ == "__main__":
    defaults = ["amqp://guest:guest@127.0.0.1/", "127.0.0.1:50051", "10"]
    asyncio.run(main(*sys.argv[1:], *defaults[len(sys.argv) - 1 :]))
