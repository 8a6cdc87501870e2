"""Writes FIGURES-dbos-LANGUAGE.md: dbos_figures.py [LANGUAGE]."""

from __future__ import annotations

import itertools
import pathlib
import sys
import tempfile

import common
import dbos_engine
import slot_figures

VERSIONS = {"python": "3.4.0", "typescript": "5.3.0"}


def main(language: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        gate, upstream, database = common.Gate(folder), common.Upstream(), dbos_engine.Database()
        try:
            engine = dbos_engine.Dbos(database, dbos_engine.LANGUAGES[language](), gate, upstream, folder)
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
        f"Written by `dbos_figures.py`: DBOS {VERSIONS[language]} with PostgreSQL 15, its queues polled every 50 ms, a worker and a\n"
        "gate on one machine. A slot is a place in the queue of calls, from the start of the child workflow to its end."
    )
    slot_figures.write(f"dbos-{language}", f"DBOS ({language})", how, figures)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "python")
