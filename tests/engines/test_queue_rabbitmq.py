"""The recipe for message queues, on RabbitMQ."""

import json
import sys

import common
import pika
import pytest
import queue_engine
from engine_suite import *

sys.path.insert(0, str(queue_engine.EXAMPLES))


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    broker = queue_engine.Broker(tmp_path_factory.mktemp("rabbitmq"))
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def engine(broker, gate, upstream, tmp_path_factory):
    engine = queue_engine.Queue(broker, gate, upstream, tmp_path_factory.mktemp("workers"))
    yield engine
    engine.stop()


def test_delays_are_few_and_not_too_short():
    from queue_worker import DELAYS_MS, rounded_up

    rounded = {asked_ms: rounded_up(asked_ms) for asked_ms in range(16, 300_001)}
    assert all(asked_ms <= delay_ms <= asked_ms * 1.25 for asked_ms, delay_ms in rounded.items())
    assert len(DELAYS_MS) == 60
    assert rounded_up(1) == 16
    assert rounded_up(10**9) == DELAYS_MS[-1]


def test_example(engine, broker, tmp_path):
    """The example as it is, with a task that nobody will ever let go."""
    tokens = {"name": "tokens", "limit": 1500, "window": "3s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    engine.gate.configure("queue-example", dimensions=[common.DIMENSION, tokens])
    command = [sys.executable, queue_engine.EXAMPLES / "queue_worker.py", broker.url, engine.gate.address, "2"]
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    program = common.Program(command, tmp_path / "example.log", {"PYTHONPATH": common.CLIENT_PATH})
    results = {}

    def all_there():
        assert program.running, program.text()
        while (got := channel.basic_get("results", auto_ack=True))[0] is not None:
            result = json.loads(got[2])
            results[result["task"]] = result["result"]
        return len(results) == 6

    try:
        for number in range(6):
            tokens = 900 if number < 5 else 9_000_000
            task = {"target": "queue-example", "tenant": "acme", "tokens": tokens, "prompt": f"hello {number}"}
            properties = pika.BasicProperties(message_id=f"example/{number}")
            channel.basic_publish("", "calls", json.dumps(task).encode(), properties)
        common.eventually("all have a result", all_there)
    finally:
        program.stop()
        connection.close()
    assert [results[f"example/{number}"] for number in range(5)] == [f"HELLO {number}" for number in range(5)]
    assert "COST_EXCEEDS_CAP" in results["example/5"]["error"]
    assert engine.gate.state("queue-example")["admits_total"] > 6
