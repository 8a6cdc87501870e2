"""Starts the programs under measurement and ends them by their process ids."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence

import grpc

from stubs import BUILD_DIR, admin_pb2, admin_pb2_grpc
from workloads import CLASS_WEIGHTS, Workload

START_TIMEOUT = 20.0  # seconds
STOP_TIMEOUT = 10.0
TARGET = "mock"
_HERE = pathlib.Path(__file__).resolve().parent


async def stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()


@dataclasses.dataclass(frozen=True)
class Upstream:
    url: str
    pid: int


@dataclasses.dataclass(frozen=True)
class Gate:
    channel: grpc.aio.Channel
    address: str
    pid: int
    store_socket: pathlib.Path


@contextlib.asynccontextmanager
async def upstream_process(
    workload: Workload, model: str, seed: int, options: Sequence[str] = ()
) -> AsyncIterator[Upstream]:
    """The mock in a process of its own, so that it does not share the driver's loop."""
    arguments = [f"--model={model}", f"--seed={seed}", *options]
    arguments += [f"--{name}={limit}" for name, limit in workload.caps.items()]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_HERE / "upstream.py"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), START_TIMEOUT)
        if not line.strip():
            raise RuntimeError("the upstream did not start")
        yield Upstream(f"http://127.0.0.1:{int(line)}", process.pid)
    finally:
        await stop(process)


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a target's policy says beside its caps."""

    discipline: str = "queue"
    as_written: bool = False  # the paper's plain buckets of one window, whatever the provider counts by
    equal_classes: bool = False
    learns_phase: bool = False  # where windows begin is not told, but learnt from the headers that Release carries


def policy_text(workload: Workload, model: str, rule: Rule) -> str:
    """The policy file: caps, 1 s windows with their model told (and, unless it is to be learnt, their phase), and class weights."""
    lines = ["targets:", f"  - name: {TARGET}"]
    lines += [f"    discipline: DISCIPLINE_{rule.discipline.upper()}", "    dimensions:"]
    told = "continuous" if rule.as_written else "fixed_learnt" if rule.learns_phase else model
    for name, limit in workload.caps.items():
        lines += [f"      - name: {name}", f"        limit: {limit:.12g}"]
        lines += ["        window: 1s", f"        window_model: WINDOW_MODEL_{told.upper()}"]
        if rule.as_written:
            lines += ["        rate_fraction: 1", "        burst_fraction: 1"]
    lines.append("    classes:")
    for name, weight in CLASS_WEIGHTS.items():
        lines += [f"      - name: {name}", f"        weight: {1 if rule.equal_classes else weight:g}"]
    return "\n".join(lines) + "\n"


def server_binary() -> pathlib.Path:
    binary = BUILD_DIR / "bin" / "fairgate-server"
    if not binary.exists():
        raise FileNotFoundError(f"{binary} is missing: build it, or set FAIRGATE_BUILD_DIR")
    return binary


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _ready(
    channel: grpc.aio.Channel, process: asyncio.subprocess.Process, log: pathlib.Path
) -> None:
    """Until the server knows the target of the policy file."""
    admin = admin_pb2_grpc.AdminServiceStub(channel)
    last = "no answer"
    for _ in range(int(START_TIMEOUT / 0.1)):
        if process.returncode is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{log.read_text()}")
        try:
            answer = await admin.ListTargets(admin_pb2.ListTargetsRequest(), timeout=1)
            if TARGET in answer.targets:
                return
            last = f"targets {list(answer.targets)}"
        except grpc.aio.AioRpcError as error:
            last = f"{error.code().name}: {error.details()}"
        await asyncio.sleep(0.1)
    raise RuntimeError(f"the server is not ready ({last}):\n{log.read_text()}")


@contextlib.asynccontextmanager
async def gate_process(workload: Workload, model: str, rule: Rule) -> AsyncIterator[Gate]:
    """A fairgate-server with an embedded store, in a directory that goes with it."""
    binary = server_binary()
    with tempfile.TemporaryDirectory(prefix="fairgate-eval-") as folder:
        root = pathlib.Path(folder)
        (root / "state").mkdir()
        (root / "server.yaml").write_text("{}\n")
        (root / "policy.yaml").write_text(policy_text(workload, model, rule))
        address = f"127.0.0.1:{free_port()}"
        with (root / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                str(binary),
                f"--config={root / 'server.yaml'}",
                f"--listen={address}",
                f"--metrics-listen=127.0.0.1:{free_port()}",
                f"--state-dir={root / 'state'}",
                f"--policy-file={root / 'policy.yaml'}",
                "--store=embedded",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            async with grpc.aio.insecure_channel(address) as channel:
                await _ready(channel, process, root / "log")
                yield Gate(channel, address, process.pid, root / "state" / "valkey.sock")
        finally:
            await stop(process)
