"""Test-only: takes one mechanism out of the scripts' text, so that production Lua stays free of switches."""

from __future__ import annotations

from collections.abc import Mapping

from .jobs import Job

_CLASS_WEIGHTS = "      policy.weight = policy.weight + c.weight\n"
_DOMINANT = "    if p.cap > 0 and expected / p.cap > sigma then"
_FINISH = "      fd.F = (F > least and F or least) + x / p.cap / f.weight\n"
_SETTLED = "    if outcome == 'ok' then calls.learn("

# name → [(text, replacement)]; each text must be in the library exactly once.
MECHANISMS: Mapping[str, list[tuple[str, str]]] = {
    # L2: every class weighs the same.
    "priority": [(_CLASS_WEIGHTS, "      c.weight = 1\n" + _CLASS_WEIGHTS)],
    # L3: shares of the first dimension instead of the dominant one.
    "drf": [
        (_DOMINANT, _DOMINANT.replace("p.cap > 0", "d == 1 and p.cap > 0")),
        (_FINISH, "      if d == 1 then" + _FINISH.rstrip() + " end\n"),
    ],
    # Usage that Release carries is ignored, at L1 and at the tags.
    "reconciliation": [
        (
            "refunded = calls.recharge(policy, state, r.flow, call, actual, true)",
            "refunded = calls.recharge(policy, state, r.flow, call, {}, true)",
        )
    ],
    # What the caller says is debited as it stands.
    "learnt-estimates": [(_SETTLED, _SETTLED.replace("outcome == 'ok'", "false"))],
    # What Release says of the provider's own count is ignored.
    "headers": [
        ("local told = r.args.rate_limits or {}", "local told = {}"),
        ("if r.args.rate_limits and outcome ~= 'rate_limited' then", "if false then"),
    ],
    # A caller that returns stands at the end of its flow's line again.
    "kept-places": [
        (
            "  local joining = not call.queued",
            "  if call.queued then turns.dequeue(state, f, call) end\n  local joining = not call.queued",
        )
    ],
    # Everybody is told when L1 could hold the call, whosever turn it is.
    "forecast": [("  local wait_s = turn_s + caps_s\n", "  local wait_s = caps_s\n")],
    # Heads of other flows do not count in the forecast, only lags of tags.
    "rank": [("  return math.max(own, rank * mean, ", "  rank = 0\n  return math.max(own, rank * mean, ")],
    # L1 keeps nothing for better turns.
    "reserve": [("turns.key(policy, state, f, call.A) < my_key - 1e-12", "false")],
    # Whoever is out of turn may take the last of it.
    "bank": [(f"local {name} = ", f"local {name} = 0 * ") for name in ("BANK", "SPREAD_BANK", "SMOOTH_BANK")],
    "lateness": [(" - q.flow.late", "")],
    # Big calls are not saved for ahead of their turn.
    "big-places": [("local BIG = ", "local BIG = 1e9 * ")],
    # A place waits no longer for the siblings before it.
    "spare": [("local SPARE_S = ", "local SPARE_S = 0 * ")],
    "margin": [("local MARGIN_Z = ", "local MARGIN_Z = 0 * ")],
    # Windows are spent as fast as callers come.
    "spread": [
        ("  p.lead_s = p.burst_fraction * p.window_s", "  p.lead_s = p.window_s"),
        ("  if p.burst_fraction >= 1 then return 0 end", "  do return 0 end"),
    ],
    # Places of lost owners are kept.
    "sweep": [("local GRACE_MIN_US, GRACE_MAX_US = ", "local GRACE_MIN_US, GRACE_MAX_US = 1e12, 1e12 --")],
    # Idle dimensions' tags follow the dominant one at once.
    "dovetail": [("local DOVETAIL_S = ", "local DOVETAIL_S = 0 * ")],
    # A forecast may park a caller for as long as it says.
    "wait-cap": [
        ("    wait_s = math.min(wait_s, math.max(UNCERTAIN_S, ", "    wait_s = math.min(wait_s, math.max(1e9, ")
    ],
}


def without(name: str, text: str) -> str:
    """The library's text with the mechanism off. KeyError: unknown. ValueError: its text is not there exactly once."""
    if not name:
        return text
    for old, new in MECHANISMS[name]:
        if text.count(old) != 1:
            raise ValueError(f"mechanism {name}: {text.count(old)} places with {old!r}")
        text = text.replace(old, new)
    return text


def _cells(*names: str) -> list[Job]:
    """WORKLOAD@WINDOW, or the name of a scenario."""
    return [Job(name, window) for name, _, window in (text.partition("@") for text in names)]


# Where each is measured, beside the same cells with every mechanism on.
ABLATIONS: Mapping[str, list[Job]] = {
    "priority": _cells("cross-priority@continuous", "token-bound@fixed"),
    "drf": _cells("mixed-dominant@continuous", "token-bound@fixed", "alternate"),
    "reconciliation": _cells("noisy-estimates@sliding", "reservation@continuous"),
    "learnt-estimates": _cells("noisy-estimates@fixed", "noisy-estimates@sliding"),
    "headers": _cells("under-told-unreleased", "false-refund", "false-usage/sliding", "cross-priority@learnt"),
    "kept-places": _cells("cross-priority@sliding", "open150"),
    "forecast": _cells("cross-priority@continuous", "cross-priority@sliding"),
    "rank": _cells("tenants300", "crowd-leaves"),
    "reserve": _cells("cross-priority@fixed", "noisy-estimates@sliding", "big60/continuous"),
    "bank": _cells("cross-priority@fixed", "cross-priority@sliding", "many-ids"),
    "big-places": _cells("big60/continuous", "big85/sliding"),
    "spare": _cells("cross-priority@sliding", "noisy-estimates@continuous"),
    "lateness": _cells("cross-priority@sliding", "one-late/unknown"),
    "margin": _cells("noisy-estimates@fixed", "noisy-estimates@sliding"),
    "spread": _cells("cross-priority@fixed", "cross-priority@sliding", "window-60s/fixed"),
    "sweep": _cells("lost50", "dead-head"),
    "dovetail": _cells("alternate", "mixed-dominant@continuous"),
    "wait-cap": _cells("crowd-leaves", "weight-vanishes"),
}
