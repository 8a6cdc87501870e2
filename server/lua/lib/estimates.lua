-- What is learnt of callers: the cost they really use, and how late their timers are.

local estimates = {}
local RATIO_MIN, RATIO_MAX = 0.01, 1e4
local LATE_GAIN, LATE_MAX_US = 0.1, 5e6
local PROFILE_GAIN = 0.2
local SIZE_GAIN = 0.02
local SIGMA_MIN = 1e-9

-- Fills in the call's corrected estimate by the flow's learnt ratio (the target's until the flow has one), its charge (a
-- bound is charged as it stands) and its dominant share; and the flow's profile: use of each dimension per unit of that.
function estimates.apply(policy, state, f, call)
  local dims, fdims, cdims, bound = policy.dims, f.dims, call.dims, call.bound
  local sigma = SIGMA_MIN
  for d = 1, #dims do
    local p, cd, fd = dims[d], cdims[d], fdims[d]
    local raw, expected = cd.raw, 0
    if raw > 0 then
      local ratio = fd.den > 0 and fd.num / fd.den or state.dims[d].ratio
      if ratio < RATIO_MIN then ratio = RATIO_MIN elseif ratio > RATIO_MAX then ratio = RATIO_MAX end
      expected = raw * ratio
      if expected > p.limit then expected = p.limit end
    end
    cd.expected, cd.charge = expected, bound and raw or expected
    if p.cap > 0 and expected / p.cap > sigma then sigma = expected / p.cap end
  end
  call.sigma = sigma
  local gain = f.fresh and 1 or PROFILE_GAIN
  for d = 1, #dims do
    local fd, cap = fdims[d], dims[d].cap
    local u = cap > 0 and cdims[d].expected / cap / sigma or 0
    fd.u = fd.u + gain * (u - fd.u)
  end
end

-- The target's mean dominant share.
function estimates.note_size(state, call)
  local mean = state.mean_sigma
  state.mean_sigma = mean > 0 and mean + SIZE_GAIN * (call.sigma - mean) or call.sigma
end

-- A caller that was not early shows how late its timer is.
function estimates.learn_lateness(f, call, now_us)
  if call.told_us <= 0 or call.parked or now_us < call.told_us then return end
  local z = math.min(LATE_MAX_US, now_us - call.told_us)
  f.late = f.late + LATE_GAIN * (z - f.late)
  f.dev = f.dev + LATE_GAIN * (math.abs(z - f.late) - f.dev)
end

return estimates
