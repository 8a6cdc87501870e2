"""A Restate service whose calls share a quota: restate_service.py [GATE [TARGET [PORT]]].

Register it and call it, with Restate's server on its default ports:

    curl 127.0.0.1:9070/deployments --json '{"uri": "http://127.0.0.1:9080"}'
    curl 127.0.0.1:8080/Summaries/summarize --json '{"tenant": "acme", "documents": ["one", "two", "three"]}'
"""

import asyncio
import sys
from datetime import timedelta
from typing import TypedDict

import hypercorn.asyncio
import restate

import fairgate
from fairgate.restate import Rejected, RestateGate


class Order(TypedDict):
    """Whose documents to summarize."""

    tenant: str
    documents: list[str]


def summaries(gate: RestateGate, target: str) -> restate.Service:
    """The service. With an inactivity timeout of 0 an invocation is suspended as soon as it sleeps."""
    service = restate.Service("Summaries", inactivity_timeout=timedelta(0))

    @service.handler()
    async def summarize(ctx: restate.Context, order: Order) -> list[str]:
        lines = []
        for document in order["documents"]:

            async def ask_the_provider(call: fairgate.AsyncCall, document: str = document) -> str:
                await asyncio.sleep(0.02)  # here goes the external call
                response = {"text": f"{document}: short", "usage": {"total_tokens": 640}}
                call.settle(response=response)
                return str(response["text"])

            try:
                line = await gate.run(
                    ctx,
                    "ask the provider",
                    ask_the_provider,
                    target=target,
                    tenant=order["tenant"],
                    deadline=600,
                    options=restate.RunOptions(max_attempts=3),
                    tokens=900,
                )
            except Rejected as rejected:
                line = f"{document}: {rejected.reason.value}"
            lines.append(line)
        return lines

    return service


async def main(address: str, target: str, port: str) -> None:
    """Serves until it is interrupted."""
    config = hypercorn.Config()
    config.bind = [f"127.0.0.1:{port}"]
    async with fairgate.AsyncGate(address) as gate:
        app = restate.app([summaries(RestateGate(gate), target)])
        await hypercorn.asyncio.serve(app, config)  # type: ignore[arg-type]  # an ASGI application


if __name__ == "__main__":
    defaults = ["127.0.0.1:50051", "openai-prod", "9080"]
    asyncio.run(main(*sys.argv[1:], *defaults[len(sys.argv) - 1 :]))
