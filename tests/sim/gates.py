"""The arms: nobody (naive), or the production scripts on a Valkey over a plain Unix socket."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import msgpack
from valkey import KEYS, LIBRARY, QUESTIONS, START_US, Target, dimension, policy

from .demand import CLASSES, Scenario
from .mechanisms import without

ENTRIES = ("admit", "release", "configure", "inspect")
# What server/core/policy.cc fills in: part of the limit that is used, part of a window that may go at once.
FRACTIONS = {"continuous": (0.995, 0.9), "fixed": (1.0, 0.2), "sliding": (1.0, 0.2), "fixed_learnt": (1.0, 0.2)}
PLACES_MAX = 1000  # of a flow
FRACTIONS_60_S = {
    "continuous": (0.995, 0.9),
    "fixed": (1.0, 0.05),
    "sliding": (1.0, 0.03),
    "fixed_learnt": (1.0, 0.03),
}


class Connection:
    """The few replies that are needed, without a client library: it would cost more than the scripts."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._rest = b""

    def close(self) -> None:
        self._socket.close()

    def command(self, *parts: str | bytes) -> bytes:
        encoded = [p.encode() if isinstance(p, str) else p for p in parts]
        return self.send(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in encoded))

    def send(self, request: bytes) -> bytes:
        """The body of a bulk, status or integer reply, or of the only one in an array."""
        self._socket.sendall(request)
        data = (self._rest + self._socket.recv(65536)).removeprefix(b"*1\r\n")
        while (end := data.find(b"\r\n")) < 0:
            data += self._socket.recv(65536)
        kind = data[0]
        if kind == 45:  # '-'
            raise RuntimeError(data[1:end].decode())
        if kind != 36:  # not '$': status or integer
            self._rest = data[end + 2 :]
            return data[1:end]
        length, begin = int(data[1:end]), end + 2
        while len(data) < begin + length + 2:
            data += self._socket.recv(65536)
        self._rest = data[begin + length + 2 :]
        return data[begin : begin + length]


class Scripts:
    """The function library on one server, with mechanisms taken out as jobs ask for it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._text = LIBRARY.read_text()
        self._loaded: str | None = None
        self.library = b""

    def load(self, off: str = "") -> None:
        if off == self._loaded:
            return
        self._connection.command("FUNCTION", "FLUSH")
        self.library = self._connection.command("FUNCTION", "LOAD", without(off, self._text))
        self._loaded = off


class FastTarget(Target):
    """The harness's target over a plain connection."""

    def __init__(
        self, connection: Connection, library: bytes, name: str, compiled: dict[str, Any], tenants: dict[str, Any]
    ) -> None:
        keys = [f"fg:{{{name}}}:{key}".encode() for key in KEYS]
        packed = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in [b"%d" % len(keys), *keys])
        self._heads = {}
        for entry in ENTRIES:
            function = library + b"_" + ("decide" if entry in QUESTIONS else entry).encode()
            self._heads[entry] = b"*%d\r\n$5\r\nFCALL\r\n$%d\r\n%b\r\n%b" % (
                len(keys) + 4,
                len(function),
                function,
                packed,
            )
        self._connection = connection
        self.now_us = START_US
        self.version = 0
        self.configure(compiled, tenants)

    def call(self, entry: str, args: dict[str, Any]) -> dict[str, Any]:
        args["clock_us"] = self.now_us
        args["ask"] = entry
        packed = msgpack.packb(args, use_bin_type=False)
        reply = self._connection.send(b"%b$%d\r\n%b\r\n" % (self._heads[entry], len(packed), packed))
        return msgpack.unpackb(reply, strict_map_key=False)


class Gate:
    """One target for a scenario, asked as a server asks it."""

    def __init__(self, connection: Connection, scripts: Scripts, scenario: Scenario, discipline: str) -> None:
        self._scenario = scenario
        self._discipline = discipline
        self._caps = dict(scenario.caps)
        self._weights = {flow.name: flow.weight for flow in scenario.flows if flow.weight != 1}
        connection.command("FLUSHALL")
        self.target = FastTarget(connection, scripts.library, scenario.name, self._compiled(), self._tenants())

    def _compiled(self) -> dict[str, Any]:
        s = self._scenario
        model = s.told or s.window
        rate, burst = (FRACTIONS if s.window_s <= 1 else FRACTIONS_60_S)[model]
        if self._discipline == "buckets":  # as written: a bucket of one window's worth, whatever the provider counts by
            model, rate, burst = "continuous", 1.0, 1.0
        dims = [
            dimension(
                name,
                cap * s.window_s,
                s.window_s,
                model,
                phase_us=round(s.phase_s * 1e6) if model == "fixed" else 0,
                rate_fraction=rate,
                burst_fraction=burst,
            )
            for name, cap in self._caps.items()
        ]
        return policy(dims, dict(CLASSES), discipline=self._discipline, **{"places_max": PLACES_MAX, **s.policy})

    def _tenants(self) -> dict[str, Any]:
        s = self._scenario
        names = sorted(set(self._weights) | set(s.tenant_caps))
        out: dict[str, Any] = {}
        for name in names:
            out[name] = {"weight": float(self._weights.get(name, 1.0))}
            caps = s.tenant_caps.get(name)
            if caps:
                out[name]["caps"] = [
                    {"dimension": d, "limit": c * s.window_s, "window_us": round(s.window_s * 1e6)}
                    for d, c in caps.items()
                ]
        return out

    def change(self, caps: Mapping[str, float], weights: Mapping[str, float]) -> None:
        self._caps.update(caps)
        self._weights.update(weights)
        self.target.configure(self._compiled(), self._tenants())
