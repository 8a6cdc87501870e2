-- Configure: writes a whole policy, or deletes the target, if the stored version is the expected one. Argument: README.md.
-- Dimensions and classes keep their index for ever; what is removed stays as `retired`, so that no record ever has to be
-- rearranged.
local keys = require('keys')
local policies = require('policies')
local states = require('states')

local SLOTS_MAX = 64

local function keep_indexes(old, new)
  local by_name, out = {}, {}
  for _, x in ipairs(new) do by_name[x.name] = x end
  for i, x in ipairs(old or {}) do
    out[i] = by_name[x.name] or x
    out[i].retired = not by_name[x.name] or nil
    by_name[x.name] = nil
  end
  for _, x in ipairs(new) do
    if by_name[x.name] then out[#out + 1] = x end
  end
  return out
end

-- Brings the state to this moment under the policy in force, and to its shape: what has passed is settled by the old policy,
-- and whoever looks finds what fits the new one. Nothing when the target was never asked.
local function settle_state(args)
  if redis.call('EXISTS', keys.state) == 0 then return end
  local policy = policies.load()
  if not policy then return end
  states.begin(args.clock_us)
  states.load(policy)
  states.save()
  states.close(policy)
end

return function(args)
  local version = tonumber(redis.call('HGET', keys.policy, 'version') or '0')
  if args.expected_version ~= version then return {result = 'conflict', version = version} end
  if args.delete then
    redis.call('DEL', keys.policy, keys.state, keys.flows, keys.order, keys.calls, keys.due, keys.expiry, keys.caps, keys.window)
    return {result = 'ok', version = 0}
  end

  settle_state(args)
  local old_raw = redis.call('HGET', keys.policy, 'compiled')
  local old = old_raw and cmsgpack.unpack(old_raw) or {}
  local compiled = args.compiled
  compiled.dims = keep_indexes(old.dims, compiled.dims)
  compiled.classes = keep_indexes(old.classes, compiled.classes)
  if #compiled.dims > SLOTS_MAX or #compiled.classes > SLOTS_MAX then return {result = 'full', version = version} end
  compiled.version = version + 1

  compiled.entry_count = 0
  for _ in pairs(args.tenants or {}) do compiled.entry_count = compiled.entry_count + 1 end
  redis.call('DEL', keys.policy)
  local bytes = cmsgpack.pack(compiled)
  redis.call('HSET', keys.policy, 'version', version + 1, 'compiled', bytes, 'digest', redis.sha1hex(bytes),
    'source', args.source)
  for name, tenant in pairs(args.tenants or {}) do
    redis.call('HSET', keys.policy, 't:' .. name, cmsgpack.pack(tenant))
  end
  settle_state(args)
  return {result = 'ok', version = version + 1}
end
