"""DBOS as an engine of scenarios.py: a PostgreSQL of its own, and a worker in one language."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

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
from dbos import DBOSClient, WorkflowHandle, WorkflowSerializationFormat

APPLICATION = "fairgate-tests"
_PG_BIN_PATTERN = "/usr/lib/postgresql/*/bin"


class Database:
    """PostgreSQL, which does not run as root: then it is user postgres's."""

    def __init__(self) -> None:
        versions = pathlib.Path("/").glob(_PG_BIN_PATTERN.lstrip("/"))
        self._bin = max(versions, key=lambda path: int(path.parent.name))
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="fairgate-pg-"))
        self._as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self._as_user:
            shutil.chown(self._folder, "postgres")
        port = free_port()
        self._run("initdb", "-D", self._folder / "data", "-U", "fairgate", "--auth=trust", "--no-sync", "-E", "UTF8")
        options = f"-p {port} -h 127.0.0.1 -k {self._folder} -c fsync=off"
        self._run("pg_ctl", "-D", self._folder / "data", "-l", self._folder / "log", "-w", "-o", options, "start")
        self.url = (
            f"postgresql://fairgate@127.0.0.1:{port}/{APPLICATION}?{urllib.parse.urlencode({'sslmode': 'disable'})}"
        )
        self._run("createdb", "-h", "127.0.0.1", "-p", port, "-U", "fairgate", APPLICATION)

    def _run(self, program: str, *arguments: object) -> None:
        command = [*self._as_user, str(self._bin / program), *map(str, arguments)]
        with (pathlib.Path(tempfile.gettempdir())).joinpath(f"{self._folder.name}.log").open("ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, cwd="/", timeout=60)

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)
        (pathlib.Path(tempfile.gettempdir()) / f"{self._folder.name}.log").unlink()


@dataclasses.dataclass(frozen=True)
class Language:
    """How to start its worker: `DATABASE GATE OPTIONS`."""

    name: str
    command: list[object]
    env: dict[str, str]
    deferral: str
    """What is in the result of a child workflow that was deferred, as the client reads it."""


def python() -> Language:
    command: list[object] = [sys.executable, HERE / "dbos_worker.py"]
    return Language("python", command, {"PYTHONPATH": CLIENT_PATH}, "delay_ms")


def typescript() -> Language:
    """Beside the built package, so that its name means that one."""
    stage = BUILD_DIR / "client-typescript"
    folder = stage / "engines"
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "dbos_worker.mjs", folder)
    return Language("typescript", [stage / "node", folder / "dbos_worker.mjs"], {}, '"deferred"')


LANGUAGES: dict[str, Callable[[], Language]] = {"python": python, "typescript": typescript}


class Dbos:
    """See common.Engine. The client is Python's for all, which writes what every language can read."""

    def __init__(
        self, database: Database, language: Language, gate: Gate, upstream: Upstream, folder: pathlib.Path
    ) -> None:
        self.name = f"dbos-{language.name}"
        self.gate, self.upstream = gate, upstream
        self._database, self._language, self._folder = database, language, folder
        self._numbers = itertools.count(1)
        with self.worker(WorkerOptions()):  # makes tables and queues
            self.client = DBOSClient(system_database_url=database.url)

    @contextlib.contextmanager
    def worker(self, options: WorkerOptions) -> Iterator[Program]:
        log = self._folder / f"worker-{next(self._numbers)}.log"
        arguments = [self._database.url, self.gate.address, json.dumps(dataclasses.asdict(options))]
        command: list[object] = [*self._language.command, *arguments]
        with stopping(Program(command, log, self._language.env)) as program:
            program.wait_for("^ready")
            yield program

    def submit(self, work: Work) -> WorkflowHandle[Any]:
        return self.start("calls", work.work, work.json())

    def start(self, workflow: str, workflow_id: str, *arguments: Any) -> WorkflowHandle[Any]:
        options = {"workflow_name": workflow, "queue_name": "works", "workflow_id": workflow_id, "app_version": "1"}
        options["serialization_type"] = WorkflowSerializationFormat.PORTABLE
        handle: WorkflowHandle[Any] = self.client.enqueue(options, *arguments)  # type: ignore[arg-type]
        return handle

    def wait(self, handle: WorkflowHandle[Any], timeout_s: float) -> Any:
        def ended() -> bool:
            return handle.get_status().status not in ("ENQUEUED", "PENDING")

        eventually(f"{handle.workflow_id} has ended", ended, timeout_s)
        return handle.get_result()

    def asleep(self, handle: WorkflowHandle[Any]) -> bool:
        steps = self.steps(handle.workflow_id)
        return bool(steps) and steps[-1] == "DBOS.sleep"

    # For DBOS's own tests

    def steps(self, workflow_id: str) -> list[str]:
        """Their names, in order."""
        return [step["function_name"] for step in self.client.list_workflow_steps(workflow_id)]

    def held_ms(self, prefix: str) -> list[float]:
        """Of each call of such works that was deferred: how long its child workflow took its slot."""
        children = self.client.list_workflows(name="fairgate.call", workflow_id_prefix=prefix, load_input=False)
        deferred = [child for child in children if child.output and self._language.deferral in child.output]
        return [float(child.completed_at - child.dequeued_at) for child in deferred]

    def stop(self) -> None:
        self.client.destroy()
