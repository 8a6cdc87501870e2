"""Faults put into the library's text, each with the property that must find it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    found_by: str
    old: str  # in the text exactly once
    new: str

    def apply(self, text: str) -> str:
        """ValueError: its text is not there exactly once; put it where the code has gone."""
        if text.count(self.old) != 1:
            raise ValueError(f"mutation {self.name}: {text.count(self.old)} places with {self.old!r}")
        return text.replace(self.old, self.new)


_LEVEL = "  s.level = level < p.depth and level or p.depth\n"
_DEBITED = "      s.debited = s.debited + x\n"
_REFUND = "    x = -math.min(-x, math.max(0, p.depth - top))\n"

HISTORIES = [
    Mutation("a bucket overflows", "p1_cap_respect", _LEVEL, "  s.level = level\n"),
    Mutation("spilled refunds come back", "p4_reconciliation", _REFUND, ""),
    Mutation(
        "what is short does not matter",
        "p1_cap_respect",
        "needed - slack then return false end",
        "-1e300 then return false end",
    ),
    Mutation(
        "the first dimension is debited twice",
        "i1_all_or_nothing",
        _DEBITED,
        _DEBITED + "      if d == 1 then s.debited = s.debited + x end\n",
    ),
    Mutation(
        "the last dimension is forgotten",
        "i1_all_or_nothing",
        "    if x > 0 and p.limit > 0 then\n      local fd, s = f.dims[d], state.dims[d]\n      cd.mark",
        "    if x > 0 and p.limit > 0 and (d == 1 or d < #policy.dims) then\n      local fd, s = f.dims[d], state.dims[d]\n      cd.mark",
    ),
    Mutation(
        "what the provider has left is ignored",
        "p1_no_more_than_told",
        "  if excess > 0 then p.ops.adjust(p, s, cd.mark, excess) end",
        "",
    ),
    Mutation(
        "what the provider has left raises a bucket",
        "i1_conservation",
        "  if excess > 0 then p.ops.adjust(p, s, cd.mark, excess) end",
        "  if excess ~= 0 and s.level then s.level = s.level - excess end",
    ),
    Mutation("a refund is not counted", "i1_conservation", "s.refunded = s.refunded - done", "s.refunded = s.refunded"),
    Mutation("a debit leaves the level", "i1_conservation", "  s.level = level - c\n", "  s.level = level - 0.5 * c\n"),
    Mutation(
        "twice the refund",
        "p4_reconciliation",
        "  s.level = s.level - x\n  return x",
        "  s.level = s.level - 2 * x\n  return 2 * x",
    ),
    Mutation(
        "refused without need",
        "p3_refused_only_when_short",
        "    bare[d] = need < p.depth and need or p.depth\n",
        "    bare[d] = p.depth\n",
    ),
    Mutation(
        "a flow leaves no sums",
        "i2_sums_equal_recomputation",
        "  local c = state.classes[f.class]\n  c.flows, c.W, f.counted = c.flows - 1",
        "  local c = state.classes[f.class]\n  c.flows, c.W, f.counted = c.flows",
    ),
    Mutation(
        "waiting cost only grows",
        "i2_sums_equal_recomputation",
        "math.max(0, s.waiting + sign * cd.expected)",
        "math.max(0, s.waiting + math.abs(sign) * cd.expected)",
    ),
    Mutation(
        "a kept record is used whatever the store holds",
        "i2_kept_records_never_show",
        "entry.bytes ~= bytes or entry.taken",
        "false",
    ),
    Mutation(
        "a grant is granted again",
        "i1_idempotency",
        "  if call.state == 'l' then\n    if repeated then",
        "  if call.state == 'l' then\n    if false then",
    ),
    Mutation("an id is settled twice", "i1_idempotency", "  calls.remember(policy, state, r.id, call, 's')\n", ""),
    Mutation(
        "a look takes a place",
        "i1_a_look_changes_nothing",
        "  if not args.check then place = queue.keep_place",
        "  if true then place = queue.keep_place",
    ),
    Mutation(
        "a raised cap fills the bucket",
        "i2_a_new_policy_mints_nothing",
        "  if s.depth ~= p.depth and p.ops.resize then p.ops.resize(p, s, state.serial) end\n",
        "  if s.depth ~= p.depth and s.level then s.level = p.depth end\n",
    ),
]

CROWDS = [
    Mutation("no cap", "p1_cap_respect", "needed - slack then return false end", "needed - 5 then return false end"),
    Mutation(
        "weights of tenants do not count",
        "p2_weighted_dominant_shares",
        "      fd.F = (F > least and F or least) + x / p.cap / f.weight\n",
        "      fd.F = (F > least and F or least) + x / p.cap\n",
    ),
    Mutation("old credit is kept", "p2_weighted_dominant_shares", "      if fd.F < v then fd.F = v end\n", ""),
    Mutation(
        "one call at a time loses its arrears",
        "p2_weighted_dominant_shares",
        "  if f.waiters == 0 then\n    local dims, v = f.dims, c.v\n",
        "  if f.waiters == 0 then\n    if c.waiters > 0 then c.v = c.least end\n    local dims, v = f.dims, c.v\n",
    ),
    Mutation(
        "who returns stands at the end of its flow",
        "order_inside_a_flow",
        "  local joining = not call.queued",
        "  if call.queued then turns.dequeue(state, f, call) end\n  q.fresh = true\n  local joining = not call.queued",
    ),
    Mutation(
        "everybody waits twice as long",
        "p3_work_conservation",
        "  local wait_s = turn_s + caps_s\n",
        "  local wait_s = 3 * turn_s + caps_s + 1\n",
    ),
    Mutation(
        "light flows are told to wait for ever",
        "no_starvation",
        "  local wait_s = turn_s + caps_s\n",
        "  local wait_s = turn_s + caps_s + (f.weight < 1 and 20 or 0)\n",
    ),
    Mutation(
        "nobody is told its turn", "bounded_asks", "  local wait_s = turn_s + caps_s\n", "  local wait_s = caps_s\n"
    ),
]

PHASES = [
    Mutation(
        "the end of a window is taken for certain",
        "no_window_above_its_limit",
        "  w.spread_s = w.spread_s - (hi - lo) / 1e6\n",
        "",
    ),
    Mutation(
        "the start of a window is taken for certain",
        "no_window_above_its_limit",
        "  local w = {phase_us = hi, window_us",
        "  local w = {phase_us = lo, window_us",
    ),
    Mutation(
        "what was debited before a phase is known is forgotten",
        "no_window_above_its_limit",
        "sliding.since(p, s, lo + window * p.window_us)",
        "0",
    ),
    Mutation(
        "refunds of the window before are given to this one",
        "no_window_above_its_limit",
        "  return ours and fixed.adjust(p, s, s.window, x) or 0\n",
        "  return fixed.adjust(p, s, s.window, x)\n",
    ),
]
