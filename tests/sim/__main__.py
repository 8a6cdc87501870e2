"""Quick runs for tuning: python -m sim --workload noisy-estimates --window sliding --arm queue --seeds 1 --seconds 25"""

from __future__ import annotations

import argparse
import itertools
import time

from workloads import WORKLOADS

from .demand import TIMERS
from .results import mean
from .runs import Job, run_all
from .scenarios import SCENARIOS

WINDOWS = ("fixed", "sliding", "continuous")


def _line(job: Job, m: dict) -> str:
    ok = "/".join(f"{rate:.1f}" for rate in m["ok_per_class"].values())
    line = (f"{job.scenario:18} {job.window:10} {job.arm:8} 429 {100 * m['share_429']:5.2f} J {m['jain']:.4f} r {m['min_r']:.3f}"
            f"-{m['max_r']:.3f} cap {100 * m['cap_used']:5.1f} (of {100 * m['cap_ideal']:.0f}) ok {ok:14} leak {100 * m['leak']:4.1f}"
            f" calls {m['calls_per_grant']:5.2f} p95 {m['p1_p95_s']:.2f} gap {m['max_gap_s']:.2f} p99.9 {m['gap_p999_s']:.2f}"
            f" /bar {m['gap_of_bar']:.2f} wall {m['wall_s']:.1f}")
    if m["evaluations_per_grant"] != m["calls_per_grant"]:
        line += f" evals {m['evaluations_per_grant']:.2f}"
    if m["big_admits"] is not None:
        line += f" big {m['big_admits']:.1f} max {m['big_admits_max']}"
    if m["swing"] is not None:
        line += f" swing {100 * m['swing']:.0f} %"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--workload", default="all", help="names of workloads or scenarios, comma separated; all: the nine")
    parser.add_argument("--window", default=",".join(WINDOWS), help="fixed, sliding, continuous, unknown")
    parser.add_argument("--arm", default="queue", help="naive, buckets, queue, queue-MECHANISM")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--seconds", type=float, default=0.0, help="simulated; 5 of them warm up")
    parser.add_argument("--hold", type=float, default=0.0, help="max_hold in seconds")
    parser.add_argument("--lateness", default="normal", choices=sorted(TIMERS))
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--flows", action="store_true", help="print observed / ideal of each flow")
    options = parser.parse_args()
    names = list(WORKLOADS) if options.workload == "all" else options.workload.split(",")
    jobs = []
    for name in names:
        windows = options.window.split(",") if name in WORKLOADS else [""]
        for window, arm, seed in itertools.product(windows, options.arm.split(","), range(1, options.seeds + 1)):
            jobs.append(Job(name, window, arm, seed, options.lateness, options.hold, options.seconds))
    began = time.time()
    cells: dict[Job, list[dict]] = {}
    for job, result in run_all(jobs, options.processes):
        runs = cells.setdefault(job.cell(), [])
        runs.append(result)
        if len(runs) == options.seeds:
            m = mean(runs)
            print(_line(job, m), flush=True)
            if options.flows:
                print("   ", " ".join(f"{name} {r:.3f}" for name, r in m["r"].items()))
    print(f"{len(jobs)} runs in {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
