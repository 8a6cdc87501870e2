"""Tenants and classes share a quota: the same load without a gate and behind it, side by side."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import signal
import time

from arms import Asking, GateArm, Http, NaiveArm
from driver import drive, http_session
from servers import TARGET, Rule, gate_process, server_binary, upstream_process
from summary import Summary, as_json, summarize, table
from windows import MODELS
from workloads import WORKLOADS, Workload

WARM_UP = 3.0  # seconds
RULES = {"fairgate": Rule(), "bp": Rule("buckets", as_written=True)}
ARMS = ("naive", *RULES)


async def run_arm(
    name: str, workload: Workload, model: str, seconds: float, seed: int, options: list[str]
) -> Summary:
    """One arm against an upstream, and a gate, of its own."""
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(upstream_process(workload, model, seed, options))
        http = Http(upstream.url, await stack.enter_async_context(http_session()))
        if name == "naive":
            arm: NaiveArm | GateArm = NaiveArm(http, seed)
        else:
            gate = await stack.enter_async_context(gate_process(workload, model, RULES[name]))
            asking = Asking(tells_429=not RULES[name].as_written)
            arm = GateArm(http, gate.channel, TARGET, workload, f"{name}-{seed}", asking)
        start = time.monotonic() + WARM_UP
        run = await drive(arm, workload, WARM_UP + seconds, seed)
        return summarize(run.records, workload, start, start + seconds)


async def run(options: argparse.Namespace) -> dict[str, Summary]:
    # A terminated demo ends what it started, too.
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    workload = WORKLOADS[options.workload]
    caps = ", ".join(f"{limit:g} {name}/s" for name, limit in workload.caps.items())
    print(f"{workload.name}: cap {caps}, {options.window} windows of 1 s", flush=True)
    for tenant in workload.tenants:
        print(f"  {tenant.name} in class {tenant.priority}: {tenant.concurrency} workflows")
    results = {}
    extra = ["--count-rejected"] if options.count_rejected else []
    for name in options.arms:
        print(f"{name}: {WARM_UP:g} s warm-up, then {options.seconds:g} s ...", flush=True)
        results[name] = await run_arm(
            name, workload, options.window, options.seconds, options.seed, extra
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=list(WORKLOADS), default="cross-priority")
    parser.add_argument("--window", choices=list(MODELS), default="fixed", help="window model")
    parser.add_argument("--seconds", type=float, default=20.0, help="measured, per arm")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["naive", "fairgate"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count-rejected", action="store_true", help="429s count against the cap")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures, too")
    options = parser.parse_args()
    if set(options.arms) - {"naive"}:
        try:
            server_binary()
        except FileNotFoundError as error:
            parser.error(str(error))
    try:
        results = asyncio.run(run(options))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise SystemExit(130) from None
    print()
    print(table(results))
    if options.json:
        report = {
            "workload": options.workload,
            "window": options.window,
            "seconds": options.seconds,
            "seed": options.seed,
            "count_rejected": options.count_rejected,
            "cores": os.cpu_count(),
            "arms": {name: as_json(summary) for name, summary in results.items()},
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
