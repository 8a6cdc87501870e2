"""Simulations of the production scripts. Single cells for tuning, or a plan:

python -m sim --workload noisy-estimates --window sliding --seeds 1 --seconds 25 [--hold 0.1] [--lateness late]
python -m sim --plan quick --json build/sim.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from workloads import WORKLOADS

from . import plans
from .demand import TIMERS
from .jobs import Job
from .report import groups, make_rows, markdown_table, summary, text_table
from .results import mean
from .runs import run_all

ABOUT = """# What the simulation showed

Written by `make sim-full`; what the columns and bars mean is in README.md. The production scripts on a Valkey, in
virtual time; means of {seeds} seeds (scenarios and mechanisms: 2).
"""


def _line(job: Job, m: dict[str, Any]) -> str:
    ok = "/".join(f"{rate:.1f}" for rate in m["ok_per_class"].values())
    parts = [
        f"{job.scenario:18} {job.window:10} {job.arm:8} 429 {100 * m['share_429']:5.2f} J {m['jain']:.4f}",
        f"r {m['min_r']:.3f}-{m['max_r']:.3f} cap {100 * m['cap_used']:5.1f} (of {100 * m['cap_ideal']:.0f})",
        f"ok {ok:14} leak {100 * m['leak']:4.1f} calls {m['calls_per_grant']:5.2f} p95 {m['p1_p95_s']:.2f}",
        f"gap {m['max_gap_s']:.2f} p99.9 {m['gap_p999_s']:.2f} /bar {m['gap_of_bar']:.2f} wall {m['wall_s']:.1f}",
    ]
    if m["evaluations_per_grant"] != m["calls_per_grant"]:
        parts.append(f"evals {m['evaluations_per_grant']:.2f}")
    if m["big_admits"] is not None:
        parts.append(f"big {m['big_admits']:.1f} max {m['big_admits_max']}")
    if m["swing"] is not None:
        parts.append(f"swing {100 * m['swing']:.0f} %")
    return " ".join(parts)


def _progress(results: Iterable[tuple[Job, dict[str, Any]]], count: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    began = time.time()
    for i, result in enumerate(results, 1):
        if sys.stderr.isatty() or i % 50 == 0:
            print(
                f"\r{i} of {count} runs, {time.time() - began:.0f} s",
                end="\n" if i % 50 == 0 else "",
                file=sys.stderr,
                flush=True,
            )
        yield result


def _run_plan(options: argparse.Namespace) -> None:
    seeds = options.seeds or {"quick": 2, "full": 5}[options.plan]
    jobs = getattr(plans, options.plan)(seeds)
    began = time.time()
    unsorted = make_rows(_progress(run_all(jobs, options.processes), len(jobs)))
    order = {
        cell: i for i, cell in enumerate(dict.fromkeys((j.scenario, j.window, j.arm, j.timers, j.hold) for j in jobs))
    }
    rows = sorted(unsorted, key=lambda r: order[r["workload"], r["window_asked"], r["arm"], r["timers"], r["hold_s"]])
    for title, members in groups(rows):
        print(f"\n{title}\n{text_table(members)}")
    print(f"\n{summary(rows)} {len(jobs)} runs in {time.time() - began:.0f} s.")
    if options.json:
        pathlib.Path(options.json).write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    if options.markdown:
        parts = [ABOUT.format(seeds=seeds), summary(rows) + "\n"]
        parts += [f"## {title}\n\n{markdown_table(members)}\n" for title, members in groups(rows)]
        pathlib.Path(options.markdown).write_text("\n".join(parts))


def _run_cells(options: argparse.Namespace) -> None:
    names = list(WORKLOADS) if options.workload == "all" else options.workload.split(",")
    seeds = options.seeds or 1
    jobs = []
    for name in names:
        windows = options.window.split(",") if name in WORKLOADS else [""]
        for window, arm, seed in itertools.product(windows, options.arm.split(","), range(1, seeds + 1)):
            jobs.append(Job(name, window, arm, seed, options.lateness, options.hold, options.seconds))
    began = time.time()
    cells: dict[Job, list[dict[str, Any]]] = {}
    for job, result in run_all(jobs, options.processes):
        runs = cells.setdefault(job.cell(), [])
        runs.append(result)
        if len(runs) == seeds:
            m = mean(runs)
            print(_line(job, m), flush=True)
            if options.flows:
                print("   ", " ".join(f"{name} {r:.3f}" for name, r in m["r"].items()))
    print(f"{len(jobs)} runs in {time.time() - began:.0f} s")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the Valkeys end, too
    parser = argparse.ArgumentParser(
        prog="python -m sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", choices=("quick", "full"), help="instead of single cells")
    parser.add_argument("--json", help="file for a plan's rows")
    parser.add_argument("--markdown", help="file for a plan's tables")
    parser.add_argument(
        "--workload", default="all", help="names of workloads or scenarios, comma separated; all: the nine"
    )
    parser.add_argument("--window", default=",".join(plans.WINDOWS), help="fixed, sliding, continuous, unknown, learnt")
    parser.add_argument("--arm", default="queue", help="naive, buckets, queue, queue-MECHANISM")
    parser.add_argument("--seeds", type=int, default=0, help="how many")
    parser.add_argument("--seconds", type=float, default=0.0, help="simulated; 5 of them warm up")
    parser.add_argument("--hold", type=float, default=0.0, help="max_hold in seconds")
    parser.add_argument("--lateness", default="normal", choices=sorted(TIMERS))
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--flows", action="store_true", help="print observed / ideal of each flow")
    options = parser.parse_args()
    if options.plan:
        _run_plan(options)
    else:
        _run_cells(options)


if __name__ == "__main__":
    main()
