"""Temporal as an engine of scenarios.py: its development server, and a worker in one language."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from commands import run
from common import (
    BUILD_DIR,
    CLIENT_PATH,
    HERE,
    Gate,
    Program,
    Upstream,
    Work,
    WorkerOptions,
    eventually,
    free_port,
    stopping,
)
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import History
from temporalio.client import Client, WorkflowHandle, WorkflowHistory

START_TIMEOUT_S = 30
_T = TypeVar("_T")


class Server:
    """The development server, and a client of it whose loop runs on a thread."""

    def __init__(self, folder: pathlib.Path, dynamic_config: dict[str, str] | None = None) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        binary = pathlib.Path(sys.executable).parent / "temporal"
        command: list[object] = [binary, "server", "start-dev", "--headless", "--log-level", "error"]
        command += ["--ip", "127.0.0.1", "--port", self.address.split(":")[1]]
        # One partition: what a worker polls first is what was scheduled first.
        config = {"matching.numTaskqueueReadPartitions": "1", "matching.numTaskqueueWritePartitions": "1"}
        for key, value in {**config, **(dynamic_config or {})}.items():
            command += ["--dynamic-config-value", f"{key}={value}"]
        self._program = Program(command, folder / "temporal.log")
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.client: Client = eventually("the server answers", self._connected, START_TIMEOUT_S)

    def _connected(self) -> Client | None:
        assert self._program.running, self._program.text()
        with contextlib.suppress(RuntimeError):
            return self.run(Client.connect(self.address))
        return None

    def run(self, work: Coroutine[Any, Any, _T], timeout_s: float = 60) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._program.stop()


@dataclasses.dataclass(frozen=True)
class Language:
    """How to start its worker: `run SERVER QUEUE GATE OPTIONS`, or `replay JSON BYTES`, a history in both forms."""

    name: str
    command: list[object]
    env: dict[str, str]


def python() -> Language:
    path = os.pathsep.join([CLIENT_PATH, os.environ.get("PYTHONPATH", "")])  # another release of the SDK, for example
    return Language("python", [sys.executable, HERE / "temporal_worker.py"], {"PYTHONPATH": path})


def go() -> Language:
    """Built here: Go's cache makes that quick when nothing has changed."""
    program = BUILD_DIR / "engines" / "temporal_go"
    program.parent.mkdir(parents=True, exist_ok=True)
    run(HERE / "temporal_go_build.sh", BUILD_DIR / "engines" / "go", program)
    return Language("go", [program], {})


def typescript() -> Language:
    """Beside the built package, so that its name means that one; the workflow is bundled once."""
    stage = BUILD_DIR / "client-typescript"
    folder = stage / "engines"
    folder.mkdir(exist_ok=True)
    for file in ("temporal_worker.mjs", "temporal_workflow.mjs"):
        shutil.copy(HERE / file, folder)
    command: list[object] = [stage / "node", folder / "temporal_worker.mjs"]
    run(*command, "bundle")
    return Language("typescript", command, {})


def java() -> Language:
    """With the client as its tests have built it, Temporal's SDK included."""
    program = BUILD_DIR / "engines" / "temporal_java"
    program.parent.mkdir(parents=True, exist_ok=True)
    run(HERE / "temporal_java_build.sh", BUILD_DIR / "client-java", BUILD_DIR / "engines" / "java", program)
    return Language("java", [program], {})


LANGUAGES: dict[str, Callable[[], Language]] = {"python": python, "go": go, "typescript": typescript, "java": java}


def output_of(*command: object, env: dict[str, str]) -> str:
    """What the program printed. Temporal's SDK for Python now and then ends the process by a signal when the program is
    over and all is said; so what it said tells whether it worked."""
    parts = [str(part) for part in command]
    done = subprocess.run(parts, capture_output=True, check=False, text=True, timeout=300, env=env)
    over = (0, -signal.SIGABRT, -signal.SIGSEGV)
    assert done.returncode in over and "Traceback" not in done.stderr, f"{parts}: {done}"
    return done.stdout


class Temporal:
    """See common.Engine."""

    def __init__(
        self, server: Server, language: Language, gate: Gate, upstream: Upstream, folder: pathlib.Path
    ) -> None:
        self.name = f"temporal-{language.name}"
        self.gate, self.upstream = gate, upstream
        self._server, self._language, self._folder = server, language, folder
        self._queue = f"{self.name}-{free_port()}"
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def worker(self, options: WorkerOptions) -> Iterator[Program]:
        log = self._folder / f"worker-{next(self._numbers)}.log"
        arguments = ["run", self._server.address, self._queue, self.gate.address]
        command = [*self._language.command, *arguments, json.dumps(dataclasses.asdict(options))]
        with stopping(Program(command, log, self._language.env)) as program:
            program.wait_for("^ready")
            yield program

    def submit(self, work: Work) -> WorkflowHandle[Any, Any]:
        started = self._server.client.start_workflow("Calls", work.json(), id=work.work, task_queue=self._queue)
        return self._server.run(started)

    def wait(self, handle: WorkflowHandle[Any, Any], timeout_s: float) -> Any:
        return self._server.run(handle.result(), timeout_s)

    def asleep(self, handle: WorkflowHandle[Any, Any]) -> bool:
        counts = self.events(handle)
        return counts["TIMER_STARTED"] > counts["TIMER_FIRED"]

    # For Temporal's own tests

    def history(self, handle: WorkflowHandle[Any, Any]) -> WorkflowHistory:
        return self._server.run(handle.fetch_history())

    def events(self, handle: WorkflowHandle[Any, Any]) -> collections.Counter[str]:
        """How many of each type."""
        history = self.history(handle)
        return collections.Counter(EventType.Name(event.event_type)[len("EVENT_TYPE_") :] for event in history.events)

    def replay(self, handle: WorkflowHandle[Any, Any]) -> str:
        """In a process of its own; what it says."""
        history = self.history(handle)
        json_file = self._folder / f"history-{next(self._numbers)}.json"
        json_file.write_text(history.to_json())
        bytes_file = json_file.with_suffix(".bin")
        bytes_file.write_bytes(History(events=history.events).SerializeToString())
        command = (*self._language.command, "replay", json_file, bytes_file)
        return output_of(*command, env={**os.environ, **self._language.env})

    def beside(self, language: Language) -> Temporal:
        """For a worker in another language on the same task queue."""
        other = Temporal(self._server, language, self.gate, self.upstream, self._folder)
        other._queue, other._numbers = self._queue, self._numbers
        return other

    def cancel(self, handle: WorkflowHandle[Any, Any]) -> None:
        self._server.run(handle.cancel())
