"""What the provider's answers say of its own count, against the books of L1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import constants as k
from learnt import LearntWindow
from policy import Policy
from state import Call, Flow, State, at

Told = dict[str, dict[str, float]]  # by dimension: remaining, reset_us; each may be absent
Near = Callable[[float, float], None]


def remaining_of(policy: Policy, d: int, told: Told) -> float | None:
    p = policy.dims[d]
    return None if p.retired else told.get(p.name, {}).get("remaining")


def lower(policy: Policy, state: State, call: Call, d: int, told: Told, tolerance: float) -> None:
    """The provider has left what it said, and what came free since the grant, less what was granted since. A fixed window that
    ends much sooner than the running one is the one before."""
    p, s = policy.dims[d], state.dims[d]
    mark = call.marks[d] if d < len(call.marks) else 0
    if mark == 0 or p.limit <= 0 or state.now_us - call.granted_us >= p.window_us or not s.window.counts(mark):
        return
    remaining, reset_us = told[p.name]["remaining"], told[p.name].get("reset_us")
    if p.model == "fixed" and reset_us is not None:
        sooner_us = p.window_us - s.window.into_s * 1e6 - reset_us
        if sooner_us > p.window_us / 2:
            return
    came = sum(units for at_us, units in s.window.came if at_us > call.granted_us)
    granted = sum(units for serial, units in s.granted if serial > call.serial)
    excess = s.window.books - (remaining + came - granted) - tolerance
    if excess > 0:
        s.window.adjust(mark, excess)


def confirms(policy: Policy, state: State, call: Call, d: int, told: Told) -> bool:
    """Learns the phase. Was it what is known already?"""
    p, window = policy.dims[d], state.dims[d].window
    reset_us = None if p.retired else told.get(p.name, {}).get("reset_us")
    learns = reset_us is not None and p.limit > 0 and isinstance(window, LearntWindow)
    return learns and window.learn(call.granted_us, reset_us)


def answered(policy: Policy, state: State, call: Call, told: Told) -> None:
    """A tolerance, since open leases are noisy and calls overtake each other. Bounds tell nothing."""
    for d, p in enumerate(policy.dims):
        confirms(policy, state, call, d, told)
        remaining = remaining_of(policy, d, told)
        if remaining is not None and not call.bound:
            variance = state.open_variance(d)
            noise = math.sqrt(variance) if variance > k.SYNC_NOISE_MIN * p.depth**2 else 0.0
            lower(policy, state, call, d, told, k.SYNC_DEVIATIONS * noise + k.SYNC_DEPTH_PART * p.depth)


def refused(policy: Policy, state: State, f: Flow, call: Call, told: Told, near: Near) -> None:
    for d in range(len(policy.dims)):
        remaining = remaining_of(policy, d, told)
        if remaining is not None:
            lower(policy, state, call, d, told, 0.0)
        window = state.dims[d].window
        if not confirms(policy, state, call, d, told) and isinstance(window, LearntWindow) and at(call.charged, d) > 0:
            window.doubt()
    d = None if call.bound else proven_small(policy, call, told, near)
    if d is None:
        return
    remaining, estimate, s = told[policy.dims[d].name]["remaining"], call.raw[d], state.dims[d]
    if d not in f.actual:
        f.actual[d], f.asked[d] = s.actual / s.asked * estimate, estimate
    least = min(policy.dims[d].limit, k.PROOF_ABOVE * remaining) / estimate * f.asked[d]
    f.actual[d] = max(f.actual[d], f.actual[d] + k.PROOF_GAIN * (least - f.actual[d]))


def proven_small(policy: Policy, call: Call, told: Told, near: Near) -> int | None:
    """The tightest dimension of a refused call that would have fitted by its estimate, if the provider told of all that it
    charged; with much of the limit left, the refusal has another cause."""
    room: dict[int, float] = {}
    for d, p in enumerate(policy.dims):
        charge = at(call.charged, d)
        if charge <= 0 or p.limit <= 0:
            continue
        remaining = remaining_of(policy, d, told)
        if remaining is None:
            return None
        near(charge, remaining)
        if charge > remaining:
            return None
        room[d] = (remaining - charge) / p.cap
    if not room:
        return None
    d = min(room, key=lambda d: room[d])
    p = policy.dims[d]
    return d if told[p.name]["remaining"] <= k.PROOF_LEFT * p.limit and call.raw[d] > 0 else None
