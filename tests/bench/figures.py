"""From the rounds of each arm to medians, ceilings and bars, and a table of them for people."""

from __future__ import annotations

import statistics
from typing import Any

ECHOES = ("echo_callback", "echo_cq1", "echo_cq2")  # the bare ones
SHARE_BAR = 0.70  # of what echo and plain script together allow
P50_BAR = 1.5  # times the sum of both, one call in flight
GHZ_BARS = {"calls_per_s": 16700.0, "p99_ms": 7.9}
GHZ_AIM = 23400.0
# Rounds of an arm and level: what each run of a load generator printed, and what was read beside it.
Rounds = dict[str, dict[int, list[dict[str, Any]]]]


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summarize(rounds: Rounds) -> dict[str, dict[str, Any]]:
    """Median, least and greatest of every number over the rounds, by arm and calls in flight."""
    return {
        arm: {
            str(level): {key: spread([float(run[key]) for run in runs]) for key in runs[0]}
            for level, runs in levels.items()
        }
        for arm, levels in rounds.items()
    }


def _median(arms: dict[str, Any], arm: str, level: int, key: str) -> float:
    return arms[arm][str(level)][key]["median"]


def best_echo(arms: dict[str, Any], level: int, key: str = "calls_per_s") -> str:
    """The echo server that is best at the level; `key` calls_per_s (most) or a latency (least)."""
    pick = max if key == "calls_per_s" else min
    return pick((e for e in ECHOES if e in arms), key=lambda echo: _median(arms, echo, level, key))


def shares(rounds: Rounds, arm: str, level: int, echo: str) -> list[float]:
    """Share of the ceiling, round by round: what was noisy was noisy for all."""
    parts = zip(rounds[arm][level], rounds[echo][level], rounds["script"][level], strict=True)
    return [a["calls_per_s"] * (1 / e["calls_per_s"] + 1 / s["calls_per_s"]) for a, e, s in parts]


def figures(rounds: Rounds, levels: list[int]) -> dict[str, Any]:
    arms = summarize(rounds)
    out: dict[str, Any] = {}
    for level in levels:
        echo = best_echo(arms, level)
        calls = {
            "echo": _median(arms, echo, level, "calls_per_s"),
            "script": _median(arms, "script", level, "calls_per_s"),
            "admit": _median(arms, "admit", level, "calls_per_s"),
        }
        ceiling = 1 / (1 / calls["echo"] + 1 / calls["script"])
        by_round = shares(rounds, "admit", level, echo)
        quickest = best_echo(arms, level, "p50_us")
        floor_us = _median(arms, quickest, level, "p50_us") + _median(arms, "script", level, "p50_us")
        out[str(level)] = {
            "best_echo": echo,
            **{f"{name}_calls_per_s": value for name, value in calls.items()},
            "ceiling_calls_per_s": ceiling,
            "share": calls["admit"] / ceiling,
            "share_min": min(by_round),
            "share_max": max(by_round),
            "p50_us": _median(arms, "admit", level, "p50_us"),
            "floor_p50_us": floor_us,
            "p50_ratio": _median(arms, "admit", level, "p50_us") / floor_us,
        }
    return out


def bars(found: dict[str, Any], ghz: dict[str, float] | None) -> list[dict[str, Any]]:
    """What was promised, and whether it is kept."""
    out: list[dict[str, Any]] = []

    def bar(name: str, value: float, limit: float, most: bool = False) -> None:
        met = value <= limit if most else value >= limit
        out.append({"name": name, "value": value, "bar": limit, "at_most": most, "met": met})

    for level in (level for level in ("64", "256") if level in found):
        bar(f"share of the ceiling, {level} in flight", found[level]["share"], SHARE_BAR)
    if "1" in found:
        bar("p50 by the sum of both, 1 in flight", found["1"]["p50_ratio"], P50_BAR, most=True)
    if ghz is not None:
        bar("ghz, 64 in flight: calls/s", ghz["calls_per_s"], GHZ_BARS["calls_per_s"])
        bar("ghz, 64 in flight: calls/s, the aim", ghz["calls_per_s"], GHZ_AIM)
        bar("ghz, 64 in flight: p99 in ms", ghz["p99_ms"], GHZ_BARS["p99_ms"], most=True)
    return out


def table(result: dict[str, Any]) -> str:
    """The arms and the bars as text."""
    lines = [
        f"{'arm':<15} {'in flight':>9} {'calls/s':>9} {'min':>8} {'max':>8} {'p50 us':>8} {'p99 us':>8} "
        f"{'script us':>9}  CPU us per call: server, valkey, load"
    ]
    for arm, levels in result["arms"].items():
        for level, run in levels.items():
            calls = run["calls_per_s"]
            cost = [run.get(key, {}).get("median") for key in ("script_us", "server_us", "valkey_us", "load_us")]
            text = [f"{value:.1f}" if value is not None else "-" for value in cost]
            lines.append(
                f"{arm:<15} {level:>9} {calls['median']:>9.0f} {calls['min']:>8.0f} {calls['max']:>8.0f} "
                f"{run['p50_us']['median']:>8.0f} {run['p99_us']['median']:>8.0f} {text[0]:>9}  {' '.join(f'{t:>7}' for t in text[1:])}"
            )
    lines.append("")
    commands = result["commands"]
    shared = ", ".join(f"{count:.1f} with {level} in flight" for level, count in commands.get("per_admit", {}).items())
    lines.append(f"commands per granted Admit: {shared}; in the plain script {commands['plain']}")
    for level, found in result["figures"].items():
        lines.append(
            f"{level:>4} in flight: ceiling {found['ceiling_calls_per_s']:.0f}/s (echo {found['best_echo']}), "
            f"share {found['share']:.2f} ({found['share_min']:.2f} to {found['share_max']:.2f}), "
            f"p50 {found['p50_us']:.0f} us = {found['p50_ratio']:.2f} x {found['floor_p50_us']:.0f} us"
        )
    for bar in result["bars"]:
        sign = "<=" if bar["at_most"] else ">="
        lines.append(f"{'met   ' if bar['met'] else 'MISSED'} {bar['name']}: {bar['value']:.2f} {sign} {bar['bar']:g}")
    return "\n".join(lines)
