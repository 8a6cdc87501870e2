-- The policy, read inside the evaluation: what Configure wrote decides the very next call. What is derived from it is kept
-- with the digest of the bytes it came from, and is used again only while the store still holds that.
local kept = require('kept')
local keys = require('keys')
local windows = require('windows')

local policies = {}
local cache = kept.new(1000)

local function derive_dimension(d, index)
  d.index = index
  d.window_s = d.window_us / 1e6
  d.cap = d.limit / d.window_s -- C_d, units per second
  d.rate = d.cap * d.rate_fraction -- what L1 lets go per second
  d.depth = d.limit * d.rate_fraction -- most that one window may hold
  d.ops = windows[d.model]
  d.ops.derive(d)
  d.largest_cost = d.model == 'continuous' and d.limit or d.depth -- most that a call may ever take
end

local function compile(raw)
  local policy = cmsgpack.unpack(raw)
  policy.dim_index, policy.class_index = {}, {}
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

local entries = {} -- of the evaluation: tenant → its entry, false: not listed

-- The target's policy; nil when there is no such target.
function policies.load()
  entries = {}
  local digest = redis.call('HGET', keys.policy, 'digest')
  if not digest then return nil end
  local policy = cache.take(keys.policy, 1, digest) or compile(redis.call('HGET', keys.policy, 'compiled'))
  cache.keep(keys.policy, 1, digest, policy) -- an evaluation only reads it
  return policy
end

-- Reads the entries of the tenants in one command.
function policies.fetch(policy, tenants)
  if policy.entry_count == 0 or #tenants == 0 then return end
  local fields = {}
  for i = 1, #tenants do fields[i] = 't:' .. tenants[i] end
  local found = redis.call('HMGET', keys.policy, unpack(fields))
  for i = 1, #tenants do entries[tenants[i]] = found[i] and cmsgpack.unpack(found[i]) end
end

-- The policy's own entry of the tenant; nil: not listed.
function policies.entry_of(policy, tenant)
  if policy.entry_count == 0 then return nil end
  local entry = entries[tenant]
  if entry == nil then
    local raw = redis.call('HGET', keys.policy, 't:' .. tenant)
    entry = raw and cmsgpack.unpack(raw)
    entries[tenant] = entry
  end
  return entry or nil
end

-- The weight of a tenant by its entry; nil: it has none.
function policies.weight_of(policy, entry) return entry and entry.weight or policy.default_weight end

-- Puts amounts by name into a list over the policy's dimensions; nil and the name that it does not have.
function policies.fill(policy, list, amounts)
  for name, amount in pairs(amounts or {}) do
    local d = policy.dim_index[name]
    if not d then return nil, name end
    list[d] = amount
  end
  return list
end

return policies
