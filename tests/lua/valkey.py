"""A Valkey of the tests' own, and the bundled scripts on it under a clock that only the tests move."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from typing import Any

import msgpack
import redis

BUILD_DIR = pathlib.Path(os.environ.get("FAIRGATE_BUILD_DIR", "build/dev"))
LIBRARY = BUILD_DIR / "lua" / "fairgate.lua"
KEYS = ("policy", "state", "flows", "order", "calls", "due", "expiry", "caps", "window")
QUESTIONS = ("admit", "release")
START_US = 1_800_000_000_000_000


class Valkey:
    """Starts a server on a Unix socket in a directory of its own, with the decision library; ends it by process id.

    `library`: another text of it than the built one.
    """

    def __init__(self, library: str | None = None) -> None:
        self.directory = tempfile.mkdtemp(prefix="fairgate-valkey-")
        binary = shutil.which("valkey-server") or shutil.which("redis-server")
        assert binary, "no valkey-server: run deploy/setup/install.sh test"
        self.socket = os.path.join(self.directory, "s")
        self.process = subprocess.Popen(
            [binary, "--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "no", "--dir",
             self.directory], stdout=subprocess.DEVNULL)
        self.client = redis.Redis(unix_socket_path=self.socket)
        for _ in range(200):
            try:
                self.client.ping()
                break
            except redis.exceptions.ConnectionError:
                time.sleep(0.02)
        else:
            raise RuntimeError("valkey-server did not start")
        self.library: str = self.client.function_load(library or LIBRARY.read_text(), replace=True)
        if isinstance(self.library, bytes):
            self.library = self.library.decode()

    def stop(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.directory, ignore_errors=True)


def dimension(name: str, limit: float, window_s: float = 60.0, model: str = "continuous", **more: Any) -> dict[str, Any]:
    """A dimension as Configure compiles it; continuous ones as the field's cases have them: full depth, whole rate."""
    return {"name": name, "limit": float(limit), "window_us": int(window_s * 1e6), "model": model, "phase_us": 0,
            "rate_fraction": 1.0, "burst_fraction": 1.0, **more}


def policy(dims: list[dict[str, Any]], classes: dict[str, float] | None = None, **more: Any) -> dict[str, Any]:
    classes = classes or {"default": 1.0}
    lowest = min(reversed(list(classes)), key=lambda name: classes[name])
    return {"discipline": "queue", "dims": dims, "default_class": lowest, "default_weight": 1.0, "listed_only": False,
            "classes": [{"name": name, "weight": float(w)} for name, w in classes.items()],
            "max_defer_us": 300_000_000, "lease_us": 60_000_000, "retention_us": 3_600_000_000, "places_max": 100_000,
            **more}


def command(library: str, keys: list[Any], entry: str, *args: dict[str, Any]) -> list[Any]:
    """The evaluation that asks `entry`. Admits and releases may be several, whose answers come in a list."""
    function = "decide" if entry in QUESTIONS else entry
    packed = [msgpack.packb({"ask": entry, **a} if entry in QUESTIONS else a, use_bin_type=False) for a in args]
    return ["FCALL", f"{library}_{function}", len(keys), *keys, *packed]


def unpacked(answer: bytes | list[bytes]) -> dict[str, Any]:
    """The only answer of an evaluation."""
    [raw] = answer if isinstance(answer, list) else [answer]
    return msgpack.unpackb(raw, strict_map_key=False)


class Target:
    """One target: the functions with their keys, and the clock."""

    def __init__(self, valkey: Valkey, name: str, compiled: dict[str, Any], tenants: dict[str, Any] | None = None) -> None:
        self.client = valkey.client
        self.library = valkey.library
        self.keys = [f"fg:{{{name}}}:{key}" for key in KEYS]
        self.now_us = START_US
        self.version = 0
        self.configure(compiled, tenants)

    def call(self, entry: str, args: dict[str, Any]) -> dict[str, Any]:
        answer = self.client.execute_command(*command(self.library, self.keys, entry, {"clock_us": self.now_us, **args}))
        return unpacked(answer)

    def configure(self, compiled: dict[str, Any], tenants: dict[str, Any] | None = None) -> None:
        answer = self.call("configure", {"expected_version": self.version, "compiled": compiled, "source": b"",
                                         "tenants": tenants or {}})
        assert answer["result"] == "ok", answer
        self.version = answer["version"]

    def admit(self, id: str, tenant: str = "t", attempt: int = 1, **args: Any) -> dict[str, Any]:
        """Keyword `cost` by dimension; `cls` names the class."""
        if "cls" in args:
            args["class"] = args.pop("cls")
        return self.call("admit", {"id": id, "tenant": tenant, "attempt": attempt, **args})

    def release(self, id: str, attempt: int = 1, action: str = "settle", outcome: str = "ok", **args: Any) -> dict[str, Any]:
        return self.call("release", {"id": id, "attempt": attempt, "action": action, "outcome": outcome, **args})

    def left(self, dimension_name: str) -> float:
        return next(d["available"] for d in self.inspect()["dims"] if d["name"] == dimension_name)

    def inspect(self) -> dict[str, Any]:
        return self.call("inspect", {})

    def advance(self, seconds: float) -> None:
        self.now_us += round(seconds * 1e6)
