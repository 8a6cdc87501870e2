"""RabbitMQ as an engine of scenarios.py: a broker of the tests' own, and the example's worker."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import pathlib
import re
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import pika
from common import (
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
    stopping,
)

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
EXAMPLES = SOURCE_DIR / "client" / "python" / "examples"
START_TIMEOUT_S = 90
_QUEUES = ("calls", "results")


class Broker:
    """RabbitMQ, and the port mapper that Erlang would otherwise leave behind."""

    def __init__(self, folder: pathlib.Path) -> None:
        port, mapper_port, distribution_port = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{port}\n"
            "log.console = true\nlog.console.level = warning\nlog.file = false\n"
        )
        (folder / "plugins").write_text("[].\n")
        env = {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "fairgate@localhost",
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
        }
        mapper: list[object] = ["epmd", "-port", mapper_port, "-address", "127.0.0.1"]
        self._mapper = Program(mapper, folder / "epmd.log")
        self._program = Program([SERVER], folder / "rabbitmq.log", env)
        eventually("the broker listens", lambda: self._listens(port), START_TIMEOUT_S)

    def _listens(self, port: int) -> bool:
        assert self._program.running, self._program.text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    def stop(self) -> None:
        self._program.stop()
        self._mapper.stop()


class Queue:
    """See common.Engine. A handle is a work's name."""

    name = "queue-rabbitmq"

    def __init__(self, broker: Broker, gate: Gate, upstream: Upstream, folder: pathlib.Path) -> None:
        self.gate, self.upstream = gate, upstream
        self._broker, self._folder = broker, folder
        self._numbers = itertools.count(1)
        self._results: dict[str, Any] = {}
        self._connection = pika.BlockingConnection(pika.URLParameters(f"{broker.url}?heartbeat=0"))
        self._channel = self._connection.channel()
        for queue in _QUEUES:
            self._channel.queue_declare(queue, durable=True)

    @contextlib.contextmanager
    def worker(self, options: WorkerOptions) -> Iterator[Program]:
        log = self._folder / f"worker-{next(self._numbers)}.log"
        arguments = [self._broker.url, self.gate.address, json.dumps(dataclasses.asdict(options))]
        command: list[object] = [sys.executable, HERE / "queue_test_worker.py", *arguments]
        with stopping(Program(command, log, {"PYTHONPATH": f"{CLIENT_PATH}:{EXAMPLES}"})) as program:
            program.wait_for("^ready")
            yield program

    def submit(self, work: Work) -> str:
        properties = pika.BasicProperties(message_id=f"{work.work}/{work.calls}", delivery_mode=2)
        self._channel.basic_publish("", "calls", json.dumps(work.json()).encode(), properties)
        return work.work

    def wait(self, handle: str, timeout_s: float) -> Any:
        result = eventually(f"{handle} has a result", lambda: self._result(handle), timeout_s)["result"]
        if result is not None:
            raise RuntimeError(result["error"])
        return None

    def _result(self, handle: str) -> Any:
        while (got := self._channel.basic_get("results", auto_ack=True))[0] is not None:
            result = json.loads(got[2])
            self._results[result["task"].rpartition("/")[0]] = result
        return self._results.get(handle)

    def asleep(self, handle: str) -> bool:
        """As the latest worker says."""
        log = max(self._folder.glob("worker-*.log"), key=lambda path: int(path.stem.rpartition("-")[2]))
        said = re.findall(rf"^(parked|finished) {re.escape(handle)}$", log.read_text(), re.MULTILINE)
        return bool(said) and said[-1] == "parked"

    # For its figures

    def parked_s(self, delay_ms: float) -> float:
        """How long a message really is in a queue that expires it."""
        back = self._channel.queue_declare("", exclusive=True).method.queue
        arguments = {"x-message-ttl": int(delay_ms), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": back}
        parked = self._channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
        began = time.monotonic()
        self._channel.basic_publish("", parked, b"")
        next(self._channel.consume(back, auto_ack=True))
        took_s = time.monotonic() - began
        self._channel.cancel()
        return took_s

    def stop(self) -> None:
        self._connection.close()
