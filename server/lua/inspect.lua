-- Inspect: the state of a target at one instant; writes nothing. Argument and answer: README.md.
local flows = require('flows')
local keys = require('keys')
local policies = require('policies')
local states = require('states')

local FLOWS_MAX = 100 -- unless asked otherwise

local function available(p, s, state)
  if p.limit <= 0 then return 0 end
  if p.ops.free then return p.ops.free(p, s, state) end
  return p.ops.avail(p, s)
end

local function describe_dims(policy, state)
  local out = {}
  for d, p in ipairs(policy.dims) do
    local s = state.dims[d]
    if not p.retired then
      local shown = {name = p.name, rate_per_second = p.rate, capacity = p.depth, available = available(p, s, state),
        waiting = s.waiting, debited_total = s.debited, refunded_total = s.refunded}
      if p.ops.phase and p.limit > 0 then shown.phase_us, shown.phase_unsure_us = p.ops.phase(p, s, state) end
      out[#out + 1] = shown
    end
  end
  return out
end

local function describe_classes(policy, state)
  local out = {}
  for k, p in ipairs(policy.classes) do
    local c = state.classes[k]
    if not p.retired then
      out[#out + 1] = {name = p.name, weight = p.weight, start_tag = c.F, virtual_time = c.v, waiters = c.waiters,
        flows_active = c.flows, grants_total = c.grants, service_seconds = c.service}
    end
  end
  return out
end

local function describe_flow(policy, f)
  local ratio = {}
  for d, p in ipairs(policy.dims) do
    if f.dims[d].den > 0 then ratio[p.name] = f.dims[d].num / f.dims[d].den end
  end
  return {tenant = string.match(f.field, '^%d+:(.*)$'), class = policy.classes[f.class].name, weight = f.weight,
    start_tag = flows.tag_of(f), waiters = f.waiters, grants_total = f.grants, service_seconds = f.service,
    lateness_us = math.floor(f.late + 0.5), ratio = ratio}
end

-- Those that wait first, then the active, then the idle.
local function describe_flows(policy, most)
  local out = {}
  for _, band in ipairs({'h', 'a', 'b', 'i'}) do
    local left = most - #out
    local members = left > 0 and redis.call('ZRANGEBYLEX', keys.order, '[' .. band, '(' .. band .. '\255', 'LIMIT', 0, left) or {}
    for _, member in ipairs(members) do
      local f = flows.load(flows.member_field(member))
      if f then out[#out + 1] = describe_flow(policy, f) end
    end
  end
  return out
end

return function(args)
  local source = redis.call('HGET', keys.policy, 'source')
  local policy = policies.load()
  if not policy then return {result = 'no_target'} end
  states.begin(args.clock_us)
  flows.begin(#policy.dims)
  local state = states.load(policy, true)
  return {result = 'ok', version = policy.version, source = source, dims = describe_dims(policy, state),
    classes = describe_classes(policy, state), flows = describe_flows(policy, args.flows_max or FLOWS_MAX),
    virtual_time = state.V, waiters = state.waiters, leases_open = state.leases, leases_expired_total = state.expired,
    grants_total = state.grants, admits_total = state.admits, paused_us = math.max(0, state.pause_us - state.now_us)}
end
