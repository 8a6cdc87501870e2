"""Temporal's development server, in memory, on a free port."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
import sys
import tempfile
from collections.abc import AsyncIterator

from temporalio.client import Client

from servers import free_port, stop

START_TIMEOUT = 60.0  # seconds
QUEUE = "calls"
PROGRAM = pathlib.Path(sys.executable).parent / "temporal"
# One partition: the limit of a queue is split among them.
CONFIG = {
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
    "matching.enableFairness": "true",
}
# Without it a durable timer takes a second at least.
PRECISE_TIMERS = {"history.timerProcessorMaxTimeShift": '"1ms"'}


@dataclasses.dataclass(frozen=True)
class Temporal:
    client: Client
    address: str
    pid: int

    async def limit_activities(self, per_second: float) -> None:
        """The task queue's own limit."""
        command = ["task-queue", "config", "set", "--address", self.address, "--task-queue", QUEUE]
        command += ["--task-queue-type", "activity", "--queue-rps-limit", f"{per_second:g}"]
        command += ["--queue-rps-limit-reason", "the upstream's cap"]
        process = await asyncio.create_subprocess_exec(
            str(PROGRAM), *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"the limit is not set: {said.decode()}")


async def _connected(address: str, process: asyncio.subprocess.Process, log: pathlib.Path) -> Client:
    last: Exception | None = None
    for _ in range(int(START_TIMEOUT / 0.1)):
        if process.returncode is not None:
            break
        try:
            return await Client.connect(address)
        except RuntimeError as error:
            last = error
        await asyncio.sleep(0.1)
    raise RuntimeError(f"Temporal is not ready ({last}):\n{log.read_text()[-4000:]}")


@contextlib.asynccontextmanager
async def temporal_process(precise_timers: bool) -> AsyncIterator[Temporal]:
    with tempfile.TemporaryDirectory(prefix="fairgate-eval-") as folder:
        log = pathlib.Path(folder) / "log"
        port = free_port()
        command = ["server", "start-dev", "--headless", "--log-level", "error"]
        command += ["--ip", "127.0.0.1", "--port", str(port)]
        for key, value in (CONFIG | (PRECISE_TIMERS if precise_timers else {})).items():
            command += ["--dynamic-config-value", f"{key}={value}"]
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                str(PROGRAM), *command, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            address = f"127.0.0.1:{port}"
            yield Temporal(await _connected(address, process, log), address, process.pid)
        finally:
            await stop(process)
