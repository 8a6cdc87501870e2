-- The policy, read inside the evaluation: what Configure wrote decides the very next call. What is derived from it is kept
-- with the bytes it came from, and is used again only while the store still holds those bytes.
local keys = require('keys')
local windows = require('windows')

local policies = {}
local KEPT_MAX = 1000 -- targets
local kept, kept_count = {}, 0

local function derive_dimension(d, index)
  d.index = index
  d.window_s = d.window_us / 1e6
  d.cap = d.limit / d.window_s -- C_d, units per second
  d.rate = d.cap * d.rate_fraction -- what L1 lets go per second
  d.depth = d.limit * d.rate_fraction -- most that one window may hold
  d.ops = windows[d.model]
  d.ops.derive(d)
end

local function compile(raw)
  local policy = cmsgpack.unpack(raw)
  policy.bytes, policy.dim_index, policy.class_index = raw, {}, {}
  policy.horizon_s, policy.window_us, policy.weight = 0, 0, 0
  for i, d in ipairs(policy.dims) do
    derive_dimension(d, i)
    if not d.retired then policy.dim_index[d.name] = i end
    if d.limit > 0 then
      policy.horizon_s = math.max(policy.horizon_s, d.horizon_s)
      policy.window_us = math.max(policy.window_us, d.window_us)
    end
  end
  for i, c in ipairs(policy.classes) do
    if not c.retired then
      policy.class_index[c.name] = i
      policy.weight = policy.weight + c.weight
    end
  end
  return policy
end

-- The target's policy, and the policy's own entry of the tenant (nil: not listed). nil when there is no such target.
function policies.load(tenant)
  local raw = redis.call('HMGET', keys.policy, 'compiled', 't:' .. (tenant or ''))
  if not raw[1] then return nil end
  local policy = kept[keys.policy]
  if not policy or policy.bytes ~= raw[1] then
    if not policy then
      if kept_count >= KEPT_MAX then kept, kept_count = {}, 0 end
      kept_count = kept_count + 1
    end
    policy = compile(raw[1])
    kept[keys.policy] = policy
  end
  return policy, raw[2] and cmsgpack.unpack(raw[2]) or nil
end

-- Most that a call may ever take from the dimension.
function policies.largest_cost(p) return p.model == 'continuous' and p.limit or p.depth end

return policies
