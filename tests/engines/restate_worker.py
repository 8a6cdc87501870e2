"""The Python worker on Restate: restate_worker.py PORT GATE OPTIONS. See common.py for what it does.

Writes how long each attempt of an invocation held its slot, and what the gate answered meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
import time
from datetime import timedelta
from typing import Any

import hypercorn.asyncio
import restate
from python_steps import RPC_TIMEOUT_S, Sender, question_of

import fairgate
from fairgate.restate import RestateGate

_answers: contextvars.ContextVar[list[str]] = contextvars.ContextVar("answers")


def service(options: dict[str, Any], gate: RestateGate) -> restate.Service:
    retries = restate.InvocationRetryPolicy(
        initial_interval=timedelta(milliseconds=100), max_interval=timedelta(seconds=1)
    )
    # Suspended as soon as it sleeps; a naive step is never suspended.
    calls = restate.Service("Calls", inactivity_timeout=timedelta(0), invocation_retry_policy=retries)
    sender = Sender(options)

    @calls.handler("run")
    async def run(ctx: restate.Context, work: dict[str, Any]) -> None:
        async def admitted(call: fairgate.AsyncCall) -> None:
            await sender.admitted(work, call)

        async def naive() -> None:
            await sender.naive(work, ctx.request().id)

        step = restate.RunOptions[None](
            max_attempts=work["attempts_max"] or None, initial_retry_interval=timedelta(milliseconds=100)
        )
        for _ in range(work["calls"]):
            if options["mode"] == "naive":
                await ctx.run_typed("call", naive)
            else:
                await gate.run(ctx, "call", admitted, options=step, **question_of(work))

    @calls.handler("sleep")
    async def sleep(ctx: restate.Context, delay_ms: float) -> float:
        """How long a sleep took, as the worker sees it: what comes after a step in the same attempt is no replay."""

        async def now() -> float:
            return time.time()

        began = await ctx.run_typed("began", now)
        await ctx.sleep(timedelta(milliseconds=delay_ms))
        return await ctx.run_typed("ended", now) - began

    return calls


def timed(app: Any) -> Any:
    """Around each attempt of an invocation."""

    async def attempt(scope: Any, receive: Any, send: Any) -> None:
        answers: list[str] = []
        _answers.set(answers)
        began = time.monotonic()
        try:
            await app(scope, receive, send)
        finally:
            print(f"held {1000 * (time.monotonic() - began):.2f} ms, {' '.join(answers)}", flush=True)

    return attempt


def note(event: fairgate.Event) -> None:
    if isinstance(event, fairgate.AdmitEvent):
        _answers.get().append(event.outcome)


async def main(port: str, gate_address: str, options: dict[str, Any]) -> None:
    config = hypercorn.Config()
    config.bind = [f"127.0.0.1:{port}"]
    async with fairgate.AsyncGate(gate_address, fairgate.GateOptions(rpc_timeout=RPC_TIMEOUT_S, on_event=note)) as gate:
        app = restate.app([service(options, RestateGate(gate, max_hold=options["max_hold_s"]))])
        await hypercorn.asyncio.serve(timed(app), config)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3], json.loads(sys.argv[3])))
