"""Calls something with a quota, with the gate's permission: call_with_admission.py [ADDRESS [TARGET [TENANT]]]."""

import asyncio
import sys

import fairgate


async def call_the_provider(number: int) -> dict[str, object]:
    """Stands for the external call, and answers as OpenAI's API does."""
    await asyncio.sleep(0.02)
    return {"id": number, "usage": {"total_tokens": 640}}


async def main(address: str, target: str, tenant: str) -> None:
    """One line per call, and whether it was granted or deferred."""
    async with fairgate.AsyncGate(address) as gate:
        for number in range(1, 6):
            try:
                async with gate.admit(target=target, tenant=tenant, tokens=900) as call:
                    response = await call_the_provider(number)
                    call.settle(response=response)
                print(f"call {number}: granted{', degraded' if call.degraded else ''}")
            except fairgate.Deferred as deferred:
                # A worker of an engine gives its slot back here, and asks again with deferred.request_id.
                print(f"call {number}: deferred by {deferred.delay.total_seconds():.3f} s")
            except fairgate.Rejected as rejected:
                print(f"call {number}: rejected: {rejected.message}")


if __name__ == "__main__":
    defaults = ["127.0.0.1:50051", "openai-prod", "acme"]
    arguments = sys.argv[1:] + defaults[len(sys.argv) - 1 :]
    asyncio.run(main(*arguments))
