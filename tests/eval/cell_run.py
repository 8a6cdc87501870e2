"""Runs one cell without an engine and leaves its raw records behind."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import time
from typing import Any

import records
from arms import Arm, GateArm, Http, NaiveArm
from cells import TRACE, Cell
from driver import Run, drive, drive_trace, http_session
from litellm_proxy import proxy_process
from machine import Load, Watch, facts
from measures import percentile
from servers import TARGET, gate_process, upstream_process
from store import ScriptTimes

RECORDS, ANSWERS, META = "records.jsonl", "answers.txt", "meta.json"


@dataclasses.dataclass
class Observed:
    """What is seen of a cell beside its records."""

    load: Load
    script_ms: dict[str, float]


async def observe(begin: float, end: float, pids: dict[str, int], store: pathlib.Path | None) -> Observed:
    """Between two moments of the monotonic clock."""
    await asyncio.sleep(begin - time.monotonic())
    times = ScriptTimes(store) if store else None
    if times:
        await times.begin()
    watch = Watch(pids)
    await asyncio.sleep(end - time.monotonic())
    return Observed(watch.load(), await times.end() if times else {})


def write_meta(
    cell: Cell, folder: pathlib.Path, observed: Observed, more: dict[str, Any]
) -> None:
    """Times are seconds since the cell began, as in its other files."""
    meta = {
        "cell": dataclasses.asdict(cell),
        "begin": cell.warm_up,
        "end": cell.warm_up + cell.seconds,
        "load": dataclasses.asdict(observed.load),
        "script_ms": observed.script_ms,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": facts(),
    }
    (folder / META).write_text(json.dumps(meta | more, indent=1) + "\n")


def rebase_answers(folder: pathlib.Path, zero: float) -> None:
    """The upstream's log counts from the machine's start; `zero` is the cell's."""
    path = folder / ANSWERS
    lines = (line.split() for line in path.read_text().splitlines())
    path.write_text("".join(f"{float(at) - zero:.5f} {status}\n" for at, status in lines))


def upstream_options(cell: Cell, folder: pathlib.Path) -> list[str]:
    """LiteLLM takes Retry-After for seconds, as HTTP says, and would sleep a thousand times too long."""
    seconds = ["--hint-in-seconds"] if cell.arm == "litellm" else []
    return [f"--log={folder / ANSWERS}", *seconds]


async def _drive(cell: Cell, folder: pathlib.Path) -> tuple[Run, float, Observed]:
    load = cell.load
    async with contextlib.AsyncExitStack() as stack:
        options = upstream_options(cell, folder)
        upstream = await stack.enter_async_context(
            upstream_process(load, cell.window, cell.repeat, options)
        )
        pids = {"driver": os.getpid(), "upstream": upstream.pid}
        store = None
        session = await stack.enter_async_context(http_session())
        arm: Arm = NaiveArm(Http(upstream.url, session), cell.repeat)
        if cell.arm == "litellm":
            proxy = await stack.enter_async_context(proxy_process(load, upstream))
            pids["proxy"] = proxy.pid
            arm = NaiveArm(Http(proxy.url, session), cell.repeat)
        elif cell.how.rule:
            gate = await stack.enter_async_context(gate_process(load, cell.window, cell.how.rule))
            pids["gate"], store = gate.pid, gate.store_socket
            http = Http(upstream.url, session)
            arm = GateArm(http, gate.channel, TARGET, load, cell.name, cell.how.asking)
        zero = time.monotonic()
        end = zero + cell.warm_up + cell.seconds
        watching = asyncio.create_task(observe(zero + cell.warm_up, end, pids, store))
        if cell.workload == TRACE:
            run = await drive_trace(arm, load, end - zero, cell.repeat)
        else:
            run = await drive(arm, load, end - zero, cell.repeat, cell.drain)
        return run, zero, await watching


async def run_cell(cell: Cell, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    run, zero, observed = await _drive(cell, folder)
    records.write(folder / RECORDS, run.records, zero)
    rebase_answers(folder, zero)
    late = [seconds * 1000 for seconds in run.late]
    more = {
        "drain_begin": run.drain_begin - zero if run.drain_begin else None,
        "timer_late_ms": {"p50": percentile(late, 0.5), "p99": percentile(late, 0.99)},
    }
    write_meta(cell, folder, observed, more)


def main() -> None:
    """As a program of its own, so that its use of the machine is the load generator's."""
    cell = Cell(**json.loads(sys.argv[1]))
    folder = pathlib.Path(sys.argv[2])
    if cell.stack == "temporal":
        from temporal_cell import run_cell as run
    else:
        run = run_cell
    asyncio.run(run(cell, folder))


if __name__ == "__main__":
    main()
