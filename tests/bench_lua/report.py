"""Bars and tables of what was measured."""

from __future__ import annotations

from typing import Any

Cell = tuple[int, int, int]
COLUMNS = {
    "decisions_per_s": "decisions/s",
    "mean_us": "mean us",
    "p50_us": "p50 us",
    "p99_us": "p99 us",
    "cpu_us": "CPU us",
    "commands": "commands",
}
FLOW_BARS = {100_000: 1.2, 1_000_000: 1.4}  # against 10 flows
BARE_BAR = 2.5
AIMS = {"p50_us": 40.0, "p99_us": 150.0, "decisions_per_s": 25_000.0}
MIDDLE: Cell = (1000, 10, 2)
SHARED = (4, 32)  # questions that share an evaluation; figures of those rows are for one question each


def name_of(kind: str, cell: Cell) -> str:
    return f"{kind} {cell[0]} flows {cell[1]} active {cell[2]} dims"


def shared_name(questions: int) -> str:
    return f"grant {MIDDLE[0]} flows {MIDDLE[1]} active {MIDDLE[2]} dims, {questions} an evaluation"


def bars(arms: dict[str, dict[str, float]], cells: list[Cell]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []

    def bar(name: str, value: float, limit: float, at_most: bool = True) -> None:
        met = value <= limit if at_most else value >= limit
        out.append({"name": name, "value": value, "bar": limit, "at_most": at_most, "met": met})

    first = (10, 10, 2)
    for flows, limit in FLOW_BARS.items():
        for kind in ("grant", "defer", "return", "release"):
            if first in cells and (flows, 10, 2) in cells:
                ratio = arms[name_of(kind, (flows, 10, 2))]["mean_us"] / arms[name_of(kind, first)]["mean_us"]
                bar(f"{kind}, {flows} flows by 10", ratio, limit)
    grant = arms[name_of("grant", MIDDLE)]
    for key in ("p50_us", "mean_us"):
        bar(f"grant by the bare script, {COLUMNS[key]}", grant[key] / arms["bare"][key], BARE_BAR)
    most = max(SHARED)
    bar(f"grant, {most} an evaluation, by the bare script, mean us", arms[shared_name(most)]["mean_us"] / arms["bare"]["mean_us"],
        BARE_BAR)  # fmt: skip
    for key, limit in AIMS.items():
        bar(f"grant, the aim: {COLUMNS[key]}", grant[key], limit, key != "decisions_per_s")
    return out


def _rows(result: dict[str, Any]) -> list[list[str]]:
    return [
        [name, *(f"{run[key]:.0f}" if key == "decisions_per_s" else f"{run[key]:.1f}" for key in COLUMNS)]
        for name, run in result["arms"].items()
    ]


def _bar_text(bar: dict[str, Any]) -> str:
    sign = "<=" if bar["at_most"] else ">="
    return f"{'pass' if bar['met'] else 'MISS'} {bar['name']}: {bar['value']:.2f} {sign} {bar['bar']:g}"


def table(result: dict[str, Any]) -> str:
    lines = [f"{'':<44}" + "".join(f"{title:>15}" for title in COLUMNS.values())]
    lines += [f"{row[0]:<44}" + "".join(f"{cell:>15}" for cell in row[1:]) for row in _rows(result)]
    lines += ["", f"commands of the bare script: {result['commands']['bare']}"]
    return "\n".join([*lines, *map(_bar_text, result["bars"])])


def markdown(result: dict[str, Any]) -> str:
    head = ["", *COLUMNS.values()]
    lines = [
        "# Cost of a decision in the store",
        "",
        "Written by `make bench-lua`; README.md says what each row is.",
        "",
    ]
    lines += [
        "| condition | |",
        "| --- | --- |",
        *(f"| {key} | {value} |" for key, value in result["conditions"].items()),
    ]
    lines += [f"| commands of a grant | {', '.join(result['commands']['names'])} |"]
    lines += ["", f"| {' | '.join(head)} |", f"| {' | '.join(['---'] + ['---:'] * len(COLUMNS))} |"]
    lines += [f"| {' | '.join(row)} |" for row in _rows(result)]
    lines += ["", "| bar | measured | |", "| --- | ---: | --- |"]
    for bar in result["bars"]:
        sign = "≤" if bar["at_most"] else "≥"
        lines.append(
            f"| {bar['name']} {sign} {bar['bar']:g} | {bar['value']:.2f} | {'pass' if bar['met'] else 'MISS'} |"
        )
    return "\n".join(lines) + "\n"
