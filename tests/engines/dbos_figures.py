"""Writes FIGURES-dbos-python.md."""

from __future__ import annotations

import itertools
import pathlib
import tempfile

import common
import dbos_engine
import slot_figures


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        gate, upstream, database = common.Gate(folder), common.Upstream(), dbos_engine.Database()
        try:
            engine = dbos_engine.Dbos(database, gate, upstream, folder)
            figures = slot_figures.measure(engine, lambda _, prefix: engine.held_ms(prefix))
            numbers = itertools.count()
            with engine.worker(common.WorkerOptions()):
                figures |= slot_figures.timer(
                    lambda ms: float(engine.wait(engine.start("sleep", f"sleep-{next(numbers)}", ms), 30))
                )
            engine.stop()
        finally:
            database.stop()
            upstream.stop()
            gate.stop()
    how = (
        "Written by `dbos_figures.py`: DBOS 3.4.0 with PostgreSQL 15, its queues polled every 50 ms, a worker and a\n"
        "gate on one machine. A slot is a place in the queue of calls, from the start of the child workflow to its end."
    )
    slot_figures.write("dbos-python", "DBOS (Python)", how, figures)


if __name__ == "__main__":
    main()
