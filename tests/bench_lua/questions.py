"""Targets with many flows on a server, and prepared questions about them."""

from __future__ import annotations

import itertools
import pathlib
import struct
import sys
import time
from collections.abc import Iterable
from typing import Any

import redis

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / name) for name in ("lua", "bench")]

import valkey  # noqa: E402

DIMS = ("requests", "tokens", "input_tokens", "dollars")
OPEN, SHUT = 1e12, 1.0  # limits: everything goes; a request a day
SEED_CHUNK = 20_000
# KEYS: flows, order. ARGV: record, member without its field, first and last number. As many flows that are idle.
SEED = """
for i = tonumber(ARGV[3]), tonumber(ARGV[4]) do
  local field = '1:idle-' .. i
  redis.call('HSET', KEYS[1], field, ARGV[1])
  redis.call('ZADD', KEYS[2], 0, ARGV[2] .. field)
end
"""


def encode(arguments: Iterable[bytes]) -> bytes:
    parts = list(arguments)
    out = [b"*%d\r\n" % len(parts)]
    out += [b"$%d\r\n%s\r\n" % (len(part), part) for part in parts]
    return b"".join(out)


def write(path: pathlib.Path, commands: Iterable[list[bytes]]) -> int:
    """As bench_replay reads it. The number of commands."""
    count = 0
    with path.open("wb") as out:
        for command in commands:
            text = encode(command)
            out.write(struct.pack("<I", len(text)) + text)
            count += 1
    return count


class Target:
    """`flows` known ones; `active` of them ask. `shut`: its cap is used up, so that everybody waits."""

    def __init__(self, client: redis.Redis, library: str, flows: int, active: int, dims: int, shut: bool) -> None:
        self.client, self.library = client, library
        self.active, self.dims, self.shut = active, DIMS[:dims], shut
        self.name = f"{'shut' if shut else 'open'}-{flows}-{active}-{dims}"
        self.keys = [f"fg:{{{self.name}}}:{key}".encode() for key in valkey.KEYS]
        self.serial = 0
        self.waiting: list[str] = []
        self._configure(0, False)
        self._seed(max(0, flows - active))
        for i in range(active):  # each is known before anything is measured
            self.ask(self.admit(f"first-{i}", i))
            self.ask(self.release(f"first-{i}", "withdraw"))
        if shut:
            self._configure(1, True)
            self.ask(self.admit("all", 0))
            self.waiting = [f"place-{i}" for i in range(active)]
            for i, id in enumerate(self.waiting):
                self.ask(self.admit(id, i))

    def _configure(self, version: int, shut: bool) -> None:
        dims = []
        for name in self.dims:
            limit, window_s = (SHUT, 86400.0) if shut and name == "requests" else (OPEN, 60.0)
            dims.append(valkey.dimension(name, limit, window_s))
        classes = {"interactive": 0.5, "standard": 0.3, "batch": 0.2}
        compiled = valkey.policy(
            dims, classes, lease_us=3_600_000_000, retention_us=3_600_000_000, max_defer_us=86_400_000_000
        )
        answer = self.ask(
            self._call("configure", {"expected_version": version, "compiled": compiled, "source": b"", "tenants": {}})
        )
        assert answer["result"] == "ok", answer

    def _seed(self, flows: int) -> None:
        """Copies of one flow that fell idle by itself."""
        if flows <= 0:
            return
        self.ask(self.admit("seed", 0, tenant="seed"))
        self.ask(self.release("seed", "settle"))
        _, _, flow_key, order, *_ = self.keys
        deadline = time.monotonic() + 10
        for attempt in itertools.count():  # another one, who is served more, finds it idle
            time.sleep(0.3)
            for i in range(3):
                self.ask(self.admit(f"finder-{attempt}-{i}", 0, tenant="finder"))
                self.ask(self.release(f"finder-{attempt}-{i}", "settle"))
            member = next(m for m in self.client.zrange(order, 0, -1) if m.endswith(b"1:seed"))
            if member.startswith(b"i"):
                break
            assert time.monotonic() < deadline, "the seed does not fall idle"
        record = self.client.hget(flow_key, b"1:seed")
        for first in range(1, flows + 1, SEED_CHUNK):
            last = min(flows, first + SEED_CHUNK - 1)
            self.client.eval(SEED, 2, flow_key, order, record, member[: -len(b"1:seed")], first, last)

    def _call(self, entry: str, *args: dict[str, Any]) -> list[bytes]:
        parts = valkey.command(self.library, self.keys, entry, *args)
        return [part if isinstance(part, bytes) else str(part).encode() for part in parts]

    def ask(self, command: list[bytes]) -> dict[str, Any]:
        return valkey.unpacked(self.client.execute_command(*command))

    def _admit(self, id: str, number: int, tenant: str = "") -> dict[str, Any]:
        cost = {name: 1.0 if name == "requests" else 100.0 for name in self.dims}
        return {"tenant": tenant or f"tenant-{number % self.active}", "class": "interactive", "cost": cost, "id": id}

    def admit(self, id: str, number: int, tenant: str = "") -> list[bytes]:
        return self._call("admit", self._admit(id, number, tenant))

    def release(self, id: str, action: str) -> list[bytes]:
        usage = {name: 90.0 for name in self.dims if name != "requests"}
        return self._call(
            "release",
            {"id": id, "attempt": 1, "action": action, "outcome": "ok", "usage": usage if action == "settle" else {}},
        )

    def fresh(self, calls: int) -> list[str]:
        """Ids that were never used."""
        self.serial += 1
        return [f"{self.serial:05d}/{i:010d}" for i in range(calls)]

    def admits(self, ids: list[str]) -> list[list[bytes]]:
        return [self.admit(id, i) for i, id in enumerate(ids)]

    def shared_admits(self, ids: list[str], questions: int) -> list[list[bytes]]:
        """So many in each evaluation."""
        asked = [self._admit(id, i) for i, id in enumerate(ids)]
        return [self._call("admit", *asked[i : i + questions]) for i in range(0, len(asked), questions)]

    def returns(self, calls: int) -> list[list[bytes]]:
        """Those who wait ask again, in turn."""
        return [self.admit(self.waiting[i % len(self.waiting)], i % len(self.waiting)) for i in range(calls)]

    def forget(self) -> None:
        """Remembered ids of what was measured would slow nothing, but fill the memory."""
        pipe = self.client.pipeline(transaction=False)
        if not self.shut:
            pipe.unlink(self.keys[4], self.keys[6])
        pipe.execute()
