"""REPORT.md, from the results alone: ours beside the paper's numbers, bars met and missed, and how it was measured."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bars import PAPER, Bar, bars_of, mean_of
from cells import ABLATIONS, ARMS, SCALES, TRACE
from workloads import WORKLOADS

Json = dict[str, Any]
WORKLOAD_NAMES = (*WORKLOADS, TRACE)
STACKS = {
    "driver": "Without an engine, at the paper's load (60 requests/s, 12 000 tokens/s)",
    "driver-third": "Without an engine, at a third of the load (where LiteLLM's proxy is not the bottleneck)",
    "temporal": "Temporal, at a third of the load (20 requests/s, 4 000 tokens/s)",
}
ARM_NOTES = {
    "naive": "sends, and retries 429s as provider SDKs do: 0.5 s to 8 s with jitter, never less than the hint",
    "litellm": "LiteLLM's real proxy; each tenant's key has a static slice of the cap per 60 s window; callers retry as naive. "
    "`429 %` is what the upstream answered, in brackets what callers saw (the proxy's own refusals included)",
    "tn": "Temporal's own throttle: rate limit of the task queue at the cap, priority by class, fairness key by tenant; retries as naive",
    "bp": "the paper's rule as written: discipline `buckets` on plain buckets of one window; who gets a 429 waits for the hint",
    "fairgate": "discipline `queue`, told limit, window and model; plain deferral",
    "fairgate-floor": "the same, the timer's floor of one second in force and told to the gate",
    "fairgate-hold": "the same, and the gate may hold a question for 250 ms instead of deferring it",
    "fairgate-floor-hold": "both",
    "fairgate-learnt": "as fairgate, but where the provider's windows begin is not told: learnt from the headers that Release carries",
    "fairgate-no-priority": "ablation: all classes weigh the same (the policy says so)",
    "fairgate-no-reconciliation": "ablation: Release does not tell what was used",
    "fairgate-no-tickets": "ablation: after a deferral the place is given up, and the call comes back under a new id",
}
_COLUMNS = (
    ("429 %", "share_429", 100, 1), ("Jain", "jain", 1, 3), ("min r", "min_r", 1, 2), ("max r", "max_r", 1, 2),
    ("cap used %", "cap_used", 100, 1), ("OK/s", "ok_per_s", 1, 1), ("P1 HTTP p95 ms", "p1_http_p95_ms", 1, 0),
    ("P1 first ask p95 ms", "p1_first_ask_p95_ms", 1, 0), ("deferral p95 ms", "deferral_p95_ms", 1, 0),
    ("median ms", "median_latency_ms", 1, 0), ("slot ms", "slot_ms", 1, 0), ("Admits per grant", "calls_per_grant", 1, 2),
    ("leak %", "leak", 100, 1), ("drain s", "drain_s", 1, 1), ("events per call", "events_per_call", 1, 1),
)  # fmt: skip


def _number(value: Json | None, scale: float, digits: int) -> str:
    if value is None or value.get("mean") is None:
        return ""
    text = f"{scale * value['mean']:.{digits}f}"
    if value["ci95"] is not None:
        text += f" ± {scale * value['ci95']:.{digits}f}"
    return text


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    used = [i for i in range(len(head)) if i == 0 or any(row[i] for row in rows)]
    yield "| " + " | ".join(head[i] for i in used) + " |"
    yield "| " + " | ".join("---" for _ in used) + " |"
    for row in rows:
        yield "| " + " | ".join(row[i] for i in used) + " |"
    yield ""


def _classes(values: Mapping[str, Json]) -> str:
    return " / ".join(_number(value, 1, 1) for _, value in sorted(values.items()))


def _our_row(row: Json) -> list[str]:
    mark = "" if row["valid"] else " †"
    cells = [f"{row['arm']}{mark}", str(row["repeats"]), _classes(row["ok_per_class"])]
    for _, measure, scale, digits in _COLUMNS:
        cells.append(_number(row.get(measure), scale, digits))
    cells.append(_classes(row["completion_s"]))
    if row["arm"] == "litellm":
        cells[3] += f" ({100 * row['share_429_callers']['mean']:.1f})"
    return cells


def _paper_row(arm: str, values: Mapping[str, Any]) -> list[str]:
    classes = " / ".join(f"{v:.1f}" for v in values.get("ok_per_class", ()))
    cells = [f"*paper: {arm}*", "", classes]
    for _, measure, scale, digits in _COLUMNS:
        cells.append(f"{scale * values[measure]:.{digits}f}" if measure in values else "")
    return [*cells, ""]


def _tables(rows: Sequence[Json], stack: str) -> Iterator[str]:
    head = ["arm", "repeats", "OK/s by class", *(name for name, *_ in _COLUMNS), "completion s by class"]
    for workload in WORKLOAD_NAMES:
        for window in ("fixed", "sliding", "continuous"):
            found = {r["arm"]: r for r in rows if (r["workload"], r["window"]) == (workload, window)}
            if not found:
                continue
            yield f"### {workload}" + ("" if window == "fixed" else f", {window} windows")
            yield ""
            lines = [_our_row(found[arm]) for arm in ARMS[stack] if arm in found]
            if window == "fixed" and stack == "driver":
                lines += [_paper_row(arm, values) for arm, values in PAPER.get(workload, {}).items()]
            yield from _markdown(head, lines)


def _shown(bar: Bar, arms: Mapping[str, Json]) -> str:
    bound = bar.bound(arms)
    limit = bar.says or f"{bound:g}"
    return f"{bar.measure} {bar.relation} {limit}" + (f" = {bound:.4g}" if bar.says and bound is not None else "")


def _bars(rows: Sequence[Json], stack: str) -> Iterator[str]:
    counts: collections.Counter[str] = collections.Counter()
    lines = []
    for workload in WORKLOAD_NAMES:
        for window in ("fixed", "sliding", "continuous"):
            arms = {r["arm"]: r for r in rows if (r["workload"], r["window"]) == (workload, window)}
            for arm in ("fairgate", "fairgate-hold", "fairgate-floor", "fairgate-floor-hold"):
                if arm not in arms:
                    continue
                met: list[str] = []
                missed: list[str] = []
                for bar in bars_of(stack, workload, window):
                    holds = bar.holds(arms[arm], arms)
                    if holds is None:
                        continue
                    value = mean_of(arms[arm], bar.measure)
                    (met if holds else missed).append(_shown(bar, arms) if holds else f"**{value:.4g}**, {_shown(bar, arms)}")
                counts.update(met=len(met), missed=len(missed))
                mark = "" if arms[arm]["valid"] else " †"
                lines.append([f"{workload}, {window}", arm + mark, str(len(met)), "; ".join(missed)])
    if lines:
        yield f"Bars met: {counts['met']}, missed: {counts['missed']}."
        yield ""
        yield from _markdown(["cell", "arm", "met", "missed"], lines)


def _table_one(rows: Sequence[Json], stack: str) -> Iterator[str]:
    """The paper's Table I, from what was measured on cross-priority."""
    found = {r["arm"]: r for r in rows if (r["workload"], r["window"]) == ("cross-priority", "fixed")}
    lines = []
    for arm in ARMS[stack]:
        if arm not in found or arm in ABLATIONS:
            continue
        row = found[arm]
        calls = [v["mean"] for v in row["call_ms_per_class"].values() if v["mean"] is not None]
        rates = [v["mean"] for v in row["ok_per_class"].values() if v["mean"] is not None]
        call = sum(c * r for c, r in zip(calls, rates)) / sum(rates)
        wait = max(1e-9, call - 100.0)
        held = min(1.0, max(0.0, row["slot_ms"]["mean"] - 100.0) / wait)
        refused = row["share_429_callers" if arm == "litellm" else "share_429"]["mean"]
        lines.append(
            [arm, f"{'yes' if held < 0.25 else 'no'} ({100 * held:.0f} % of the wait holds it)",
             f"{'yes' if refused < 0.01 else 'no'} ({100 * refused:.1f} % refused)"]
        )  # fmt: skip
    if lines:
        yield "### The paper's Table I, measured"
        yield ""
        yield "A wait is what a call takes beyond the upstream's own 100 ms; cross-priority."
        yield ""
        yield from _markdown(["strategy", "slot free during the wait", "wait knows the cap"], lines)


def _scripts(rows: Sequence[Json]) -> Iterator[str]:
    lines = []
    for row in rows:
        times = row["script_ms"]
        if times and row["window"] == "fixed":
            lines.append([row["workload"], row["arm"], *(_number(times.get(p), 1, 3) for p in ("p50", "p95", "p99")),
                          _number(times.get("calls"), 1, 0)])  # fmt: skip
    if lines:
        yield "### A decision in the store"
        yield ""
        yield "Milliseconds by the store's own latency statistics, Admit and Release together, at this load: caches are cold"
        yield "between decisions, unlike in `make bench-lua`. Paper: 1.5 / 4.9 / 9.0."
        yield ""
        yield from _markdown(["workload", "arm", "p50", "p95", "p99", "decisions"], lines)


def _hour(rows: Sequence[Json]) -> Iterator[str]:
    """The trace in virtual time."""
    if not rows:
        return
    yield "## The trace in virtual time"
    yield ""
    yield "`make sim-trace`: the production scripts, callers whose timers are 20 ms + Exp(30 ms) late. Times are from first ask to success, by class."
    yield ""
    lines = []
    for row in rows:
        by_class = [" / ".join(f"{v:.1f}" for v in row[key].values()) for key in ("ok_per_class", "call_p50_s", "call_p95_s")]
        calls = row["calls_per_grant"]
        lines.append(
            [f"{row['arm']}, {row['window']}", f"{row['seconds'] / 60:.0f} min, seed {row['seed']}", f"{100 * row['share_429']:.2f}",
             f"{row['jain']:.3f}", f"{row['min_r']:.2f}", f"{100 * row['cap_used']:.1f}", *by_class, f"{calls:.2f}" if calls else "",
             f"{100 * row['leak']:.1f}"]
        )  # fmt: skip
    head = ["arm, window", "run", "429 %", "Jain", "min r", "cap used %", "OK/s", "p50 s", "p95 s", "Admits per grant", "leak %"]
    yield from _markdown(head, lines)


def _conditions(rows: Sequence[Json], cells: Sequence[Json]) -> Iterator[str]:
    yield "## How it was measured"
    yield ""
    facts: dict[str, set[str]] = {}
    for cell in cells:
        for name, value in cell["machine"].items():
            facts.setdefault(name, set()).add(value)
    yield from _markdown(["", ""], [[name, "; ".join(sorted(values))] for name, values in facts.items()])
    times = sorted(cell["when"] for cell in cells)
    bad = [cell for cell in cells if not cell["valid"]]
    yield f"{len(cells)} cells from {times[0]} to {times[-1]}; the seed is the number of the repeat (1 to {max(c['cell']['repeat'] for c in cells)})."
    yield f"{len(bad)} of them are invalid: over 70 % of the cores were busy, programs of a lower priority left out, or the gate missed its store."
    yield "They count only where there is no valid repeat (†)."
    yield ""
    lines = []
    for row in rows:
        parts = ", ".join(f"{n} {_number(v, 100, 1)}" for n, v in row["load"]["by_process"].items())
        lines.append([row["stack"], f"{row['workload']}, {row['window']}", row["arm"], str(row["repeats"]), str(row["invalid_repeats"]),
                      _number(row["load"]["busy"], 100, 0), _number(row["load"]["niced"], 100, 0), _number(row["load"]["own"], 100, 0), parts,
                      _number(row["timer_late_ms"].get("p99"), 1, 1), _number(row["errors"], 1, 0)])  # fmt: skip
    yield "<details><summary>The cores, cell by cell</summary>"
    yield ""
    yield "% of all cores; the processes of the cell with their children, the load generator (`driver`, `workers`) among them."
    yield ""
    head = ["stack", "cell", "arm", "repeats", "invalid", "busy", "niced", "own", "by process", "timers late p99 ms", "errors"]
    yield from _markdown(head, lines)
    yield "</details>"
    yield ""


def report(
    rows: Sequence[Json], cells: Sequence[Json], figures: Mapping[str, Mapping[str, str]], hour: Sequence[Json] = ()
) -> str:
    """figures: stack -> title -> path. hour: rows of the trace in virtual time."""
    lines = [
        "# The paper's evaluation, ours beside it",
        "",
        "Written by `make eval` from results/*.json and results/cells; not edited by hand. Workloads, measures and the paper's numbers:",
        "arXiv 2611.02926, section VI. Means ± half of the 95 % Student-t interval over repeats. r is observed over ideal",
        "dominant share of a tenant; the ideal is weighted max-min over classes and tenants, given what each offers.",
        "Absolute times are this machine's: what compares is arms in one table.",
        "",
        *_markdown(["arm", "what it is"], [[arm, note] for arm, note in ARM_NOTES.items()]),
    ]
    for stack, title in STACKS.items():
        mine = [row for row in rows if row["stack"] == stack]
        if not mine:
            continue
        lines += [f"## {title}", "", *_bars(mine, stack)]
        for name, path in figures.get(stack, {}).items():
            lines += [f"![{name}]({path})", f"*{name}*", ""]
        lines += [*_table_one(mine, stack), *_tables(mine, stack), *_scripts(mine)]
    lines += _hour(hour)
    missing = [f"{stack}: {w}" for stack, names in (("driver", WORKLOAD_NAMES), ("temporal", WORKLOADS)) for w in names
               if not any((r["stack"], r["workload"]) == (stack, w) for r in rows)]  # fmt: skip
    if missing:
        lines += ["## Not measured yet", "", ", ".join(missing) + ". `make eval` goes on with them.", ""]
    lines += _conditions(rows, cells)
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


assert set(STACKS) == set(SCALES)
