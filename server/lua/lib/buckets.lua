-- Discipline `buckets`: Algorithm 1 of arXiv 2611.02926 as written, for comparison. Three nested token buckets, all checked
-- and debited at once; a refused call keeps no place, and everybody is told the earliest refill among the depleted.
--   L1  the target's caps (windows.lua)
--   L2  per class and dimension, nominal omega_k C_d / sum omega; what overflows is lent, first down, then up to whoever asks
--   L3  per active flow, in dominant share: refill (w_t / W_k) X*,  X* = min_d C_d W_k / D_kd,
--       D_kd = sum over active t of w_t c_d(t) / sigma(t), here with costs as parts of C_d
local ceilings = require('ceilings')
local flows = require('flows')
local turns = require('turns')

local buckets = {}
local ACTIVE_US = 2e6 -- a flow that asked within this time is active
local RETIRED_MAX = 16

local function nominal(policy, k, p)
  local c = policy.classes[k]
  return not c.retired and policy.weight > 0 and c.weight / policy.weight * p.cap or 0
end

local function refill_classes(policy, state)
  local dt = math.max(0, state.now_us - state.shares_us) / 1e6
  state.shares_us = state.now_us
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
    if p.cap > 0 and c.D[d] > 0 then x = math.min(x, c.W / c.D[d]) end
  end
  return x < 1e300 and f.weight / c.W * x or 1
end

local function refill_flow(policy, state, f, call)
  local rate = flow_rate(policy, state, f)
  local depth = math.max(call.sigma, rate * policy.dims[1].window_s)
  if f.level_us == 0 then f.level, f.level_us = depth, state.now_us end
  f.level = math.min(depth, f.level + math.max(0, state.now_us - f.level_us) / 1e6 * rate)
  f.level_us = state.now_us
  return rate
end

-- Seconds until the earliest refill among the depleted buckets, and which that is; 0 when all hold.
local function wait(policy, state, f, call, rate, list)
  local least, layer, dim = math.huge, nil, nil
  local function depleted(seconds, name, dimension)
    if seconds < least then least, layer, dim = seconds, name, dimension end
  end
  for d, p in ipairs(policy.dims) do
    local need = call.dims[d].charge
    if need > 0 and p.limit > 0 then
      local t = p.ops.wait(p, state.dims[d], math.min(need, p.depth))
      if t > 0 then depleted(t, 'target', p.name) end
      local class_rate = nominal(policy, call.class, p)
      local short = math.min(need, class_rate * p.window_s) - state.classes[call.class].share[d]
      if short > 1e-9 then depleted(class_rate > 0 and short / class_rate or 1e300, 'class', p.name) end
    end
  end
  if f.level < call.sigma - 1e-12 then depleted((call.sigma - f.level) / rate, 'tenant', '') end
  local ceiling_s, ceiling = ceilings.wait(list, call)
  if ceiling_s > 0 then depleted(ceiling_s, ceiling.layer, ceiling.key) end
  if state.pause_us > state.now_us then
    least, layer, dim = (state.pause_us - state.now_us) / 1e6, 'target', ''
  end
  if not layer then return 0 end
  return least, layer, dim
end

local function grant(q, list)
  local policy, state, f, call = q.policy, q.state, q.flow, q.call
  local c = state.classes[f.class]
  if call.queued then turns.dequeue(state, f, call) end -- of the other discipline
  ceilings.unblock(state, call, q.args.tenant, q.book)
  turns.wake(state, f)
  for d in ipairs(policy.dims) do c.share[d] = c.share[d] - call.dims[d].charge end
  f.level = f.level - call.sigma
  call.bucket = true
  turns.debit(policy, state, f, call, flows.tag_of(f), 0)
  turns.count_grant(state, f, call)
  ceilings.debit(list, call.serial)
end

-- Decides; answers {granted} or {wait_s, layer, dimension}. A check changes nothing but what time does.
function buckets.decide(q)
  local policy, state, f, call, dry = q.policy, q.state, q.flow, q.call, q.args.check
  turns.due_places(q) -- kept by the other discipline, until their owners are lost
  if not dry then flows.refresh_asking(state, f, ACTIVE_US, RETIRED_MAX) end
  refill_classes(policy, state)
  local rate = refill_flow(policy, state, f, call)
  local list = ceilings.of_call(policy, state, call, q.entry, q.book)
  local wait_s, layer, dimension = wait(policy, state, f, call, rate, list)
  if wait_s > 0 and not q.args.force then return {wait_s = wait_s, layer = layer, dimension = dimension} end
  if not dry then grant(q, list) end
  return {granted = true}
end

return buckets
