-- Reading the policy inside the evaluation: what Configure wrote decides the very next call.

local SLOTS = 100 -- of a sliding window; a slot leaves SLOTS + 1 slots after it began

-- Rate in units per second and dominant-share cap of a dimension, derived once per evaluation.
local function derive_dimension(d)
  local window_s = d.window_us / 1e6
  d.window_s = window_s
  d.cap = d.limit / window_s -- C_d, units per second
  d.rate = d.cap * d.rate_fraction
  d.depth = d.limit * d.rate_fraction -- most that one window may hold
  if d.model == 'continuous' then d.depth = d.limit * d.burst_fraction end
  if d.model == 'sliding' then d.rate = d.rate * SLOTS / (SLOTS + 1) end -- a slot leaves one slot late
end

-- The compiled policy with indexes by name, and the caller's own entry; nil when there is no such target.
local function load_policy(tenant)
  local raw = redis.call('HMGET', KEY_POLICY, 'compiled', 't:' .. (tenant or ''))
  if not raw[1] then return nil end
  local policy = unpack_record(raw[1])
  policy.dim_index, policy.class_index = {}, {}
  for i, d in ipairs(policy.dims) do
    derive_dimension(d)
    if not d.retired then policy.dim_index[d.name] = i end
  end
  for i, c in ipairs(policy.classes) do
    if not c.retired then policy.class_index[c.name] = i end
  end
  policy.tenant = raw[2] and unpack_record(raw[2]) or nil
  return policy
end

local function tenant_weight(policy) return policy.tenant and policy.tenant.weight or policy.default_weight end
