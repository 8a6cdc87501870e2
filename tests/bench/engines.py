"""Starts what is measured on free ports of the loopback, reads its CPU time, and ends it by process id."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterator

import redis

START_TIMEOUT = 20.0  # seconds
STOP_TIMEOUT = 10.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

# The targets: one that always grants, and one that grants once a day. Window models are the default.
POLICY = """
targets:
  - name: bench
    dimensions:
      - {name: requests, limit: 1.0e+12, window: 1m}
      - {name: tokens, limit: 1.0e+12, window: 1m}
    classes: &classes
      - {name: interactive, weight: 0.5}
      - {name: standard, weight: 0.3}
      - {name: batch, weight: 0.2}
  - name: defer
    dimensions:
      - {name: requests, limit: 1, window: 24h}
      - {name: tokens, limit: 1.0e+12, window: 1m}
    classes: *classes
"""


class Engines:
    """What is running, by name, with the addresses of each."""

    def __init__(self, binaries: pathlib.Path, folder: pathlib.Path) -> None:
        self.binaries = binaries
        self.folder = folder
        self.socket = folder / "valkey.sock"
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.addresses: dict[str, str] = {}

    def cpu_s(self, name: str) -> float:
        """CPU seconds that the process has used, all its threads."""
        fields = pathlib.Path(f"/proc/{self.processes[name].pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def valkey(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))

    def _spawn(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.processes[name] = process
        return process

    def start_valkey(self) -> None:
        """With the flags of the embedded store."""
        binary = shutil.which("valkey-server") or shutil.which("redis-server")
        if binary is None:
            raise FileNotFoundError("neither valkey-server nor redis-server is in PATH")
        self._spawn(
            "valkey", binary, "--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700", "--save", "",
            "--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "everysec",
            "--logfile", str(self.folder / "valkey.log"),
        )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self.valkey().ping()
                return
            except redis.exceptions.RedisError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def start_gate(self, threads: int, timeout: str) -> None:
        policy = self.folder / "policy.yaml"
        policy.write_text(POLICY)
        process = self._spawn(
            "gate", str(self.binaries / "fairgate-server"), "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0",
            f"--store=valkey+unix://{self.socket}", f"--policy-file={policy}", f"--store-timeout={timeout}",
            f"--completion-queue-threads={threads}", "--log-level=warning",
        )  # fmt: skip
        self.addresses["gate"] = self._read(process, r"calls\s+(\S+)")

    def start_echo(self, name: str, *flags: str) -> None:
        process = self._spawn(name, str(self.binaries / "bench_echo_server"), *flags)
        self.addresses[name] = f"127.0.0.1:{self._read(process, r'^([0-9]+)$')}"

    @staticmethod
    def _read(process: subprocess.Popen[str], pattern: str) -> str:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(pattern, line):
                return found.group(1)
        raise RuntimeError(f"{process.args} ended before it was ready: {process.wait()}")

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def engines(binaries: pathlib.Path, folder: pathlib.Path) -> Iterator[Engines]:
    running = Engines(binaries, folder)
    try:
        yield running
    finally:
        running.stop()
