"""The sums that a target's record keeps, counted anew from the flows' and calls' own records."""

from __future__ import annotations

import collections
import struct
from collections.abc import Iterator

from layout import Record
from store import Snapshot

NEVER = 1e17


def _close(kept: float, counted: float, scale: float) -> bool:
    """Sums drift by rounding alone: 1e-9 of the greatest number that was ever added."""
    return abs(kept - counted) <= 1e-9 * max(1.0, abs(kept), scale)


def class_sums(flows: list[Record], dims: int) -> Record:
    active = [f for f in flows if f["counted"] != 0]
    heads = [f for f in flows if f["band"] == "h"]
    return {
        "W": sum(f["weight"] for f in active),
        "D": [sum(f["dims"][d]["counted"] for f in active if d < len(f["dims"])) for d in range(dims)],
        "flows": len(active),
        "waiters": sum(f["waiters"] for f in flows),
        "M": sum(f["weight"] * f["tag"] for f in heads),
        "Wh": sum(f["weight"] for f in heads),
        "least": min((f["tag"] for f in heads), default=1e18),
    }


def differences(snapshot: Snapshot) -> Iterator[str]:
    state = snapshot.state
    if state is None:
        return
    calls = list(snapshot.calls.values())
    waiting = [c for c in calls if c["state"] == "w"]
    queued = [c for c in waiting if c["queued"]]
    counts = {
        "waiters": len(queued),
        "blocked": sum(c["has_ceilings"] for c in waiting),
        "bigs": sum(c["big"] and c["due_us"] > 0 for c in waiting),
        "leases": sum(c["state"] == "l" for c in calls),
    }
    for name, counted in counts.items():
        if state[name] != counted:
            yield f"{name}: kept {state[name]:g}, counted {counted}"
    for d, dim in enumerate(state["dims"]):
        counted = sum(c["dims"][d]["expected"] for c in queued if d < len(c["dims"]))
        if not _close(dim["waiting"], counted, dim["debited"]):
            yield f"waiting[{d}]: kept {dim['waiting']!r}, counted {counted!r}"
    for k, klass in enumerate(state["classes"], 1):
        counted = class_sums([f for f in snapshot.flows.values() if f["class"] == k], len(state["dims"]))
        for name in ("W", "flows", "waiters", "M", "Wh", "least"):
            if not _close(klass[name], counted[name], 1e4):
                yield f"class {k}, {name}: kept {klass[name]!r}, counted {counted[name]!r}"
        for d, kept in enumerate(klass["D"]):
            if not _close(kept, counted["D"][d], 1e2):
                yield f"class {k}, D[{d}]: kept {kept!r}, counted {counted['D'][d]!r}"
    yield from _flow_differences(snapshot)
    yield from _order_differences(snapshot)


def _flow_differences(snapshot: Snapshot) -> Iterator[str]:
    """Places in a flow: E - G is what waits in it and still stands before its siblings."""
    places: dict[str, list[Record]] = collections.defaultdict(list)
    for call in snapshot.calls.values():
        if call["state"] == "w" and call["queued"]:
            places[f"{call['class']:g}:{call['tenant']}"].append(call)
    for field, flow in snapshot.flows.items():
        own = places.pop(field, [])
        if flow["waiters"] != len(own):
            yield f"flow {field}, waiters: kept {flow['waiters']:g}, counted {len(own)}"
        if own:
            stands = sum(c["sigma"] for c in own if not c.get("overdue"))
            if not _close(flow["E"] - flow["G"], stands, flow["E"]):
                yield f"flow {field}, E - G: kept {flow['E'] - flow['G']!r}, counted {stands!r}"
        if flow["counted"] not in (0, flow["weight"]):
            yield f"flow {field}, counted: {flow['counted']:g} of weight {flow['weight']:g}"
    for field in places:
        yield f"flow {field} waits, but has no record"


def _order_differences(snapshot: Snapshot) -> Iterator[str]:
    """Every flow is in the order once, where its record says; every place is due when its record says."""
    expected = set()
    for field, flow in snapshot.flows.items():
        if flow["band"] != "-":
            klass = 0 if flow["band"] == "i" else int(flow["class"])
            expected.add(flow["band"].encode() + struct.pack(">Hd", klass, max(flow["at"], 0.0)) + field.encode())
        if flow["band"] == "h" and flow["at"] != flow["tag"]:
            yield f"flow {field}: stands at {flow['at']!r}, its tag is {flow['tag']!r}"
    waiting = {id: c for id, c in snapshot.calls.items() if c["state"] == "w" and c["due_us"] > 0}
    expected |= {b"p" + struct.pack(">Hd", 0, c["due_us"]) + id.encode() for id, c in waiting.items() if c["big"]}
    if set(snapshot.order) != expected:
        yield f"order: only kept {set(snapshot.order) - expected}, only counted {expected - set(snapshot.order)}"
    due = {id: c["due_us"] for id, c in waiting.items()}
    if snapshot.due != due:
        yield f"due: kept {snapshot.due}, counted {due}"
    leases = {id: c["expires_us"] for id, c in snapshot.calls.items() if c["state"] == "l"}
    kept = {id: at for id, at in snapshot.expiry.items() if id in leases}
    if kept != leases:
        yield f"leases: to be reaped {kept}, open until {leases}"
