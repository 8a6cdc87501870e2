"""A fairgate-server with a store of its own, for the cases that need true decisions."""

from __future__ import annotations

import contextlib
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

import grpc
import staging
from google.protobuf import json_format

from fairgate.v1 import admin_pb2, admin_pb2_grpc
from fairgate.v1 import admission_pb2 as pb
from fairgate.v1 import admission_pb2_grpc as pb_grpc

_TIMEOUT_S = 10


class RealGate:
    """One server for all cases; each makes a target of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def configure(self, policy: dict[str, Any]) -> None:
        """Makes a target."""
        request = json_format.ParseDict({"policy": policy, "create_only": True}, pb.ConfigureRequest())
        pb_grpc.AdmissionServiceStub(self._channel).Configure(request, timeout=_TIMEOUT_S)

    def state(self, target: str) -> dict[str, Any]:
        """What InspectTarget says, with dimensions by name; all fields are there."""
        request = admin_pb2.InspectTargetRequest(target=target)
        response = admin_pb2_grpc.AdminServiceStub(self._channel).InspectTarget(request, timeout=_TIMEOUT_S)
        counts = ("waiters", "leases_open", "grants_total", "admits_total")
        state: dict[str, Any] = {name: getattr(response, name) for name in counts}
        amounts = ("available", "waiting", "debited_total", "refunded_total")
        for dimension in response.dimensions:
            state[dimension.name] = {name: getattr(dimension, name) for name in amounts}
        return state

    def close(self) -> None:
        """Of this side only."""
        self._channel.close()


@contextlib.contextmanager
def running() -> Iterator[RealGate]:
    """Ends with the block."""
    binary = staging.BUILD_DIR / "bin" / "fairgate-server"
    with tempfile.TemporaryDirectory(prefix="fairgate-conformance-") as folder:
        root = pathlib.Path(folder)
        (root / "policy.yaml").write_text("targets: []\n")
        flags = ["--listen=127.0.0.1:0", "--metrics-listen=off", f"--state-dir={root}/s"]
        # What a stalled machine does to the store is no matter of these cases.
        flags += [f"--policy-file={root}/policy.yaml", "--store-timeout=5s"]
        with (root / "log").open("wb") as log:
            process = subprocess.Popen([binary, *flags], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            greeting = process.stdout.readline() + process.stdout.readline()
            match = re.search(r"calls\s+127\.0\.0\.1:(\d+)", greeting)
            if match is None:
                process.kill()
                raise RuntimeError(f"the server did not start: {greeting}{(root / 'log').read_text()}")
            gate = RealGate(int(match[1]))
            yield gate
            gate.close()
        finally:
            process.terminate()
            process.wait(20)
            print((root / "log").read_text()[-4000:])  # pytest shows it where something failed
