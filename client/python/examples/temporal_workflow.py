"""Calls of two tenants through one slot of a Temporal worker: temporal_workflow.py [SERVER [GATE [TARGET]]].

Who is deferred sleeps in its workflow and gives the slot to whoever may go.
"""

import asyncio
import sys
import time
import uuid
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    import fairgate
    from fairgate.temporal import FairgateInterceptor, of_activity


class Provider:
    """The activities, with what they need."""

    def __init__(self, gate: fairgate.AsyncGate, target: str) -> None:
        self._gate, self._target = gate, target

    @activity.defn
    async def complete(self, tenant: str) -> int:
        """The tokens that one call used."""
        async with self._gate.admit(target=self._target, tenant=tenant, tokens=900, **of_activity()) as call:
            await asyncio.sleep(0.02)  # stands for the external call, which answers as OpenAI's API does
            call.settle(response={"usage": {"total_tokens": 640}})
        return 640


@workflow.defn
class Completions:
    """So many calls of a tenant, one after the other."""

    @workflow.run
    async def run(self, tenant: str, calls: int) -> int:
        """The tokens used."""
        used = 0
        for _ in range(calls):
            used += await workflow.execute_activity_method(
                Provider.complete, tenant, start_to_close_timeout=timedelta(seconds=30)
            )
        return used


async def main(server: str, gate_address: str, target: str) -> None:
    """One line per tenant."""
    client = await Client.connect(server)
    queue = f"completions-{uuid.uuid4().hex}"
    async with (
        fairgate.AsyncGate(gate_address) as gate,
        Worker(
            client,
            task_queue=queue,
            workflows=[Completions],
            activities=[Provider(gate, target).complete],
            interceptors=[FairgateInterceptor()],
            max_concurrent_activities=1,
        ),
    ):
        began = time.monotonic()

        async def run(tenant: str, calls: int) -> None:
            used = await client.execute_workflow(
                Completions.run, args=[tenant, calls], id=f"{queue}/{tenant}", task_queue=queue
            )
            print(f"{tenant}: {calls} calls, {used} tokens, {time.monotonic() - began:.1f} s")

        await asyncio.gather(run("acme", 6), run("globex", 2))


if __name__ == "__main__":
    defaults = ["127.0.0.1:7233", "127.0.0.1:50051", "openai-prod"]
    arguments = sys.argv[1:] + defaults[len(sys.argv) - 1 :]
    asyncio.run(main(*arguments))
