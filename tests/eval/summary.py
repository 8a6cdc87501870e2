"""What one arm of a run comes to, from its records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from measures import achievement, ideal_rates, jain, percentile
from records import Record
from workloads import Workload


@dataclasses.dataclass(frozen=True)
class Summary:
    ok_per_second: dict[str, float]  # by class
    ok_per_second_total: float
    share_429: float  # of the HTTP exchanges
    cap_used: dict[str, float]  # by dimension
    achievement_jain: float
    r_min: float
    r_max: float
    p1_http_p95_ms: float  # first HTTP attempt to success
    p1_first_ask_p95_ms: float  # deferral included
    slot_ms: float  # mean time in HTTP, its backoff and the gate's calls per OK call, deferral excluded
    admits_per_grant: float  # NaN without a gate
    errors: int
    degraded: int


def summarize(
    records: Sequence[Record], workload: Workload, start: float, end: float
) -> Summary:
    """Counts what ended in [start, end) of the monotonic clock, the contention window."""
    seconds = end - start
    ok = [r for r in records if r.ok and start <= r.sends[-1].end < end]
    sends = [s for r in records for s in r.sends if start <= s.end < end]
    classes = sorted({t.priority for t in workload.tenants})
    used = {name: 0.0 for name in workload.caps}
    share = {}
    for tenant in workload.tenants:
        mine = [r for r in ok if r.tenant == tenant.name]
        amounts = {"requests": float(len(mine)), "tokens": float(sum(r.tokens for r in mine))}
        for name in used:
            used[name] += amounts[name]
        share[tenant.name] = max(
            amounts[name] / seconds / cap for name, cap in workload.caps.items()
        )
    queues = workload.queues()
    rates = ideal_rates(queues, workload.caps)
    due = {q.tenant: rate * q.dominant(workload.caps) for q, rate in zip(queues, rates)}
    ratios = list(achievement(share, due).values())
    first = [r for r in ok if r.priority == classes[0]]
    http = [(r.sends[-1].end - r.sends[0].start) * 1000 for r in first]
    asked = [(r.sends[-1].end - r.asked) * 1000 for r in first]
    grants = sum(r.grants for r in ok)
    return Summary(
        ok_per_second={k: sum(r.priority == k for r in ok) / seconds for k in classes},
        ok_per_second_total=len(ok) / seconds,
        share_429=sum(s.status == 429 for s in sends) / max(1, len(sends)),
        cap_used={name: used[name] / seconds / cap for name, cap in workload.caps.items()},
        achievement_jain=jain(ratios),
        r_min=min(ratios),
        r_max=max(ratios),
        p1_http_p95_ms=percentile(http, 0.95),
        p1_first_ask_p95_ms=percentile(asked, 0.95),
        slot_ms=sum(r.slot_s for r in ok) / len(ok) * 1000 if ok else math.nan,
        admits_per_grant=sum(r.admits for r in ok) / grants if grants else math.nan,
        errors=sum(bool(r.error) for r in records),
        degraded=sum(r.degraded for r in records),
    )


def as_json(summary: Summary) -> dict[str, object]:
    """NaN has no JSON: it becomes null."""
    fields = dataclasses.asdict(summary)
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in fields.items()
    }


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _plain(value: float, digits: int = 0) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def table(columns: dict[str, Summary]) -> str:
    """The arms side by side."""
    some = next(iter(columns.values()))
    rows: list[tuple[str, list[str]]] = []

    def row(label: str, cells: list[str]) -> None:
        rows.append((label, cells))

    arms = list(columns.values())
    for name in some.ok_per_second:
        row(f"OK calls/s, {name}", [_plain(s.ok_per_second[name], 1) for s in arms])
    row("OK calls/s, all", [_plain(s.ok_per_second_total, 1) for s in arms])
    row("429 share of HTTP calls", [_percent(s.share_429) for s in arms])
    for name in some.cap_used:
        row(f"cap used, {name}", [_percent(s.cap_used[name]) for s in arms])
    row("achievement-Jain", [_plain(s.achievement_jain, 4) for s in arms])
    row("observed / ideal, least", [_plain(s.r_min, 3) for s in arms])
    row("observed / ideal, most", [_plain(s.r_max, 3) for s in arms])
    row("p1 HTTP p95 ms", [_plain(s.p1_http_p95_ms) for s in arms])
    row("p1 from first ask p95 ms", [_plain(s.p1_first_ask_p95_ms) for s in arms])
    row("worker slot held, mean ms", [_plain(s.slot_ms) for s in arms])
    row("Admit calls per grant", [_plain(s.admits_per_grant, 2) for s in arms])
    row("errors / degraded answers", [f"{s.errors} / {s.degraded}" for s in arms])
    width = max(len(label) for label, _ in rows)
    lines = [" " * width + "".join(f"{name:>12}" for name in columns)]
    for label, cells in rows:
        lines.append(label.ljust(width) + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)
