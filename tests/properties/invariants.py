"""What must hold after every step of any history. Each takes the run and the step; it fails with what it found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import recompute

if TYPE_CHECKING:
    from histories import Run, Step

TOLERANCE = 1e-7
Invariant = Callable[["Run", "Step"], None]
INVARIANTS: dict[str, Invariant] = {}


class Violation(AssertionError):
    """`name`: of the property."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


def invariant(check: Invariant) -> Invariant:
    INVARIANTS[check.__name__] = check
    return check


def near(a: float, b: float, scale: float = 1.0) -> bool:
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a), abs(b), scale)


def expect(true: bool, what: Any) -> None:
    if not true:
        raise AssertionError(str(what))


@invariant
def p1_cap_respect(run: Run, step: Step) -> None:
    """At a grant, no window holds more than its model allows, with settled usage in place of estimates."""
    if step.granted and not step.args.get("force"):
        for name in run.ledger.dims:
            found = run.ledger.excess(name)
            expect(found is None, f"{name}: {found}")


@invariant
def i1_all_or_nothing(run: Run, step: Step) -> None:
    """A grant debits every dimension what it says, all else that is asked debits none."""
    if step.entry != "admit" or step.after.state is None:
        return
    debited = step.answer["debited"] if step.granted else {}
    for d, name in enumerate(run.ledger.dims):
        before = step.before.state["dims"][d]["debited"] if step.before.state else 0.0
        moved = step.after.state["dims"][d]["debited"] - before
        expect(near(moved, debited.get(name, 0.0), before), f"{name}: {moved!r} debited, {debited} granted")
        if step.granted and step.args.get("bound"):
            asked = step.args["cost"].get(name, 1.0 if name == "requests" else 0.0)
            expect(near(debited.get(name, 0.0), asked), f"{name}: bound {asked} granted as {debited}")


@invariant
def i1_conservation(run: Run, step: Step) -> None:
    """Debits less refunds are what settled calls used and open leases hold; levels move by that and by refill alone."""
    state = step.after.state
    if state is None:
        return
    for d, (name, dim) in enumerate(run.ledger.dims.items()):
        kept = state["dims"][d]
        net = kept["debited"] - kept["refunded"]
        expect(
            near(net, run.ledger.total(name), kept["debited"]),
            f"{name}: debited less refunded {net!r}, of calls {run.ledger.total(name)!r}",
        )
        if dim["model"] == "continuous" and step.before.state and step.args.get("outcome") != "rate_limited":
            _level_moves(run, step, d, name)
    for grant in run.ledger.grants:
        if grant.open:
            call = step.after.calls.get(grant.id)
            expect(call is not None and call["state"] == "l", f"the open lease {grant.id} is {call}")


def _level_moves(run: Run, step: Step, d: int, name: str) -> None:
    before, after = step.before.state["dims"][d], step.after.state["dims"][d]
    if step.after.raw[0] == step.before.raw[0]:  # nothing was decided
        return
    if step.entry == "configure" or step.before.state["version"] != step.after.state["version"]:
        return
    dim = run.ledger.dims[name]
    depth = dim["limit"] * dim["burst_fraction"]
    elapsed_us = step.after.state["now_us"] - step.before.state["now_us"]
    level = min(depth, before["level"] + elapsed_us / 1e6 * run.ledger.rates[-1].rate(name))
    if step.granted:
        level -= step.answer["debited"].get(name, 0.0)
    if step.entry == "release":
        level += step.answer.get("refunded", {}).get(name, 0.0)
    lowered = "rate_limits" in step.args and after["level"] <= level
    expect(
        lowered or near(after["level"], level, depth),
        f"{name}: level {after['level']!r}, by debits and refill {level!r}",
    )


@invariant
def p1_no_more_than_told(run: Run, step: Step) -> None:
    """Behind an answer that said what is left, a dimension holds no more than that and what came free since the grant."""
    told = step.args.get("rate_limits")
    if not told or step.answer["result"] != "settled" or "refunded" not in step.answer:
        return
    lease, state = step.before.calls[step.args["id"]], step.after.state
    refused = step.args["outcome"] == "rate_limited"
    if lease["bound"] and not refused:
        return
    since_us = state["now_us"] - lease["granted_us"]
    for d, (name, dim) in enumerate(run.ledger.dims.items()):
        kept, mark = state["dims"][d], lease["dims"][d]["mark"]
        if not mark or since_us >= dim["window_us"]:
            continue
        depth = dim["limit"] * (dim["burst_fraction"] if dim["model"] == "continuous" else dim["rate_fraction"])
        most = told[name]["remaining"]
        if not refused:
            most += 0.05 * depth + 3 * math.sqrt(kept["variance"] + kept["variance_before"])
        if dim["model"] == "continuous":
            most += max(r.rate(name) for r in run.ledger.rates) * since_us / 1e6
            held = kept["level"]
        elif dim["model"] == "fixed" and kept["window"] == mark:
            held = depth - kept["count"]
        else:
            continue
        expect(held <= most or near(held, most, depth), f"{name}: {held!r} held, {most!r} at most by what was told")


@invariant
def p4_reconciliation(run: Run, step: Step) -> None:
    """A settled call counts for what it used, as far as its window still counts it: never more comes back, and usage
    above the estimate is charged whole or, in a window that is over, not at all."""
    if (
        step.entry != "release"
        or step.answer["result"] not in ("settled", "withdrawn")
        or "refunded" not in step.answer
    ):
        return
    if step.args.get("outcome") == "rate_limited":
        expect(not step.answer["refunded"], f"a refused call gave back {step.answer['refunded']}")
        return
    held = step.held
    for name, refunded in step.answer["refunded"].items():
        unused = held[name] - step.answer["charged"].get(name, held[name])
        if unused >= 0:
            expect(
                -TOLERANCE <= refunded <= unused * (1 + TOLERANCE) + TOLERANCE, f"{name}: {refunded} back of {unused}"
            )
        else:
            expect(near(refunded, unused), f"{name}: {-refunded} more, of {-unused}")
    for d, name in enumerate(run.ledger.dims):
        most, kept = run.ledger.replayed_level(name), step.after.state["dims"][d]
        expect(
            most is None or kept["level"] <= most or near(kept["level"], most),
            f"{name}: level {kept.get('level')!r}; {most!r} if all had been charged what they used",
        )


@invariant
def p3_refused_only_when_short(run: Run, step: Step) -> None:
    """Who asks while nobody else waits is refused only when a cap does not hold its cost (continuous windows)."""
    if step.entry != "admit" or step.answer["outcome"] != "defer" or step.args.get("check"):
        return
    state, call = step.after.state, step.after.calls.get(step.args["id"])
    models = {dim["model"] for dim in run.ledger.dims.values()}
    if call is None or state["waiters"] != call["queued"] or state["blocked"] or models != {"continuous"}:
        return
    if state["pause_us"] > state["now_us"] or step.before.state is None or step.before.state["waiters"] > 1:
        return
    flow = step.after.flows[f"{call['class']:g}:{call['tenant']}"]
    for d, dim in enumerate(run.ledger.dims.values()):
        kept = state["dims"][d]
        noise = flow["dims"][d]["var"]
        margin = 1.25 * math.sqrt(kept["variance"] + kept["variance_before"] + noise) if noise > 0 else 0.0
        need = min(call["dims"][d]["charge"] + margin, dim["limit"] * dim["burst_fraction"])
        if call["dims"][d]["charge"] > 0 and kept["level"] < need * (1 + TOLERANCE):
            return
    raise AssertionError(f"levels {[dim['level'] for dim in state['dims']]}, {step.answer}")


@invariant
def i2_sums_equal_recomputation(run: Run, step: Step) -> None:
    found = list(recompute.differences(step.after))
    expect(not found, "; ".join(found))


@invariant
def i2_kept_records_never_show(run: Run, step: Step) -> None:
    """A second store that never lost what it keeps in memory answers the same."""
    if step.twin_answer is not None:
        expect(step.twin_answer == step.answer, f"{step.answer} and, with nothing forgotten, {step.twin_answer}")


@invariant
def i1_idempotency(run: Run, step: Step) -> None:
    """A question that was answered is answered the same again, and changes nothing."""
    if step.repeats is None:
        return
    before, after, first = step.before, step.after, step.repeats
    if step.entry == "admit" and first["outcome"] == "grant":
        expect(step.answer.get("repeated") and step.answer["debited"] == run.held(step.args["id"]), step.answer)
        for name in ("waiters", "grants", "admits", "V", "serial"):
            expect(after.state[name] == before.state[name], f"{name}: {before.state[name]}, then {after.state[name]}")
    elif step.entry == "admit":
        expect(
            step.answer["outcome"] == "defer" and step.answer["place"] == first["place"], f"{first}, then {step.answer}"
        )
        expect(after.state["grants"] == before.state["grants"], "somebody was granted")
        for name in ("waiters", "blocked"):  # places of lost owners may be given back in passing
            expect(after.state[name] <= before.state[name], f"{name}: {before.state[name]}, then {after.state[name]}")
        call, known = after.calls[step.args["id"]], before.calls[step.args["id"]]
        expect(call["A"] == known["A"] and call["queued"] == known["queued"], f"{known}, then {call}")
    else:
        expect(step.answer["result"] in ("already_settled", "expired", "unknown"), f"{first}, then {step.answer}")
        expect(after.raw == before.raw, "the store has changed")


@invariant
def i1_a_look_changes_nothing(run: Run, step: Step) -> None:
    if step.entry != "admit" or not step.args.get("check") or step.before.state is None:
        return
    before, after = step.before, step.after
    for what in ("flows", "order", "due"):
        expect(
            getattr(before, what) == getattr(after, what),
            f"{what}: {getattr(before, what)}, then {getattr(after, what)}",
        )
    for name in ("waiters", "grants", "admits", "V", "serial", "blocked", "bigs"):
        expect(before.state[name] == after.state[name], f"{name}: {before.state[name]}, then {after.state[name]}")
    for k, (a, b) in enumerate(zip(before.state["classes"], after.state["classes"], strict=False)):
        expect(a["F"] == b["F"] and a["v"] == b["v"], f"class {k + 1}: {a}, then {b}")


@invariant
def i2_a_new_policy_mints_nothing(run: Run, step: Step) -> None:
    """At the instant of a change: no bucket holds more, and what a window has counted stays counted."""
    if step.entry != "configure" or step.before.state is None:  # nothing was counted yet
        return
    for name, (before, after) in step.available.items():
        model = run.ledger.dims[name]["model"]
        if model == "continuous":
            expect(after <= before or near(after, before), f"{name}: {before!r} available, then {after!r}")
        elif step.before.state["clock_us"] == run.subject.now_us:  # Inspect does not move a sliding window
            raised = step.args["limits"][name]
            more = after - before
            expect(
                more <= max(0.0, raised) or near(more, max(0.0, raised), abs(before)),
                f"{name}: {before!r} available, then {after!r}; the limit rose by {raised!r}",
            )
