"""Writes FIGURES-restate-LANGUAGE.md: restate_figures.py [LANGUAGE]."""

from __future__ import annotations

import pathlib
import sys
import tempfile

import common
import restate_engine
import slot_figures


def main(language: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        gate, upstream, server = common.Gate(folder), common.Upstream(), restate_engine.Server(folder)
        try:
            engine = restate_engine.Restate(server, restate_engine.LANGUAGES[language](), gate, upstream, folder)
            figures = slot_figures.measure(engine)
            with engine.worker(common.WorkerOptions()):
                figures |= slot_figures.timer(lambda ms: float(engine.wait(engine.send("sleep", ms), 30)))
        finally:
            server.stop()
            upstream.stop()
            gate.stop()
    how = (
        "Written by `restate_figures.py`: restate-server 1.7.12 with one partition, a service with an inactivity\n"
        "timeout of 0, a worker and a gate on one machine. A slot is an attempt of an invocation: its HTTP request."
    )
    slot_figures.write(f"restate-{language}", f"Restate ({language})", how, figures)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "python")
