"""The evaluation: runs the cells that are still missing, one by one, and writes results, figures and report.

A cell that is done is a file below OUT/cells, so it may be stopped at any time and goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import cell_run
from analysis import results_of, rounded, summary_of
from cells import SCALES, Cell, full, quick
from figures import draw
from report import report
from servers import server_binary
from stubs import SOURCE_DIR

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
TRIES = 2  # of a cell during which the machine was too busy


def load_cells(out: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((out / "cells").glob("*.json"))]


def _done(out: pathlib.Path, cell: Cell) -> bool:
    path = out / "cells" / f"{cell.name}.json"
    return path.exists() and json.loads(path.read_text())["valid"]


def _run(cell: Cell, raw: pathlib.Path) -> dict[str, Any]:
    folder = raw / cell.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program = [sys.executable, cell_run.__file__, json.dumps(dataclasses.asdict(cell)), str(folder)]
    child = subprocess.Popen(program)
    try:
        status = child.wait(timeout=3 * cell.takes() + 180)
    except BaseException:
        child.terminate()
        child.wait(timeout=60)
        raise
    if status:
        raise RuntimeError(f"{cell.name} ended with {status}")
    return rounded(summary_of(folder))


def _line(summary: dict[str, Any]) -> str:
    parts = [f"429 {100 * summary['share_429']:.1f} %", f"Jain {summary['jain']:.4f}"]
    parts.append(f"r {summary['min_r']:.2f}-{summary['max_r']:.2f}")
    parts.append(f"cap {100 * summary['cap_used']:.1f} %")
    if summary["calls_per_grant"] is not None:
        parts.append(f"{summary['calls_per_grant']:.2f} Admits")
    parts.append(f"p95 {summary['p1_first_ask_p95_ms'] or 0:.0f} ms")
    load = summary["load"]
    parts.append(f"cores {100 * load['own']:.0f} % of {100 * load['busy']:.0f} % ({100 * load['niced']:.0f} % niced)")
    if summary["degraded"]:
        parts.append(f"{summary['degraded']} degraded answers")
    return ", ".join(parts) + ("" if summary["valid"] else ": INVALID, the machine was too busy")


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def run_cells(
    cells: Sequence[Cell], out: pathlib.Path, raw: pathlib.Path, until: float, tries: int = TRIES
) -> list[str]:
    """Names of the cells that failed. Stops before a cell that would end after `until`."""
    (out / "cells").mkdir(parents=True, exist_ok=True)
    todo = [cell for cell in cells if not _done(out, cell)]
    left = sum(cell.takes() for cell in todo)
    print(f"{len(todo)} of {len(cells)} cells to do, about {_span(left)}", flush=True)
    failed = []
    pace = 1.0  # how long cells take, against what was thought
    for number, cell in enumerate(todo, 1):
        if time.monotonic() + cell.takes() * pace > until:
            print("the time is over; the rest is for the next sitting")
            break
        print(f"[{number}/{len(todo)}] {cell.name}: ", end="", flush=True)
        start = time.monotonic()
        summary: dict[str, Any] | None = None
        for _ in range(tries):
            try:
                summary = _run(cell, raw)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"FAILED: {error}", flush=True)
                failed.append(cell.name)
                break
            if summary["valid"]:
                break
        if summary is not None:
            path = out / "cells" / f"{cell.name}.json"
            path.write_text(json.dumps(summary, separators=(",", ":")) + "\n")
            left -= cell.takes()
            took = time.monotonic() - start
            pace = 0.7 * pace + 0.3 * took / cell.takes()
            print(f"{_line(summary)} ({took:.0f} s; {_span(left * pace)} left)", flush=True)
    return failed


def write_results(out: pathlib.Path, page: pathlib.Path) -> None:
    """Results, figures and the report, from the summaries of all cells that are there."""
    cells = load_cells(out)
    if not cells:
        return
    rows = results_of(cells)
    figures = {}
    for stack in SCALES:
        mine = [row for row in rows if row["stack"] == stack]
        if mine:
            lines = ",\n".join(json.dumps(row) for row in mine)
            (out / f"{stack}.json").write_text(f"[\n{lines}\n]\n")
            folder = out / "figures"
            place = folder.relative_to(page.parent)
            drawn = draw(mine, cells, stack, folder)
            figures[stack] = {title: str(place / name) for title, name in drawn.items()}
    hour = SOURCE_DIR / "tests" / "sim" / "trace.json"
    simulated = json.loads(hour.read_text()) if out == RESULTS and hour.exists() else []
    page.write_text(report(rows, cells, figures, simulated))
    print(f"report: {page}")


def chosen(options: argparse.Namespace) -> list[Cell]:
    cells = quick() if options.quick else full(options.repeats)
    return [
        cell
        for cell in cells
        if all(any(text in f".{cell.name}." for text in word.split(",")) for word in options.only)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three workloads, once, below 5 minutes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        metavar="TEXT",
        help="cells whose name, .STACK.WORKLOAD.WINDOW.ARM.REPEAT., has all of the texts; one,or,another",
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after so long")
    parser.add_argument("--list", action="store_true", help="name the cells and do nothing")
    parser.add_argument("--no-run", action="store_true", help="results and report only")
    parser.add_argument("--out", type=pathlib.Path, help="instead of tests/eval/results")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    until = time.monotonic() + 60 * options.minutes
    cells = chosen(options)
    if options.list:
        print("\n".join(cell.name for cell in cells))
        print(f"{len(cells)} cells, about {_span(sum(cell.takes() for cell in cells))}")
        return
    build = SOURCE_DIR / "build"
    out = options.out or (build / "eval-quick" if options.quick else RESULTS)
    if options.quick and not options.no_run:
        shutil.rmtree(out, ignore_errors=True)
    failed: list[str] = []
    if not options.no_run:
        try:
            server_binary()
        except FileNotFoundError as error:
            parser.error(str(error))
        failed = run_cells(cells, out, build / "eval", until, 1 if options.quick else TRIES)
    write_results(out, out / "REPORT.md" if out != RESULTS else HERE / "REPORT.md")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
