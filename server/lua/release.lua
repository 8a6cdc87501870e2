-- Release: settles a lease with the truth, withdraws a waiting request, or extends a lease. Argument and answer: README.md.
--@include lib/keys.lua
--@include lib/clock.lua
--@include lib/policy.lua
--@include lib/state.lua
--@include lib/caps.lua
--@include lib/flows.lua
--@include lib/calls.lua
--@include lib/ceilings.lua
--@include lib/queue.lua

local args = unpack_record(ARGV[1])
local id, attempt = args.id, args.attempt or 1
local call = load_call(id)
local policy = load_policy(call and call.tenant)
if not policy then return answer({result = 'no_target'}) end

-- Usage as an array over dimensions; nil and the name for one that the target does not have.
local function usage_vector(usage)
  local out = {}
  for name, amount in pairs(usage or {}) do
    local d = policy.dim_index[name]
    if not d then return nil, name end
    out[d] = amount
  end
  return out
end

local function named(values)
  local out = {}
  for d, p in ipairs(policy.dims) do
    if values[d] then out[p.name] = values[d] end
  end
  return out
end

local usage, unknown = usage_vector(args.usage)
if not usage then
  return answer({result = 'invalid', field = 'usage["' .. unknown .. '"]', version = policy.version,
    message = 'the target has no such dimension'})
end
if not call then return answer({result = 'unknown', version = policy.version}) end

local function plain(result)
  return answer({result = result, version = policy.version, tenant = call.tenant,
    class = policy.classes[call.class].name})
end

if attempt > call.attempt then return plain('unknown') end
if attempt < call.attempt or call.state == 's' then return plain('already_settled') end
if call.state == 'x' then return plain('expired') end
if call.state == 'w' and args.action ~= 'withdraw' then return plain('unknown') end

local state = load_state(policy, read_clock(args))
advance_caps(policy, state)
local f = load_flow(call.class, call.tenant) or new_flow(policy, call.class, call.tenant)

local function tenant_book()
  local raw = policy.tenant and policy.tenant.caps and redis.call('HGET', KEY_CAPS, call.tenant)
  return raw and unpack_record(raw) or nil
end

local function save(book)
  if book then redis.call('HSET', KEY_CAPS, call.tenant, pack(book)) end
  save_flow(f)
  save_state(state, policy)
end

if call.state == 'w' then
  local book = tenant_book()
  if call.blocked then unblock(state, call, book or {}) end
  if call.queued then
    dequeue(policy, state, f, call)
    local c = state.classes[f.class]
    c.least = head_tag(f.class)
    c.v = math.max(c.v, c.least or 0)
  end
  redis.call('ZREM', KEY_DUE, id)
  redis.call('ZREM', KEY_EXPIRY, id)
  redis.call('HDEL', KEY_CALLS, id)
  save(book)
  return plain('withdrawn')
end

if args.action == 'extend' then
  local more = {}
  for d, used in pairs(usage) do
    if used > (call.charged[d] or 0) then more[d] = used end
  end
  local variance = call.var
  local refunded = settle(policy, state, f, call, more, true)
  state.leases = state.leases + 1 -- it stays open
  call.var = {}
  for d in ipairs(variance) do call.var[d] = 0 end
  for d, used in pairs(more) do call.charged[d] = used end
  local lease_us = args.lease_us or policy.lease_us
  call.expires_us = state.now_us + lease_us
  redis.call('ZADD', KEY_EXPIRY, call.expires_us, id)
  save_call(id, call)
  save()
  return answer({result = 'extended', refunded = refunded, lease_us = lease_us, version = policy.version,
    tenant = call.tenant, class = policy.classes[call.class].name})
end

local outcome = args.action == 'withdraw' and 'not_sent' or args.outcome or 'unknown'
local actual, missing = usage, false
if outcome == 'not_sent' then
  for d in ipairs(policy.dims) do actual[d] = actual[d] or 0 end
end
for d in ipairs(policy.dims) do
  if (call.charged[d] or 0) > 0 and actual[d] == nil then
    -- one call is one request, whatever it used besides
    if policy.dims[d].name == 'requests' then actual[d] = call.charged[d] else missing = true end
  end
end

local estimated, charged = named(call.raw), {}
local refunded
if outcome == 'rate_limited' then
  -- the provider refused: its count is full. Caps keep the charge, the turn is given back, and the target pauses.
  local zero = {}
  for d in ipairs(policy.dims) do zero[d] = 0 end
  refunded = settle(policy, state, f, call, zero, false)
  local retry_us = math.min(args.retry_after_us or 0, 86400e6)
  if retry_us > 0 then
    state.pause_us = math.max(state.pause_us, state.now_us + retry_us)
    for d, p in ipairs(policy.dims) do
      -- the pause's own refill is not a budget: at its end one such call fits, and then the next by the rate
      if p.limit > 0 and p.model == 'continuous' and (call.charged[d] or 0) > 0 then
        local s = state.dims[d]
        s.level = math.min(s.level, math.min(call.charged[d], p.depth) - p.rate * retry_us / 1e6)
      end
    end
  end
else
  refunded = settle(policy, state, f, call, actual, true)
  if outcome == 'ok' then learn(policy, state, f, call.raw, call.expected, actual) end
end
for d in ipairs(policy.dims) do charged[d] = actual[d] or call.charged[d] end

local book = tenant_book()
if book then
  for _, cap in ipairs(policy.tenant.caps) do
    local d, b = policy.dim_index[cap.dimension], book[cap.dimension]
    if d and b and actual[d] then b.level = math.min(cap.limit, b.level + (call.charged[d] or 0) - actual[d]) end
  end
end
forget_later(policy, state, id, call, 's')
save(book)
return answer({result = args.action == 'withdraw' and 'withdrawn' or 'settled', refunded = refunded,
  version = policy.version, tenant = call.tenant, class = policy.classes[call.class].name, estimated = estimated,
  charged = named(charged), usage_missing = missing or nil})
