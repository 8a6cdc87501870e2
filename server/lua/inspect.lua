-- Inspect: the state of a target at one instant; writes nothing. Argument and answer: README.md.
--@include lib/keys.lua
--@include lib/clock.lua
--@include lib/policy.lua
--@include lib/state.lua
--@include lib/caps.lua
--@include lib/flows.lua

local args = unpack_record(ARGV[1])
local source = redis.call('HGET', KEY_POLICY, 'source')
local policy = load_policy(nil)
if not policy then return answer({result = 'no_target'}) end
local state = load_state(policy, read_clock(args))

-- Looking must not move the ring of a sliding window: levels are as of the last decision there.
local dims = {}
for d, p in ipairs(policy.dims) do
  if not p.retired then
    local s, available = state.dims[d], 0
    if p.limit > 0 then
      if p.model == 'sliding' then
        available = p.depth - s.sum
      else
        MODELS[p.model].advance(p, s, state)
        available = MODELS[p.model].avail(p, s)
      end
    end
    dims[#dims + 1] = {name = p.name, rate_per_second = p.rate, capacity = p.depth, available = available,
      waiting = s.waiting, debited_total = s.debited, refunded_total = s.refunded}
  end
end

local classes, flows = {}, {}
for k, p in ipairs(policy.classes) do
  local c = state.classes[k]
  if not p.retired then
    classes[#classes + 1] = {name = p.name, weight = p.weight, start_tag = c.F, virtual_time = c.v, waiters = c.waiters,
      flows_active = c.flows, grants_total = c.grants, service_seconds = c.service}
  end
end

local flows_max = args.flows_max or 100
for _, band in ipairs({'h', 'a', 'i'}) do
  local left = flows_max - #flows
  if left > 0 then
    for _, member in ipairs(redis.call('ZRANGEBYLEX', KEY_ORDER, '[' .. band, '(' .. band .. '\255', 'LIMIT', 0, left)) do
      local f = load_flow(nil, nil, member_field(member))
      if f then
        local ratio = {}
        for d, p in ipairs(policy.dims) do
          if f.num[d] then ratio[p.name] = f.num[d] / f.den[d] end
        end
        flows[#flows + 1] = {tenant = f.tenant, class = policy.classes[f.class].name, weight = f.weight,
          start_tag = tag_of(f), waiters = f.waiters, grants_total = f.grants, service_seconds = f.service,
          lateness_us = f.late, ratio = ratio}
      end
    end
  end
end

return answer({result = 'ok', version = policy.version, source = source, dims = dims, classes = classes, flows = flows,
  virtual_time = state.V, waiters = state.waiters, leases_open = state.leases, leases_expired_total = state.expired,
  grants_total = state.grants, admits_total = state.admits, paused_us = math.max(0, state.pause_us - state.now_us)})
