-- A count per window whose phase is known.
local fixed = {}
local SPREAD_BANK = 0.25 -- part of the lead that callers out of turn must leave
local GUARD_S = 0.003 -- end of a window that is not used: clocks and networks differ

function fixed.derive(p)
  p.guard_s = math.min(GUARD_S, p.window_s / 20)
  p.spread_s = p.window_s - p.guard_s -- time over which one window's limit is spent
  p.lead_s = p.burst_fraction * p.window_s -- how far spending may run ahead of that
  p.hold = 0.03
  p.horizon_s = math.min(2, 0.1 * p.window_s)
end

function fixed.fresh(_, s) s.window, s.count = -1, 0 end

local function allowed(p, into_s)
  return p.depth * math.min(1, (into_s + p.lead_s) / p.spread_s)
end

function fixed.advance(p, s, state)
  local window = math.floor((state.clock_us - p.phase_us) / p.window_us)
  if window > s.window then
    -- what went above the limit (usage settled higher) is owed by the next window, and only by that
    s.count = window == s.window + 1 and math.min(p.depth, math.max(0, s.count - p.depth)) or 0
    s.window = window
  end
  s.into_s = math.max(0, (state.clock_us - p.phase_us - s.window * p.window_us) / 1e6)
end

function fixed.avail(p, s, _, out_of_turn)
  if s.into_s > p.spread_s then return -1 end
  local left = allowed(p, s.into_s) - s.count
  if out_of_turn and s.into_s + p.lead_s < p.spread_s then left = left - SPREAD_BANK * p.lead_s * p.rate end
  return left
end

function fixed.books(p, s) return p.depth - s.count end

function fixed.wait(p, s, need)
  local target = need + s.count
  if s.into_s <= p.spread_s then
    local now = allowed(p, s.into_s)
    if target <= now + 1e-9 then return 0 end
    if target <= p.depth + 1e-9 then
      local t = (target - now) * p.spread_s / p.depth
      if t < p.spread_s - s.into_s then return t end
    end
  end
  local rest = need + math.max(0, s.count - p.depth)
  local windows = math.max(0, math.ceil(rest / p.depth - 1e-9) - 1)
  rest = rest - windows * p.depth
  return p.window_s - s.into_s + 1e-4 + windows * p.window_s + math.max(0, rest * p.spread_s / p.depth - p.lead_s)
end

function fixed.gain(p, s, tau)
  if s.into_s + tau >= p.spread_s then return 1e300 end
  return allowed(p, s.into_s + tau) - allowed(p, s.into_s)
end

function fixed.counts(_, s, mark) return mark == s.window end

function fixed.debit(_, s, c)
  s.count = s.count + c
  return s.window
end

function fixed.adjust(_, s, mark, x)
  if mark ~= s.window then return 0 end
  s.count = s.count + x
  return x
end

fixed.edges = true
function fixed.period(_, s) return s.window end

-- Another length of windows: what was counted in the old one counts where that ended.
function fixed.renumber(p, s)
  if s.window >= 0 then s.window = math.floor(((s.window + 1) * s.window_us - 1) / p.window_us) end
end

return fixed
