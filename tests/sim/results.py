"""From an engine's counts to the measures of a run, and to means over seeds."""

from __future__ import annotations

import bisect
import dataclasses
import heapq
import math
from collections.abc import Sequence
from typing import Any

from measures import Queue, ideal_rates, jain, percentile

from .demand import CLASSES
from .engine import Engine, Source

LONGEST = 30  # gaps of a flow that a run hands on: enough for the p99.9 of 30 000


def _mean_cost(source: Source) -> list[float]:
    if source.offered:
        return [total / source.offered for total in source.offered_cost]
    return list(source.flow.draw(source.rng, source.drawn)[1])


def _demand(engine: Engine, source: Source, seconds: float) -> float:
    """Calls/s that the flow would do without caps, in the mean of the measured time."""
    flow = source.flow
    if flow.rate:
        return source.offered / seconds
    begin, end = max(flow.start, engine.scenario.warm_up), min(flow.stop, engine.scenario.seconds)
    present = max(0.0, end - begin) / seconds * (flow.on_off[1] if flow.on_off else 1.0)
    return flow.workers / (sum(flow.latency) / 2 + flow.think) * present


def ideal_shares(engine: Engine, seconds: float) -> dict[Source, float]:
    """Dominant share due to each shared flow: weighted DRF max-min, given what was offered."""
    scenario = engine.scenario
    sources = [s for s in engine.sources if s.flow.shared]
    if scenario.ideal_share:
        return {s: scenario.ideal_share[s.flow.name] for s in sources if s.flow.name in scenario.ideal_share}
    queues = []
    for s in sources:
        cost = dict(zip(engine.names, _mean_cost(s)))
        queue = Queue(
            s.flow.name,
            s.flow.cls,
            CLASSES[s.flow.cls],
            scenario.ideal_weight.get(s.flow.name, s.flow.weight),
            cost,
            _demand(engine, s, seconds),
        )
        ceiling = scenario.tenant_caps.get(s.flow.name, {})
        most = min([queue.demand] + [cap / cost[d] for d, cap in ceiling.items() if cost[d] > 0])
        queues.append(dataclasses.replace(queue, demand=most))
    final = dict(scenario.caps)
    for change in scenario.changes:
        final.update(change.caps)
    rates = ideal_rates(queues, final)
    return {s: rate * q.dominant(final) for s, q, rate in zip(sources, queues, rates)}


def measure(engine: Engine) -> dict[str, Any]:
    """One run's measures; shares are of the caps that hold at the end."""
    scenario, counts = engine.scenario, engine.counts
    seconds = engine.now - scenario.warm_up
    caps = dict(scenario.caps)
    for change in scenario.changes:
        caps.update(change.caps)
    limits = list(caps.values())
    ideal = ideal_shares(engine, seconds)
    share = {}
    use_ideal = [0.0] * len(limits)
    for s in engine.sources:
        cost = _mean_cost(s)
        dominant = max(range(len(limits)), key=lambda d: cost[d] / limits[d])
        share[s] = s.ok_cost[dominant] / seconds / limits[dominant]
        if s in ideal and cost[dominant] > 0:
            for d, limit in enumerate(limits):
                use_ideal[d] += ideal[s] * cost[d] / limit / (cost[dominant] / limits[dominant])
    used = [sum(s.ok_cost[d] for s in engine.sources) / seconds / limit for d, limit in enumerate(limits)]
    ratios = {s: share[s] / due for s, due in ideal.items() if due > 1e-12}
    admits = [n for s in engine.sources if s.flow.big for n in s.grant_admits]
    times = {cls: [t for s in engine.sources if s.flow.cls == cls for t in s.times] for cls in CLASSES}
    first = next((cls for cls in CLASSES if times[cls]), "p1")
    ok = {cls: sum(s.ok for s in engine.sources if s.flow.cls == cls) / seconds for cls in CLASSES}
    return {
        "share_429": counts.refused / max(1, counts.sent),
        "jain": jain(list(ratios.values())) if ratios else math.nan,
        "min_r": min(ratios.values(), default=math.nan),
        "max_r": max(ratios.values(), default=math.nan),
        "min_r_call": min((_with_one_more(s, r) for s, r in ratios.items()), default=math.nan),
        "cap_used": max(used),
        "cap_ideal": min(1.0, max(use_ideal)),
        "ok_per_class": {cls: rate for cls, rate in ok.items() if any(s.flow.cls == cls for s in engine.sources)},
        "leak": _leak(share, ideal),
        "calls_per_grant": counts.admits / counts.grants if counts.grants else math.nan,
        "evaluations_per_grant": counts.evaluations / counts.grants if counts.grants else math.nan,
        "p1_p95_s": percentile(times[first], 0.95),
        "max_gap_s": max((_longest_gap(engine, s) for s in ideal), default=math.nan),
        "gaps": {f"{s.flow.name}/{s.flow.cls}": _gaps_of(engine, s, due) for s, due in ideal.items() if due > 0},
        "rejects": counts.rejects,
        "big_admits": sum(admits) / len(admits) if admits else None,
        "big_admits_max": max(admits) if admits else None,
        "swing": _swing(engine),
        "r": {s.flow.name: r for s, r in ratios.items()},
    }


def _with_one_more(source: Source, ratio: float) -> float:
    """r as if one more call had gone: what is due is not a whole number of calls."""
    return ratio * (source.ok + 1) / source.ok if source.ok else 0.0


def _leak(share: dict[Source, float], ideal: dict[Source, float]) -> float:
    """Part of the service of backlogged classes that went to another of them than the ideal says."""
    observed: dict[str, float] = {}
    due: dict[str, float] = {}
    for s, d in ideal.items():
        observed[s.flow.cls] = observed.get(s.flow.cls, 0.0) + share[s]
        due[s.flow.cls] = due.get(s.flow.cls, 0.0) + d
    total, total_due = sum(observed.values()), sum(due.values())
    if total <= 0 or total_due <= 0:
        return math.nan
    return sum(abs(observed[k] / total - due[k] / total_due) for k in due) / 2


def _open_gap(engine: Engine, source: Source) -> float:
    """A starvation that has not ended."""
    return engine.now - max(source.last_grant, source.backlogged_since) if source.waiting else 0.0


def _longest_gap(engine: Engine, source: Source) -> float:
    return max([_open_gap(engine, source), *source.gaps])


def _gaps_of(engine: Engine, source: Source, due: float) -> dict[str, Any]:
    """A flow's longest gaps, how many there are, and its bar: 3 ideal spacings + p99.9 of the timers' lateness."""
    caps = list(engine.scenario.caps.values())
    rate = due / max(c / cap for c, cap in zip(_mean_cost(source), caps))
    timers = source.flow.timers or engine.conditions.timers
    gaps = [*source.gaps, _open_gap(engine, source)] if source.waiting else source.gaps
    return {
        "count": len(gaps),
        "longest": heapq.nlargest(LONGEST, gaps),
        "bar_s": 3 / rate + timers.floor + timers.late_p999(),
    }


def _pooled_p999(tails: Sequence[dict[str, Any]]) -> float:
    """p99.9 of one flow's gaps over all seeds, from the longest of each."""
    count = sum(tail["count"] for tail in tails)
    longest = sorted((gap for tail in tails for gap in tail["longest"]), reverse=True)
    if not longest:
        return 0.0
    place = 0.001 * (count - 1)
    upper = min(int(place), len(longest) - 1)
    lower = min(upper + 1, len(longest) - 1)
    return longest[upper] + (longest[lower] - longest[upper]) * (place - int(place))


def _gap_measures(runs: Sequence[dict[str, dict[str, Any]]]) -> dict[str, float]:
    """Of the worst flow: p99.9 of its gaps, and that over its bar."""
    p999, of_bar = math.nan, math.nan
    for flow in runs[0]:
        tails = [run[flow] for run in runs if flow in run]
        seconds = _pooled_p999(tails)
        ratio = seconds / (sum(tail["bar_s"] for tail in tails) / len(tails))
        p999 = seconds if math.isnan(p999) else max(p999, seconds)
        of_bar = ratio if math.isnan(of_bar) else max(of_bar, ratio)
    return {"gap_p999_s": p999, "gap_of_bar": of_bar}


def _swing(engine: Engine) -> float | None:
    """Greatest change of the watched flow's grants in any second, against its mean."""
    watched = next((s for s in engine.sources if s.flow.name == engine.scenario.watched), None)
    if watched is None or not watched.grant_times:
        return None
    begin, end = engine.scenario.warm_up, engine.now
    mean = len(watched.grant_times) / (end - begin)
    edges = [begin + 0.1 * i for i in range(int((end - begin - 1) / 0.1) + 1)]
    times = watched.grant_times
    counts = [bisect.bisect_left(times, e + 1) - bisect.bisect_left(times, e) for e in edges]
    return max(max(counts) / mean - 1, 1 - min(counts) / mean)


def mean(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; maxima for what is a maximum; gaps of a flow over all seeds together."""
    out: dict[str, Any] = _gap_measures([run["gaps"] for run in runs])
    for key in (key for key in runs[0] if key != "gaps"):
        values = [run[key] for run in runs]
        if isinstance(values[0], dict):
            out[key] = {k: sum(v.get(k, 0.0) for v in values) / len(values) for k in values[0]}
        elif any(v is None for v in values):
            out[key] = None
        elif key in ("max_gap_s", "big_admits_max"):
            out[key] = max(values)
        else:
            out[key] = sum(values) / len(values)
    return out
