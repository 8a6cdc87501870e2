"""A Valkey that can be restarted, one target on it, and what the store holds of that target, decoded."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lua"))

from layout import Layout, Record  # noqa: E402
from valkey import LIBRARY, START_US, Target, Valkey  # noqa: E402,F401

Answer = dict[str, Any]


class Store(Valkey):
    """`text`: another text of the library than the built one."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text or LIBRARY.read_text()
        self.layout = Layout(self.text)
        self.directory = tempfile.mkdtemp(prefix="fairgate-properties-")
        self.socket = os.path.join(self.directory, "s")
        self._start()
        self.library = self.reload()

    def _start(self) -> None:
        binary = shutil.which("valkey-server") or shutil.which("redis-server")
        assert binary, "no valkey-server: run deploy/setup/install.sh test"
        self.process = subprocess.Popen(
            [
                binary,
                "--port",
                "0",
                "--unixsocket",
                self.socket,
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                self.directory,
                "--enable-debug-command",
                "yes",
            ],
            stdout=subprocess.DEVNULL,
        )
        # a command that is sent twice by the client would be another history
        self.client = redis.Redis(unix_socket_path=self.socket, socket_timeout=120, retry=Retry(NoBackoff(), 0))
        deadline = time.monotonic() + 20
        while True:
            try:
                self.client.ping()
                return
            except redis.exceptions.RedisError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def reload(self) -> str:
        """Loads the library anew: what it kept in memory is gone."""
        name = self.client.function_load(self.text, replace=True)
        return name.decode() if isinstance(name, bytes) else name

    def restart(self, whole: bool = False) -> None:
        """The data set is written and read again; `whole`: by another process."""
        if not whole:
            self.client.execute_command("DEBUG", "RELOAD")
            return
        self.client.save()
        self.client.close()
        self.process.terminate()
        self.process.wait(10)
        self._start()


@dataclasses.dataclass
class Snapshot:
    """What the store holds of a target; times in microseconds."""

    layout: Layout
    raw: list[Any]

    @functools.cached_property
    def state(self) -> Record | None:
        return self.layout.state(self.raw[0]) if self.raw[0] else None

    @functools.cached_property
    def flows(self) -> dict[str, Record]:
        return {field.decode(): self.layout.flow(raw) for field, raw in self.raw[1].items()}

    @functools.cached_property
    def order(self) -> list[bytes]:
        return list(self.raw[2])

    @functools.cached_property
    def calls(self) -> dict[str, Record]:
        return {id.decode(): self.layout.call(raw) for id, raw in self.raw[3].items()}

    @functools.cached_property
    def due(self) -> dict[str, float]:
        return {id.decode(): score for id, score in self.raw[4]}

    @functools.cached_property
    def expiry(self) -> dict[str, float]:
        return {id.decode(): score for id, score in self.raw[5]}


_names = itertools.count()


class Subject(Target):
    """A target of its own, whose records can be looked at."""

    def __init__(self, store: Store, compiled: Answer, tenants: Answer | None = None) -> None:
        self.store = store
        super().__init__(store, f"p{next(_names)}", compiled, tenants)

    def call(self, entry: str, args: dict[str, Any]) -> Answer:
        self.client = self.store.client  # a restart makes another
        answer = super().call(entry, args)
        for name in ("debited", "refunded", "charged", "estimated"):  # an empty map of Lua's is an empty array
            if answer.get(name) == []:
                answer[name] = {}
        return answer

    def snapshot(self) -> Snapshot:
        _, state, flows, order, calls, due, expiry, caps, window = self.keys
        pipe = self.store.client.pipeline(transaction=False)
        pipe.get(state)
        pipe.hgetall(flows)
        pipe.zrange(order, 0, -1)
        pipe.hgetall(calls)
        pipe.zrange(due, 0, -1, withscores=True)
        pipe.zrange(expiry, 0, -1, withscores=True)
        pipe.hgetall(caps)
        pipe.get(window)
        return Snapshot(self.store.layout, pipe.execute())

    def state(self) -> Record:
        """The target's own record alone."""
        return self.store.layout.state(self.store.client.get(self.keys[1]))

    def drop(self) -> None:
        self.store.client.delete(*self.keys)
