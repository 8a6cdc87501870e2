-- Discipline `buckets`: Algorithm 1 of arXiv 2611.02926 as written, for comparison. Three nested token buckets, all checked
-- and debited at once; a refused call keeps no place, and everybody is told the earliest refill among the depleted.
--   L1  the target's caps (caps.lua)
--   L2  per class and dimension, nominal omega_k C_d / sum omega; what overflows is lent, first down, then up to whoever asks
--   L3  per active flow, in dominant share: refill (w_t / W_k) X*,  X* = min_d C_d W_k / D_kd,
--       D_kd = sum over active t of w_t c_d(t) / sigma(t), here with costs as parts of C_d
local ACTIVE_US = 2e6  -- a flow that asked within this time is active
local RETIRED_MAX = 16

-- Active flows are in band 'b', by the time of their last ask.
local function refresh_active(policy, state, f)
  leave_sums(state, f)
  enter_sums(state, f, #policy.dims)
  set_band(state, f, 'b', state.now_us)
  for k in ipairs(state.classes) do
    for _, member in ipairs(first_in_band('b', k, RETIRED_MAX)) do
      if member_value(member) >= state.now_us - ACTIVE_US then break end
      local gone = load_flow(nil, nil, member_field(member))
      if gone and gone.field ~= f.field then
        leave_sums(state, gone)
        set_band(state, gone, 'i', state.now_us)
        save_flow(gone)
      end
    end
  end
end

local function nominal(policy, k, p)
  local sum = 0
  for _, c in ipairs(policy.classes) do
    if not c.retired then sum = sum + c.weight end
  end
  return sum > 0 and policy.classes[k].weight / sum * p.cap or 0
end

local function refill_classes(policy, state)
  local dt = state.elapsed_us / 1e6
  for d, p in ipairs(policy.dims) do
    local spare = 0
    for k, c in ipairs(state.classes) do
      local rate = nominal(policy, k, p)
      local depth = rate * p.window_s
      c.share = c.share or {}
      local level = (c.share[d] or depth) + dt * rate + spare
      spare = math.max(0, level - depth)
      c.share[d] = math.min(depth, level)
    end
    for _, c in ipairs(state.classes) do -- what is left wraps around to the classes that ask
      if c.flows > 0 and spare > 0 then
        local given = math.max(0, math.min(spare, p.limit - c.share[d]))
        c.share[d], spare = c.share[d] + given, spare - given
      end
    end
  end
end

local function flow_rate(policy, state, f)
  local c, x = state.classes[f.class], 1e300
  for d, p in ipairs(policy.dims) do
    if p.cap > 0 and (c.D[d] or 0) > 0 then x = math.min(x, c.W / c.D[d]) end
  end
  return x < 1e300 and f.weight / c.W * x or 1
end

-- Seconds until the earliest refill among the depleted buckets, and which that is; 0 when all hold.
local function buckets_wait(policy, state, f, call)
  local c = state.classes[call.class]
  local wait, layer, dim = math.huge, nil, nil
  local function depleted(seconds, name, dimension)
    if seconds < wait then wait, layer, dim = seconds, name, dimension end
  end
  for d, p in ipairs(policy.dims) do
    local need = call.debit[d]
    if need > 0 and p.limit > 0 then
      local t = p.ops.wait(p, state.dims[d], math.min(need, p.depth))
      if t > 0 then depleted(t, 'target', p.name) end
      local rate = nominal(policy, call.class, p)
      local short = math.min(need, rate * p.window_s) - c.share[d]
      if short > 1e-9 then depleted(rate > 0 and short / rate or 1e300, 'class', p.name) end
    end
  end
  local rate = flow_rate(policy, state, f)
  local depth = math.max(call.sigma, rate * policy.dims[1].window_s)
  f.level = math.min(depth, (f.level or depth) + math.max(0, state.now_us - (f.level_us or state.now_us)) / 1e6 * rate)
  f.level_us = state.now_us
  if f.level < call.sigma - 1e-12 then depleted((call.sigma - f.level) / rate, 'tenant', '') end
  if state.pause_us > state.now_us then
    wait, layer, dim = (state.pause_us - state.now_us) / 1e6, 'target', ''
  end
  if not layer then return 0 end
  return wait, layer, dim
end

local function buckets_debit(policy, state, f, call)
  local c = state.classes[call.class]
  for d in ipairs(policy.dims) do c.share[d] = c.share[d] - call.debit[d] end
  f.level = f.level - call.sigma
end
