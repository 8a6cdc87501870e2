-- What the provider's answers say of its own count (rate-limit headers, 429s) against what the books of L1 say. `told`: {name
-- of a dimension → {remaining, reset_us}}, each maybe absent.
local states = require('states')

local feedback = {}
local TOLERANCE_Z = 3 -- standard deviations of estimates in flight by which the books may be above what the provider said
local TOLERANCE_DEPTH = 0.05 -- and part of the depth: calls overtake each other on the way
local LEAST_NOISE = 1e-12 -- part of the depth's square: less is what rounding leaves of a sum of variances
local PROOF_GAIN, PROOF_ABOVE = 0.1, 1.1 -- a refused estimate moves that part of the way to so much of what was left
local PROOF_LEFT = 0.25 -- a refusal with more than that part of the limit left has another cause

local function told_of(told, p)
  return not p.retired and told[p.name] or nil
end

-- Lowers the books to what the provider has left by now: what it said when it answered, and what came free and was granted
-- since then. Nothing where it spoke of another window than the running one: the grant's own is over, or it ends much sooner,
-- since the provider's clock is behind.
local function lower(p, s, state, call, cd, t, tolerance)
  if cd.mark == 0 or p.limit <= 0 or state.now_us - call.granted_us >= p.window_us or not p.ops.counts(p, s, cd.mark) then
    return
  end
  local end_us = p.ops.edges and p.window_us - s.into_s * 1e6
  if end_us and t.reset_us and end_us - t.reset_us > p.window_us / 2 then return end
  local excess = p.ops.books(p, s) - (t.remaining + s.net - cd.net) - tolerance
  if excess > 0 then p.ops.adjust(p, s, cd.mark, excess) end -- at the grant: what was used unseen was used before the answer
end

-- Answers whether it confirmed what was known.
local function learn_phase(p, s, state, call, t)
  return t and t.reset_us and p.limit > 0 and p.ops.learn and p.ops.learn(p, s, state, call.granted_us, t.reset_us)
end

-- A call was answered. What is debited by bounds is far above what the provider counts, and tells nothing of it.
function feedback.answered(policy, state, call, told)
  for d, p in ipairs(policy.dims) do
    local t, s = told_of(told, p), state.dims[d]
    learn_phase(p, s, state, call, t)
    if t and t.remaining and not call.bound then
      local variance = states.variance(p, s, state.now_us)
      local noise = variance > LEAST_NOISE * p.depth * p.depth and math.sqrt(variance) or 0
      lower(p, s, state, call, call.dims[d], t, TOLERANCE_Z * noise + TOLERANCE_DEPTH * p.depth)
    end
  end
end

-- The dimension that had least left for a refused call which would have fitted by its estimate; nil: none that it proves
-- anything of.
local function proven_small(policy, call, told)
  local tightest, least = nil, math.huge
  for d, p in ipairs(policy.dims) do
    local charge = call.dims[d].charge
    if charge > 0 and p.limit > 0 then
      local t = told_of(told, p)
      if not (t and t.remaining) or charge > t.remaining then return nil end
      local room = (t.remaining - charge) / p.cap
      if room < least then tightest, least = d, room end
    end
  end
  if not tightest then return nil end
  local p = policy.dims[tightest]
  return told_of(told, p).remaining <= PROOF_LEFT * p.limit and call.dims[tightest].raw > 0 and tightest or nil
end

-- A call was refused: the books hold what the provider has left, without tolerance; and an estimate that would have fitted was
-- too small, whether the caller ever says what it uses or not.
function feedback.refused(policy, state, f, call, told)
  for d, p in ipairs(policy.dims) do
    local t = told_of(told, p)
    local s, cd = state.dims[d], call.dims[d]
    if t and t.remaining then lower(p, s, state, call, cd, t, 0) end
    if not learn_phase(p, s, state, call, t) and p.ops.doubt and cd.charge > 0 then p.ops.doubt(p, s) end
  end
  local d = not call.bound and proven_small(policy, call, told)
  if not d then return end
  local fd, raw = f.dims[d], call.dims[d].raw
  if fd.den == 0 then fd.num, fd.den = state.dims[d].ratio * raw, raw end
  local least = math.min(policy.dims[d].limit, PROOF_ABOVE * told[policy.dims[d].name].remaining) / raw * fd.den
  if least > fd.num then fd.num = fd.num + PROOF_GAIN * (least - fd.num) end
end

return feedback
