"""Rows of cells: as JSON, as a table for the terminal and for RESULTS.md, each held against its bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .bars import bars_of
from .jobs import Job
from .results import mean
from .scenarios import find

Row = dict[str, Any]
# Measures in the order in which rows show them.
_FIRST = (
    "share_429",
    "jain",
    "cap_used",
    "ok_per_class",
    "leak",
    "calls_per_grant",
    "p1_p95_s",
    "drain_ratio",
    "max_gap_s",
    "min_r",
    "max_r",
    "min_r_call",
    "gap_p999_s",
    "gap_of_bar",
    "cap_ideal",
    "evaluations_per_grant",
    "rejects",
    "big_admits",
    "big_admits_max",
    "swing",
    "wall_s",
)


def job_of(row: Mapping[str, Any]) -> Job:
    """The cell that a row was made from."""
    return Job(
        row["workload"],
        row["window_asked"],
        row["arm"],
        0,
        row["timers"],
        row["hold_s"],
        row["seconds"],
        row["drain_ratio"] is not None,
    )


def _window_of(scenario: str) -> str:
    found = find(scenario)
    told = {"sliding": "unknown", "fixed_learnt": "learnt"}
    return told[found.told] if found.told else found.window


def make_rows(results: Iterable[tuple[Job, dict[str, Any]]]) -> list[Row]:
    cells: dict[Job, dict[int, dict[str, Any]]] = {}
    for job, result in results:
        cells.setdefault(job.cell(), {})[job.seed] = result
    means = {cell: mean([runs[seed] for seed in sorted(runs)]) for cell, runs in cells.items()}
    rows = []
    for cell, m in means.items():
        row: Row = {
            "workload": cell.scenario,
            "window": cell.window or _window_of(cell.scenario),
            "arm": cell.arm,
            "timers": cell.timers,
            "hold_s": cell.hold,
            "seed_count": len(cells[cell]),
        }
        row |= {key: _rounded(m[key]) for key in _FIRST}
        row |= {"window_asked": cell.window, "seconds": cell.seconds}
        for name, measure, arm in (
            ("drain_against_naive", "drain_ratio", "naive"),
            ("p1_against_buckets", "p1_p95_s", "buckets"),
        ):
            other = next(
                (
                    o
                    for c, o in means.items()
                    if (c.scenario, c.window, c.arm, c.timers, c.hold, c.drain)
                    == (cell.scenario, cell.window, arm, cell.timers, cell.hold, cell.drain)
                ),
                None,
            )
            if other and other[measure] and m[measure]:
                row[name] = _rounded(m[measure] / other[measure])
        bars = bars_of(cell, find(cell.scenario, cell.window).window)
        row["bars"] = len(bars)
        row["missed"] = [bar.text(row) for bar in bars if not bar.holds(row)]
        rows.append(row)
    return rows


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(v) for key, v in value.items()}
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value


_COLUMNS = (
    "workload",
    "window",
    "arm",
    "429 %",
    "Jain",
    "r",
    "cap %",
    "OK/s",
    "leak %",
    "calls",
    "P1 p95 s",
    "drain",
    "gap s",
    "gap/bar",
    "bars",
)


def _plain(value: float | None, digits: int, scale: float = 1.0) -> str:
    return "-" if value is None else f"{scale * value:.{digits}f}"


def _cells(row: Row) -> list[str]:
    r = "-" if row["min_r"] is None else f"{row['min_r']:.3f}-{row['max_r']:.3f}"
    verdict = "" if not row["bars"] else "pass" if not row["missed"] else "MISS " + ", ".join(row["missed"])
    cap = _plain(row["cap_used"], 1, 100)
    if row["cap_ideal"] is not None and row["cap_ideal"] < 0.99:
        cap += f" of {100 * row['cap_ideal']:.0f}"
    return [
        row["workload"].partition("/")[0],
        row["window"],
        row["arm"],
        _plain(row["share_429"], 2, 100),
        _plain(row["jain"], 4),
        r,
        cap,
        " / ".join(f"{rate:.1f}" for rate in row["ok_per_class"].values()),
        _plain(row["leak"], 1, 100),
        _plain(row["calls_per_grant"], 2),
        _plain(row["p1_p95_s"], 2),
        _plain(row["drain_ratio"], 2),
        _plain(row["max_gap_s"], 1),
        _plain(row["gap_of_bar"], 2),
        verdict,
    ]


def text_table(rows: Sequence[Row]) -> str:
    lines = [list(_COLUMNS)] + [_cells(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_COLUMNS) - 1)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)) + "  " + line[-1] for line in lines
    )


def markdown_table(rows: Sequence[Row]) -> str:
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *(_cells(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def groups(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Titles with their rows."""

    def title(row: Row) -> str:
        if "-" in row["arm"]:
            return "One mechanism off"
        if not row["window_asked"]:
            return "Scenarios"
        if row["drain_ratio"] is not None:
            return "Workloads"
        if row["timers"] == "late":
            return "Timers 200 ms + Exp(300 ms) late"
        if row["timers"] == "floor":
            return "Timers with a floor of 1 s" + (f", max_hold {1000 * row['hold_s']:.0f} ms" if row["hold_s"] else "")
        return f"max_hold {1000 * row['hold_s']:.0f} ms" if row["hold_s"] else "Fixed windows of unknown or learnt phase"

    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(title(row), []).append(row)
    for members in out.values():
        members.sort(key=lambda row: (row["workload"], row["window"], row["arm"]) if "-" in row["arm"] else ())
    return list(out.items())


def summary(rows: Sequence[Row]) -> str:
    judged = [row for row in rows if row["bars"]]
    held = sum(row["bars"] - len(row["missed"]) for row in judged)
    return (
        f"{sum(not row['missed'] for row in judged)} of {len(judged)} cells with bars pass; "
        f"{held} of {sum(row['bars'] for row in judged)} bars hold."
    )
