"""From raw records to a cell's summary, and from summaries to results: means with 95 % Student-t intervals."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import pandas
from scipy import stats

import records
from cell_run import ANSWERS, META, RECORDS
from cells import Cell
from machine import Load
from measures import achievement, ideal_rates, jain
from workloads import Workload

QUANTILES = 51  # points of a distribution that a summary keeps
Json = dict[str, Any]


def table_of(calls: Sequence[records.Record]) -> pandas.DataFrame:
    """One row per call."""
    rows = [
        {
            "tenant": r.tenant,
            "priority": r.priority,
            "worker": r.worker,
            "draining": r.draining,
            "ok": r.ok,
            "asked": r.asked,
            "granted": r.granted,
            "first_send": r.sends[0].start if r.sends else math.nan,
            "end": r.sends[-1].end if r.sends else math.nan,
            "sends": len(r.sends),
            "admits": r.admits,
            "grants": r.grants,
            "degraded": r.degraded,
            "slot_ms": 1000 * r.slot_s,
            "tokens": r.tokens,
            "events": r.events,
            "error": r.error,
        }
        for r in calls
    ]
    return pandas.DataFrame(rows)


def _quantile(values: pandas.Series, part: float) -> float:
    return float(numpy.quantile(values, part)) if len(values) else math.nan


def _distribution(values: pandas.Series) -> list[int]:
    if not len(values):
        return []
    return [round(v) for v in numpy.quantile(values, numpy.linspace(0, 1, QUANTILES))]


def fairness(
    ok: pandas.DataFrame, load: Workload, seconds: float, demand: Mapping[str, float] | None = None
) -> Json:
    """Shares against the ideal: weighted max-min of dominant shares, given what each tenant offers.

    demand: calls/s by tenant without caps, where it was measured.
    """
    sums = ok.groupby("tenant").agg(requests=("ok", "size"), tokens=("tokens", "sum"))
    sums = sums.reindex([t.name for t in load.tenants], fill_value=0)
    used = sums[list(load.caps)] / seconds / pandas.Series(load.caps)
    queues = load.queues(demand)
    rates = ideal_rates(queues, load.caps)
    due = {q.tenant: rate * q.dominant(load.caps) for q, rate in zip(queues, rates)}
    share = used.max(axis=1).to_dict()
    r = achievement(share, due)
    ideal_use = {
        name: sum(rate * q.cost.get(name, 0.0) for q, rate in zip(queues, rates)) / cap
        for name, cap in load.caps.items()
    }
    classes = {t.name: t.priority for t in load.tenants}
    return {
        "jain": jain(list(r.values())),
        "min_r": min(r.values()),
        "max_r": max(r.values()),
        "r": r,
        "cap_used": float(used.sum().max()),
        "cap_ideal": min(1.0, max(ideal_use.values())),
        "leak": _leak(share, due, classes),
    }


def _leak(
    share: Mapping[str, float], due: Mapping[str, float], classes: Mapping[str, str]
) -> float:
    """Part of the service that went to another class than the ideal says."""
    whole, whole_due = sum(share.values()), sum(due.values())
    if not whole or not whole_due:
        return math.nan
    off = 0.0
    for name in set(classes.values()):
        mine = [t for t, c in classes.items() if c == name]
        off += abs(sum(share[t] for t in mine) / whole - sum(due[t] for t in mine) / whole_due)
    return off / 2


def latencies(ok: pandas.DataFrame) -> Json:
    http = 1000 * (ok["end"] - ok["first_send"])
    whole = 1000 * (ok["end"] - ok["asked"])
    deferral = 1000 * (ok["first_send"] - ok["asked"])
    first = ok["priority"] == ok["priority"].min() if len(ok) else ok["ok"]
    classes = sorted(ok["priority"].unique())
    return {
        "p1_http_p95_ms": _quantile(http[first], 0.95),
        "p1_first_ask_p95_ms": _quantile(whole[first], 0.95),
        "p1_deferral_p95_ms": _quantile(deferral[first], 0.95),
        "deferral_p95_ms": _quantile(deferral, 0.95),
        "median_latency_ms": _quantile(whole, 0.5),
        "slot_ms": float(ok["slot_ms"].mean()) if len(ok) else math.nan,
        "call_ms_per_class": {c: float(whole[ok["priority"] == c].mean()) for c in classes},
        "latency_quantiles_ms": {c: _distribution(whole[ok["priority"] == c]) for c in classes},
        "deferral_quantiles_ms": {c: _distribution(deferral[ok["priority"] == c]) for c in classes},
    }


def drain(calls: pandas.DataFrame, begin: float | None, load: Workload) -> Json:
    """After the window every workflow does the same number of calls: how long until the last is through."""
    rest = calls[calls["draining"] & calls["ok"]] if begin is not None else calls[:0]
    if begin is None or not len(rest):
        return {"drain_s": math.nan, "drain_of_ideal": math.nan, "completion_s": {}}
    amounts = {"requests": float(len(rest)), "tokens": float(rest["tokens"].sum())}
    needed = max(amounts[name] / cap for name, cap in load.caps.items())
    each = len(rest) / rest["worker"].nunique()
    own_pace = max(each / t.demand() * t.concurrency for t in load.tenants)
    span = float(rest["end"].max()) - begin
    last = rest.groupby(["priority", "worker"])["end"].max() - begin
    return {
        "drain_s": span,
        "drain_of_ideal": span / max(needed, own_pace),
        "completion_s": last.groupby("priority").mean().to_dict(),
    }


def share_429(answers: pandas.DataFrame) -> float:
    return float((answers["status"] == 429).mean()) if len(answers) else math.nan


def summary_of(folder: pathlib.Path) -> Json:
    """A cell's summary from its raw files."""
    meta = json.loads((folder / META).read_text())
    load = Cell(**meta["cell"]).load
    begin, end = meta["begin"], meta["end"]
    raw = records.read(folder / RECORDS)
    calls = table_of(raw)
    answers = pandas.read_csv(folder / ANSWERS, sep=" ", names=["at", "status"])
    inside = calls["ok"] & ~calls["draining"] & calls["end"].between(begin, end, inclusive="left")
    ok = calls[inside]
    sends = [s.status for r in raw for s in r.sends if begin <= s.end < end]
    grants = ok["grants"].sum()
    degraded = int(calls["degraded"].sum())
    seconds = end - begin
    served = pandas.crosstab(ok["tenant"], ((ok["end"] - begin) // 1).astype(int))
    served = served.reindex(columns=range(math.ceil(seconds)), fill_value=0)
    by_class = ok.groupby("priority").size() / seconds
    return {
        "cell": meta["cell"],
        "share_429": share_429(answers[answers["at"].between(begin, end, inclusive="left")]),
        "share_429_callers": sends.count(429) / max(1, len(sends)),
        "ok_per_class": by_class.to_dict(),
        "ok_per_s": len(ok) / seconds,
        "calls_per_grant": float(ok["admits"].sum() / grants) if grants else math.nan,
        "events_per_call": float(ok.loc[ok["events"] > 0, "events"].mean()),  # 0: not told yet
        "errors": int((calls["error"] != "").sum()),
        "degraded": degraded,
        **fairness(ok, load, seconds, meta.get("demand")),
        **latencies(ok),
        **drain(calls, meta["drain_begin"], load),
        "script_ms": meta["script_ms"],
        "timer_late_ms": meta["timer_late_ms"],
        "queued_ms": meta.get("queued_ms", {}),
        "served": {tenant: row.tolist() for tenant, row in served.iterrows()},
        "load": meta["load"],
        # A gate that missed its store was not running freely, whatever the mean of the cores' use is.
        "valid": Load(**meta["load"]).valid and not degraded,
        "when": meta["when"],
        "machine": meta["machine"],
    }


def rounded(value: Any) -> Any:
    """Six digits are enough; what is not a number has no JSON."""
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value


def interval(values: Sequence[float]) -> Json:
    """Mean, and half of its 95 % Student-t interval (null: one value has none)."""
    mean = float(numpy.mean(values))
    if len(values) < 2:
        return {"mean": mean, "ci95": math.nan}
    spread = float(numpy.std(values, ddof=1)) / math.sqrt(len(values))
    return {"mean": mean, "ci95": float(stats.t.ppf(0.975, len(values) - 1)) * spread}


MEASURES = (
    "share_429", "share_429_callers", "jain", "min_r", "max_r", "cap_used", "cap_ideal", "leak",
    "ok_per_class", "ok_per_s", "p1_http_p95_ms", "p1_first_ask_p95_ms", "p1_deferral_p95_ms",
    "deferral_p95_ms", "median_latency_ms", "slot_ms", "call_ms_per_class", "calls_per_grant",
    "events_per_call", "drain_s", "drain_of_ideal", "completion_s", "script_ms", "timer_late_ms",
    "queued_ms",
    "r", "errors", "degraded",
)  # fmt: skip


def _together(values: Sequence[Any]) -> Any:
    if isinstance(values[0], dict):
        keys = sorted({key for value in values for key in value})
        return {key: _together([value.get(key) for value in values]) for key in keys}
    known = [float(value) for value in values if value is not None]
    return interval(known) if known else {"mean": math.nan, "ci95": math.nan}


def _row(cells: list[Json]) -> Json:
    """Repeats of one cell. Where none is valid the others stand in, marked."""
    valid = [c for c in cells if c["valid"]]
    used = valid or cells
    first = used[0]["cell"]
    return {
        "stack": first["stack"],
        "workload": first["workload"],
        "window": first["window"],
        "arm": first["arm"],
        "repeats": len(used),
        "seeds": sorted(c["cell"]["repeat"] for c in used),
        "valid": bool(valid),
        "invalid_repeats": len(cells) - len(valid),
        "seconds": first["seconds"],
        **{name: _together([c[name] for c in used]) for name in MEASURES},
        "load": {
            "busy": _together([c["load"]["busy"] for c in used]),
            "niced": _together([c["load"]["niced"] for c in used]),
            "own": _together([c["load"]["own"] for c in used]),
            "by_process": _together([c["load"]["by_process"] for c in used]),
        },
    }


def results_of(cells: Sequence[Json]) -> list[Json]:
    groups: dict[tuple[str, ...], list[Json]] = {}
    for cell in cells:
        c = cell["cell"]
        groups.setdefault((c["stack"], c["workload"], c["window"], c["arm"]), []).append(cell)
    return [rounded(_row(group)) for group in groups.values()]
