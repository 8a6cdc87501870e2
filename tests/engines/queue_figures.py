"""Writes FIGURES-queue-rabbitmq.md."""

from __future__ import annotations

import pathlib
import tempfile

import common
import queue_engine
import slot_figures


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        gate, upstream, broker = common.Gate(folder), common.Upstream(), queue_engine.Broker(folder)
        try:
            engine = queue_engine.Queue(broker, gate, upstream, folder)
            figures = slot_figures.measure(engine)
            figures |= slot_figures.timer(engine.parked_s)
            engine.stop()
        finally:
            broker.stop()
            upstream.stop()
            gate.stop()
    how = (
        "Written by `queue_figures.py`: RabbitMQ 3.10, a worker and a gate on one machine. A slot is an\n"
        "unacknowledged task, from its delivery to the commit that parks it. A sleep is a message's time in the\n"
        "queue that expires it."
    )
    slot_figures.write("queue-rabbitmq", "Message queue (RabbitMQ)", how, figures)


if __name__ == "__main__":
    main()
