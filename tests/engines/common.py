"""What the tests of all durable engines share: programs with logs, a gate that can go down, an upstream that remembers.

    Program    a process with a log; stop() and kill() end it and nothing else
    Gate       a fairgate-server with a store of its own, on a port that survives stop() and start()
    Upstream   the external API: remembers every send, can refuse a tenant with 429
    Work       what one durable workflow does; goes to workers of every language as JSON
    Engine     what a test module gives for its engine; scenarios.py is written against it

An engine's worker is a program `WORKER OPTIONS` that runs Work: for each of `calls` a step that asks the gate, POSTs to
`upstream` the JSON {"work", "tenant", "priority", "request_id", "attempt", "degraded"}, and settles with the answer's
usage. In mode "naive" it never asks the gate: it sends, and sleeps inside the step while it is answered 429. With
`die_at` it kills itself there: "granted" is before the send, "answered" after it and before the settlement.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "conformance"))
import staging  # noqa: E402, I001  puts the Python client and its stubs on the path

import grpc  # noqa: E402
from google.protobuf import json_format  # noqa: E402

import fairgate
from fairgate.v1 import admin_pb2, admin_pb2_grpc  # noqa: E402
from fairgate.v1 import admission_pb2 as pb  # noqa: E402
from fairgate.v1 import admission_pb2_grpc as pb_grpc  # noqa: E402

BUILD_DIR, SOURCE_DIR = staging.BUILD_DIR, staging.SOURCE_DIR
CLIENT_PATH = str(staging.stage())
"""For PYTHONPATH of workers in Python."""
RPC_TIMEOUT_S = 5.0
"""Workers give the gate so long: a busy machine is no gate that is away."""
DIMENSION = {"name": "requests", "limit": 1000, "window": "1s", "window_model": "WINDOW_MODEL_CONTINUOUS"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(what: str, happened: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """The first true answer; AssertionError when there was none in time."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        answer = happened()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {what}")


class Program:
    """A process whose output goes to a file."""

    def __init__(self, command: list[object], log: pathlib.Path, env: dict[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(env or {})},
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str, timeout_s: float = 60.0) -> re.Match[str]:
        """Until the log says so; fails at once when the program ends before."""

        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.text(), re.MULTILINE)
            assert match or self.running, f"{self.log.name} ended:\n{self.text()[-4000:]}"
            return match

        return eventually(f"{pattern!r} in {self.log}", found, timeout_s)

    def wait_killed(self, timeout_s: float = 60.0) -> None:
        """Until it has killed itself."""
        assert self._process.wait(timeout_s) == -signal.SIGKILL, self.text()[-4000:]

    def kill(self) -> None:
        """As a crash does."""
        self._process.kill()
        self._process.wait(10)

    def stop(self, timeout_s: float = 20.0) -> None:
        """Politely, then not."""
        if not self.running:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()


class Gate:
    """A fairgate-server. Its state outlives stop() and start()."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._program: Program | None = None
        self.start()

    def start(self) -> None:
        (self._folder / "policy.yaml").write_text("targets: []\n")
        flags = [f"--listen={self.address}", "--metrics-listen=off", f"--state-dir={self._folder}/s"]
        flags += [f"--policy-file={self._folder}/policy.yaml", "--store-timeout=5s"]
        self._program = Program([BUILD_DIR / "bin" / "fairgate-server", *flags], self._folder / "gate.log")
        eventually("the gate serves", self._serves)

    def stop(self) -> None:
        assert self._program is not None
        self._program.stop()

    def _serves(self) -> bool:
        assert self._program is not None and self._program.running, (self._folder / "gate.log").read_text()
        with grpc.insecure_channel(self.address) as channel:
            try:
                admin_pb2_grpc.AdminServiceStub(channel).ListTargets(admin_pb2.ListTargetsRequest(), timeout=2)
            except grpc.RpcError:
                return False
            return True

    def configure(self, target: str, **policy: Any) -> None:
        """Makes a target; `policy` as the policy file spells it, one plentiful dimension unless said."""
        policy = {"name": target, "dimensions": [DIMENSION], **policy}
        request = json_format.ParseDict({"policy": policy, "create_only": True}, pb.ConfigureRequest())
        with grpc.insecure_channel(self.address) as channel:
            pb_grpc.AdmissionServiceStub(channel).Configure(request, timeout=20)

    def limit(self, target: str, dimension: dict[str, Any]) -> None:
        """Changes a dimension of the target."""
        policy = {"name": target, "dimensions": [dimension]}
        request = json_format.ParseDict({"policy": policy, "updateMask": "dimensions"}, pb.ConfigureRequest())
        with grpc.insecure_channel(self.address) as channel:
            pb_grpc.AdmissionServiceStub(channel).Configure(request, timeout=20)

    def pass_by(self, target: str) -> None:
        """A question of somebody else, which costs nothing: leases whose time is over end with the next question."""
        options = fairgate.GateOptions(rpc_timeout=20)
        with fairgate.Gate(self.address, options) as gate, gate.admit(target=target, tenant="passer-by", requests=0):
            pass

    def state(self, target: str) -> dict[str, Any]:
        """Counts, and what was charged in "requests"."""
        with grpc.insecure_channel(self.address) as channel:
            request = admin_pb2.InspectTargetRequest(target=target)
            response = admin_pb2_grpc.AdminServiceStub(channel).InspectTarget(request, timeout=20)
        counts = ("waiters", "leases_open", "leases_expired_total", "grants_total", "admits_total")
        state = {name: getattr(response, name) for name in counts}
        requests = next(dimension for dimension in response.dimensions if dimension.name == "requests")
        return {**state, "charged": requests.debited_total - requests.refunded_total}


@dataclasses.dataclass(frozen=True)
class Send:
    """One request that reached the upstream."""

    at: float
    """Of time.monotonic()."""
    status: int
    work: str
    tenant: str
    priority: str
    request_id: str
    attempt: int
    degraded: bool


class Upstream:
    """The external API, on a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sends: list[Send] = []
        self._intervals: dict[str, float] = {}
        self._free_at: dict[str, float] = {}
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                wait_s = upstream._take(body)
                answer = json.dumps({"usage": {"total_tokens": 100}}).encode()
                self.send_response(200 if wait_s == 0 else 429)
                if wait_s:
                    self.send_header("Retry-After", str(math.ceil(wait_s)))
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/send"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def limit(self, tenant: str, interval_s: float) -> None:
        """One request per interval, as against 429."""
        with self._lock:
            self._intervals[tenant] = interval_s

    def _take(self, body: dict[str, Any]) -> float:
        now = time.monotonic()
        with self._lock:
            wait_s = max(self._free_at.get(body["tenant"], 0.0) - now, 0.0)
            if wait_s == 0:
                self._free_at[body["tenant"]] = now + self._intervals.get(body["tenant"], 0.0)
            self._sends.append(Send(at=now, status=429 if wait_s else 200, **body))
        return wait_s

    def sends(self, *works: str) -> list[Send]:
        """In order; of these works, or all."""
        with self._lock:
            return [send for send in self._sends if not works or send.work in works]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """One workflow. Names as in the JSON that workers read."""

    work: str
    """Name of the workflow, unique in a test run."""
    target: str
    upstream: str
    """URL."""
    tenant: str = "acme"
    priority: str = ""
    calls: int = 1
    """One after the other."""
    runs: int = 1
    """The calls are done so often; engines that can, begin anew from an empty history (continue as new) between."""
    attempt_timeout_s: float = 60.0
    """After so long without an answer the engine takes a step's worker for dead and does the step again."""
    attempts_max: int = 0
    """Real attempts of a step, as the engine's own retry policy counts them; 0: no limit."""
    deadline_s: float = 0.0
    """Of each step, deferrals included; 0: none."""

    def json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How a worker runs."""

    slots: int = 100
    """Steps at a time."""
    mode: str = "adapter"
    """"adapter" or "naive"."""
    die_at: str = ""
    """"granted" or "answered": kills itself there."""
    fail_sends: int = 0
    """So many first sends of each step fail in the worker after they were answered, as with a broken connection."""
    part: str = ""
    """"workflows" or "steps": runs these alone, where an engine has workers of either; empty: both."""
    timer_floor_s: float = 1.0
    max_hold_s: float = 0.0


class Engine(Protocol):
    """What scenarios.py asks of an engine and a language."""

    name: str
    """For example "temporal-python"."""
    gate: Gate
    upstream: Upstream

    def worker(self, options: WorkerOptions) -> contextlib.AbstractContextManager[Program]:
        """A worker that is ready; ended with the block."""

    def submit(self, work: Work) -> Any:
        """Starts a workflow; a handle."""

    def wait(self, handle: Any, timeout_s: float) -> Any:
        """Its result; raises what it ended with."""

    def asleep(self, handle: Any) -> bool:
        """Whether it sleeps on the engine's timer."""


@contextlib.contextmanager
def stopping(program: Program) -> Iterator[Program]:
    """Its end is the block's; the log is printed, which pytest shows where something failed."""
    try:
        yield program
    finally:
        program.stop()
        print(f"--- {program.log.name}\n{program.text()[-3000:]}")
