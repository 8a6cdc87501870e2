"""Restate as an engine of scenarios.py: its server, and a worker in one language."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import pathlib
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from common import (
    BUILD_DIR,
    CLIENT_PATH,
    HERE,
    SOURCE_DIR,
    Gate,
    Program,
    Upstream,
    Work,
    WorkerOptions,
    eventually,
    free_port,
)

PACKAGES = SOURCE_DIR / "build/deps/restate/node_modules/@restatedev"
START_TIMEOUT_S = 60


def post(url: str, body: Any, timeout_s: float = 20) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    request.add_header("Accept", "application/json")
    with urllib.request.urlopen(request, timeout=timeout_s) as response:
        text = response.read()
    return json.loads(text) if text else None


def _binary() -> pathlib.Path:
    """Of this machine's package: npm installed no other."""
    return next(PACKAGES.glob("restate-server-linux-*/bin/restate-server"))


class Server:
    """restate-server with one partition, and so many invocations at a time."""

    def __init__(self, folder: pathlib.Path, slots: int = 1000) -> None:
        self._ports = {name: free_port() for name in ("node", "ingress", "admin")}
        self.ingress, self.admin = (f"http://127.0.0.1:{self._ports[name]}" for name in ("ingress", "admin"))
        config = folder / "restate.toml"
        config.write_text(f"""
default-num-partitions = 1
bind-port = {self._ports["node"]}
disable-telemetry = true
[ingress]
bind-port = {self._ports["ingress"]}
[admin]
bind-port = {self._ports["admin"]}
[worker.invoker]
concurrent-invocations-limit = {slots}
""")
        command: list[object] = [_binary(), "--config-file", config, "--base-dir", folder / "data", "--no-logo"]
        command += ["--listen-mode", "tcp", "--bind-ip", "127.0.0.1", "--log-filter", "warn"]
        self._program = Program(command, folder / "restate.log")
        eventually("the server is ready", self._ready, START_TIMEOUT_S)

    def _ready(self) -> bool:
        assert self._program.running, self._program.text()
        try:
            for url in (f"{self.admin}/health", f"{self.ingress}/restate/health"):
                urllib.request.urlopen(url, timeout=2).read()
        except OSError:
            return False
        return True

    def query(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = post(f"{self.admin}/query", {"query": sql})["rows"]
        return rows

    def stop(self) -> None:
        self._program.stop()


@dataclasses.dataclass(frozen=True)
class Language:
    """How to start its worker, which takes `PORT GATE OPTIONS`."""

    name: str
    command: list[object]
    env: dict[str, str]


def python() -> Language:
    return Language("python", [sys.executable, HERE / "restate_worker.py"], {"PYTHONPATH": CLIENT_PATH})


def typescript() -> Language:
    """Beside the built package, so that its name means that one."""
    stage = BUILD_DIR / "client-typescript"
    folder = stage / "engines"
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "restate_worker.mjs", folder)
    return Language("typescript", [stage / "node", folder / "restate_worker.mjs"], {})


LANGUAGES = {"python": python, "typescript": typescript}


class Restate:
    """See common.Engine. A handle is an invocation's id."""

    def __init__(
        self, server: Server, language: Language, gate: Gate, upstream: Upstream, folder: pathlib.Path
    ) -> None:
        self.name = f"restate-{language.name}"
        self.gate, self.upstream, self.server = gate, upstream, server
        self._language, self._folder = language, folder
        self._port = free_port()
        self._numbers = itertools.count(1)
        # Once: the server finds later workers at the same place.
        with self.worker(WorkerOptions()):
            eventually("the worker is registered", lambda: self.register(self._port))

    def register(self, port: int) -> bool:
        """Tells the server of what listens there; whether that went well."""
        with contextlib.suppress(urllib.error.HTTPError):
            post(f"{self.server.admin}/deployments", {"uri": f"http://127.0.0.1:{port}"})
            return True
        return False

    @contextlib.contextmanager
    def worker(self, options: WorkerOptions) -> Iterator[Program]:
        """Its slots are the server's."""
        log = self._folder / f"worker-{next(self._numbers)}.log"
        command = [*self._language.command, self._port, self.gate.address, json.dumps(dataclasses.asdict(options))]
        program = Program(command, log, self._language.env)
        try:
            eventually("the worker listens", lambda: self._listens(program), START_TIMEOUT_S)
            yield program
        finally:
            program.kill()  # its web server takes long to end, while the engine keeps its connection
            print(f"--- {program.log.name}\n{program.text()[-3000:]}")

    def _listens(self, program: Program) -> bool:
        assert program.running, program.text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False

    def submit(self, work: Work) -> str:
        return self.send("run", work.json())

    def send(self, handler: str, argument: Any) -> str:
        invocation: str = post(f"{self.server.ingress}/Calls/{handler}/send", argument)["invocationId"]
        return invocation

    def wait(self, handle: str, timeout_s: float) -> Any:
        url = f"{self.server.ingress}/restate/invocation/{handle}/attach"
        with urllib.request.urlopen(url, timeout=timeout_s) as response:
            text = response.read()
        return json.loads(text) if text else None

    def asleep(self, handle: str) -> bool:
        rows = self.server.query(f"SELECT status FROM sys_invocation WHERE id = '{handle}'")
        return bool(rows) and rows[0]["status"] == "suspended"

    # For Restate's own tests

    def entries(self, handle: str) -> list[str]:
        """The journal's, in order: a type each."""
        rows = self.server.query(f"SELECT index, entry_type FROM sys_journal WHERE id = '{handle}' ORDER BY index")
        return [row["entry_type"] for row in rows]

    def cancel(self, handle: str) -> None:
        url = f"{self.server.admin}/invocations/{handle}/cancel"
        urllib.request.urlopen(urllib.request.Request(url, method="PATCH"), timeout=20).read()
