"""Gates, Valkeys, the fault proxy and the C++ caller as processes of their own; each is ended by its process id."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import grpc
import redis
from google.rpc import error_details_pb2, status_pb2
from stubs import BUILD_DIR, admin_pb2_grpc, admission_pb2_grpc, policy_pb2
from stubs import admin_pb2 as admin_pb
from stubs import admission_pb2 as pb

HERE = pathlib.Path(__file__).parent
START_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 10.0
ANSWER_MAX_S = 0.05  # the bar for every answer, whatever the store does
EPOCH_US = 1_800_000_000_000_000
DURATION = {"1m": 60, "1s": 1, "1h": 3600}


def policy(name: str, tokens: float, requests: float = 1e9, window: str = "1m",
        **fields: Any) -> policy_pb2.TargetPolicy:
    """Continuous windows without margins: exactly `tokens` can go at once."""
    made = policy_pb2.TargetPolicy(name=name, **fields)
    for dimension, limit in (("requests", requests), ("tokens", tokens)):
        d = made.dimensions.add(name=dimension, limit=limit, window_model=policy_pb2.WINDOW_MODEL_CONTINUOUS,
                                rate_fraction=1, burst_fraction=1)
        d.window.seconds = DURATION[window]
    return made


def wait_until(true, timeout_s: float, what: str, pause_s: float = 0.01) -> float:
    """Seconds until `true()` held."""
    start = time.monotonic()
    while not true():
        assert time.monotonic() - start < timeout_s, f"not within {timeout_s} s: {what}"
        time.sleep(pause_s)
    return time.monotonic() - start


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ending_with_us() -> list[str]:
    """What a command begins with so that it is killed when the tests are, however they end.
    (No preexec_fn: gRPC does not survive a fork.)"""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def _line(process: subprocess.Popen, what: str, timeout_s: float) -> str:
    # Right only while nothing is buffered: one line per question, or the first of several.
    ready, _, _ = select.select([process.stdout], [], [], timeout_s)
    line = process.stdout.readline() if ready else ""
    if not line:
        process.kill()
        raise RuntimeError(f"{what} does not answer; exit code {process.wait(5)}")
    return line


class Valkey:
    """A store on a port of its own, with an append-only file that survives `kill` and `start`."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory, self.port = directory, free_port()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        binary = shutil.which("valkey-server") or shutil.which("redis-server")
        assert binary, "no valkey-server: run deploy/setup/install.sh test"
        self.process = subprocess.Popen(
            [*_ending_with_us(), binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                    "--appendonly", "yes", "--dir",
             str(self.directory), "--repl-diskless-sync-delay", "0"], stdout=subprocess.DEVNULL)
        self.client = redis.Redis(port=self.port)
        wait_until(self._answers, START_TIMEOUT_S, "valkey-server")

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except (redis.exceptions.ConnectionError, redis.exceptions.BusyLoadingError):
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


class Proxy:
    """fault_proxy.py in a process of its own; its methods are those of FaultProxy."""

    def __init__(self, port: int) -> None:
        self.process = subprocess.Popen([sys.executable, HERE / "fault_proxy.py", "127.0.0.1", str(port)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.port = int(_line(self.process, "the proxy", START_TIMEOUT_S))
        self.url = f"valkey://127.0.0.1:{self.port}"

    def __getattr__(self, name: str):
        return lambda *args, **fields: self._do(name, *args, **fields)

    def _do(self, name: str, **fields: Any) -> Any:
        self.process.stdin.write(json.dumps({"do": name, **fields}) + "\n")
        return json.loads(_line(self.process, f"the proxy ({name})", CALL_TIMEOUT_S))

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(10)


class Gate:
    """One fairgate-server. `store`: a URL, or None for the embedded one."""

    def __init__(self, directory: pathlib.Path, store: str | None = None, policies: Iterable[Any] = (),
                 clock: pathlib.Path | None = None, flags: Iterable[str] = (), listen: str = "127.0.0.1:0") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log = directory / f"log-{secrets.token_hex(4)}"
        arguments = [f"--listen={listen}", "--metrics-listen=127.0.0.1:0", f"--state-dir={directory / 's'}", *flags]
        if store:
            arguments.append(f"--store={store}")
        if clock:
            arguments.append(f"--test-clock-file={clock}")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*_ending_with_us(), BUILD_DIR / "bin" / "fairgate-server", *arguments],
                                            stdout=subprocess.PIPE, stderr=log, text=True)
        greeting = _line(self.process, f"the gate ({self.log})", START_TIMEOUT_S)
        greeting += "".join(self.process.stdout.readline() for _ in range(3))
        self._open(greeting)
        for made in policies:
            self.configure(made)

    def _open(self, greeting: str) -> None:
        self.address = re.search(r"calls\s+(\S+)", greeting).group(1)
        self.metrics_url = re.search(r"metrics\s+(\S+)", greeting).group(1)
        self.channel = grpc.insecure_channel(self.address, [("grpc.max_send_message_length", -1)])
        self.admission = admission_pb2_grpc.AdmissionServiceStub(self.channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self.channel)

    def admit(self, target: str, id: str, tokens: float | None = None, tenant: str = "t",
            **fields: Any) -> pb.AdmitResponse:
        cost = {} if tokens is None else {"tokens": tokens}
        return self.admission.Admit(pb.AdmitRequest(target=target, tenant=tenant, request_id=id, cost=cost, **fields),
                                    timeout=CALL_TIMEOUT_S)

    def settle(self, target: str, id: str, actual: dict[str, float], attempt: int = 1,
            outcome: int = 1) -> pb.ReleaseResponse:
        return self.admission.Release(pb.ReleaseRequest(target=target, request_id=id, attempt=attempt, settle=pb.Settle(
            outcome=outcome, actual=actual)), timeout=CALL_TIMEOUT_S)

    def configure(self, made: policy_pb2.TargetPolicy) -> pb.ConfigureResponse:
        return self.admission.Configure(pb.ConfigureRequest(policy=made), timeout=CALL_TIMEOUT_S)

    def inspect(self, target: str) -> admin_pb.InspectTargetResponse:
        """Tried again while the store does not answer."""
        end = time.monotonic() + CALL_TIMEOUT_S
        while True:
            try:
                return self._inspect(target)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def _inspect(self, target: str) -> admin_pb.InspectTargetResponse:
        return self.admin.InspectTarget(admin_pb.InspectTargetRequest(target=target, flows_max=1000),
                timeout=CALL_TIMEOUT_S)

    def tokens(self, target: str) -> admin_pb.DimensionState:
        return next(d for d in self.inspect(target).dimensions if d.name == "tokens")

    def metric(self, name: str, **labels: str) -> float:
        """Sum of a metric's series that have these labels."""
        with urllib.request.urlopen(self.metrics_url, timeout=CALL_TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if re.match(rf"{name}[{{ ]", line) and all(w in line for w in wanted))

    def embedded_pid(self) -> int:
        with redis.Redis(unix_socket_path=str(self.directory / "s" / "valkey.sock")) as client:
            return int(client.info("server")["process_id"])

    def kill(self) -> None:
        self.channel.close()
        self.process.kill()
        self.process.wait()

    def stop(self, timeout_s: float = 60.0) -> None:
        self.channel.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(timeout_s) == 0, self.log.read_text()
        finally:
            self.process.kill()


@dataclasses.dataclass
class Answer:
    """One line of call_driver."""

    id: str
    gate: int
    start_s: float
    latency_s: float
    code: int
    outcome: str
    degraded: bool
    repeated: bool
    retry_delay_ms: int
    message: str

    @classmethod
    def parse(cls, line: str) -> Answer:
        id, gate, start, latency, code, outcome, degraded, repeated, delay, message = line.rstrip("\n").split("\t")
        return cls(id, int(gate), int(start) / 1e6, int(latency) / 1e6, int(code), outcome, degraded == "1",
                   repeated == "1", int(delay), message)


class Driver:
    """call_driver: many calls at once, timed where Python would be too slow."""

    def __init__(self, gates: Sequence[Gate]) -> None:
        self.gates = len(gates)
        self.controls: list[Answer] = []
        self.process = subprocess.Popen([BUILD_DIR / "bin" / "call_driver", *[g.address for g in gates]],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def at_once(self, calls: Iterable[tuple[int, str, str, str, float]]) -> list[Answer]:
        """(gate, target, tenant, id, tokens) each."""
        orders = [f"call {gate} {target} {tenant} {id} {tokens:g}\n" for gate, target, tenant, id, tokens in calls]
        orders += [f"call {i % self.gates} control control control-{i} -1\n" for i in range(4)]
        self.process.stdin.write("".join(orders) + "go\n")
        return self.answers()

    def start_load(self, seconds: float, target: str, callers: int = 64, pause_ms: float = 20, prefix: str = "l",
                   tokens: float = 1, gates: str = "all") -> None:
        pause_us = int(pause_ms * 1e3)
        self.process.stdin.write(f"load {seconds} {callers} {pause_us} {gates} {target} {prefix} {tokens:g}\n")
        self.process.stdin.flush()

    def answers(self) -> list[Answer]:
        """Without those of the control calls, which are in `controls`: they need no store."""
        self.process.stdin.flush()
        answers = [Answer.parse(line) for line in iter(self.process.stdout.readline, "done\n")]
        self.controls = [a for a in answers if a.id.startswith("control-")]
        return [a for a in answers if not a.id.startswith("control-")]

    def stop(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(20) == 0


@contextlib.contextmanager
def stopping(*parts: Any) -> Iterator[contextlib.ExitStack]:
    """Ends parts in the opposite order of their start; `enter` more by `stack.callback(part.stop)`."""
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.callback(part.stop)
        yield stack


def health(gate: Gate) -> str:
    """Of grpc.health.v1, read without its stubs: field 1 of the answer is the status."""
    answer = gate.channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=CALL_TIMEOUT_S)
    return {b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING"}.get(answer, repr(answer))


def violations(error: grpc.RpcError) -> list[str]:
    """The fields that BadRequest names."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                bad = error_details_pb2.BadRequest()
                if detail.Unpack(bad):
                    return [v.field for v in bad.field_violations]
    return []


def new_seed() -> int:
    """Printed, and taken from FAIRGATE_TEST_SEED to repeat a run."""
    seed = int(os.environ.get("FAIRGATE_TEST_SEED", secrets.randbits(32)))
    print(f"seed {seed}: repeat with FAIRGATE_TEST_SEED={seed}")
    return seed
