-- One record per request_id: first a place in line, then a lease, then a remembered id.
local keys = require('keys')
local records = require('records')
local rows = require('rows')
local flows = require('flows')
local states = require('states')

local calls = {}
local REAPED_MAX = 4
local LEARN_FLOW, LEARN_TARGET = 0.05, 0.02 -- gains of the estimates' EWMAs

local codecs = records.by_count({
  'state!', -- 'w' waits, 'l' lease, 's' settled, 'x' ended by itself; the last two only answer a repeated question
  'attempt', 'class',
  'bound?', -- the cost is an upper bound: debited as it stands
  'queued?', -- has a place in its flow
  'parked?', -- a server holds it until it is due
  'big?', -- needs so much of a dimension that it is saved for from far ahead
  'bucket?', -- granted by discipline `buckets`
  'admits', -- questions so far
  'first_us', -- first question
  'A', -- E of the flow when it was enqueued
  'sigma', -- dominant share expected, seconds of the cap
  'told_us', 'due_us', -- when it was told to come back, when its turn is; 0: not
  'projected_us', -- the first wait it was told; 0: none
  'granted_us', 'expires_us', 'serial', -- of the lease: times, and the number of its debit
  'has_ceilings?', -- waits at ceilings, which follow (ceilings.lua)
}, 'dims', {
  'raw', -- asked for
  'expected', -- the corrected estimate
  'charge', -- what is debited: expected, or raw if that is a bound
  'mark', -- of the debit (windows.lua)
  'var', -- put into the dimension's variance
  'net', -- the dimension's as the grant left it
})
local ended_codecs = records.by_count({'state!', 'attempt', 'class'}, 'none', {})

local function fresh_dim(raw) return {raw = raw, expected = 0, charge = 0, mark = 0, var = 0, net = 0} end

local dim_count = 0 -- of the policy in force

-- The record begins with a byte: how many dimensions it has, 0 for what has ended.
local function read(_, raw)
  local stored = string.byte(raw)
  if stored == 0 then
    local ended, at = ended_codecs(0).read(raw)
    ended.tenant = string.sub(raw, at)
    return ended
  end
  local call, at = codecs(stored).read(raw)
  call.tenant, at = struct.unpack('<Hc0', raw, at)
  if call.has_ceilings then call.ceilings = cmsgpack.unpack(string.sub(raw, at)) end
  return call
end

local function write(call)
  if not call.dims then return ended_codecs(0).write(call) .. call.tenant end
  call.has_ceilings = call.ceilings ~= nil
  local bytes = codecs(#call.dims).write(call) .. struct.pack('<Hc0', #call.tenant, call.tenant)
  if call.ceilings then bytes = bytes .. cmsgpack.pack(call.ceilings) end
  return bytes
end

-- A place is read by all behind it, a lease once.
local hash = rows.new('calls', 4000, read, write, function(call) return call.state == 'w' end)
local expiry = {} -- id → when it comes up for reaping, false: no more; written with the calls

function calls.begin(count)
  dim_count, expiry = count, {}
  hash.begin()
end

calls.fetch = hash.fetch

-- What is known of the id; nil: nothing.
function calls.load(id)
  local call = hash.get(id)
  if call and call.dims then
    for d = #call.dims + 1, dim_count do call.dims[d] = fresh_dim(0) end -- added since it was written
  end
  return call
end

calls.save = hash.put
calls.looked_at = hash.looked_at
calls.drop = hash.drop
function calls.remove(id) hash.put(id, false) end

local function write_expiry()
  local add, gone = {}, {}
  for id, at_us in pairs(expiry) do
    if at_us then
      add[#add + 1], add[#add + 2] = at_us, id
    else
      gone[#gone + 1] = id
    end
  end
  if #add > 0 then redis.call('ZADD', keys.expiry, unpack(add)) end
  if #gone > 0 then redis.call('ZREM', keys.expiry, unpack(gone)) end
  expiry = {}
end

-- Writes what has changed.
function calls.close()
  hash.close()
  write_expiry()
end

function calls.new(args, class, cost, now_us)
  local call = {state = 'w', attempt = args.attempt, class = class, tenant = args.tenant, bound = args.bound, admits = 0,
    queued = false, parked = false, big = false, bucket = false, has_ceilings = false, first_us = now_us, A = 0,
    sigma = 0, told_us = 0, due_us = 0, projected_us = 0, granted_us = 0, expires_us = 0, serial = 0, dims = {nil, nil, nil, nil}}
  local dims = call.dims
  for d = 1, #cost do dims[d] = fresh_dim(cost[d]) end
  return call
end

local function big_member(id, due_us) return 'p' .. struct.pack('>Hd', 0, due_us) .. id end

-- The place stands in line until its turn at due_us; 0: no more. Big ones have a list of their own, band 'p' of `order`.
function calls.set_due(state, id, call, due_us)
  if call.due_us > 0 and call.big then
    redis.call('ZREM', keys.order, big_member(id, call.due_us))
    state.bigs = state.bigs - 1
  end
  if due_us > 0 then
    redis.call('ZADD', keys.due, due_us, id)
    if call.big then
      redis.call('ZADD', keys.order, 0, big_member(id, due_us))
      state.bigs = state.bigs + 1
    end
  elseif call.due_us > 0 then
    redis.call('ZREM', keys.due, id)
  end
  call.due_us = due_us
end

-- The big places whose turn comes until then, at most so many: their ids.
function calls.big_ids(until_us, limit)
  local ids = redis.call('ZRANGEBYLEX', keys.order, '[p', '(p' .. struct.pack('>Hd', 0, until_us), 'LIMIT', 0, limit)
  for i, member in ipairs(ids) do ids[i] = string.sub(member, 12) end
  return ids
end

-- The id comes up again for reaping at that time.
function calls.expire_at(state, id, at_us)
  expiry[id] = at_us
  if at_us < state.expiry_us then state.expiry_us = at_us end
end

function calls.expire_never(id) expiry[id] = false end

function calls.remember(policy, state, id, call, ended)
  hash.put(id, {state = ended, attempt = call.attempt, class = call.class, tenant = call.tenant})
  calls.expire_at(state, id, state.now_us + policy.retention_us)
end

function calls.open_lease(policy, state, id, call)
  call.state, call.granted_us, call.expires_us = 'l', state.now_us, state.now_us + policy.lease_us
  calls.set_due(state, id, call, 0)
  call.told_us, call.parked = 0, false
  calls.expire_at(state, id, call.expires_us)
  calls.save(id, call)
  state.leases = state.leases + 1
end

-- The estimate of an open lease is no source of noise any more.
function calls.forget_variance(policy, state, call)
  for d, p in ipairs(policy.dims) do
    local cd = call.dims[d]
    if cd and cd.var > 0 then
      local s = state.dims[d]
      states.add_variance(s, p.ops.edges and cd.mark or p.ops.period(p, s, call.granted_us), -cd.var)
      cd.var = 0
    end
  end
end

function calls.close_lease(policy, state, call)
  calls.forget_variance(policy, state, call)
  state.leases = state.leases - 1
end

-- Learns actual against estimate, per flow and dimension, and for the target as the prior of new flows.
function calls.learn(state, f, call, actual)
  for d, cd in ipairs(call.dims) do
    local s, fd = state.dims[d], f.dims[d]
    if cd.raw > 0 and actual[d] then
      if fd.den == 0 then fd.num, fd.den = s.ratio * cd.raw, cd.raw end
      fd.num = fd.num + LEARN_FLOW * (actual[d] - fd.num)
      fd.den = fd.den + LEARN_FLOW * (cd.raw - fd.den)
      s.ratio = s.ratio + LEARN_TARGET * (actual[d] / cd.raw - s.ratio)
      local miss = actual[d] - cd.expected
      fd.var = fd.var + LEARN_FLOW * (miss * miss - fd.var)
    end
  end
end

-- Charges `actual` (by dimension; absent ones keep their estimate) instead of what was charged, at every layer, as if it had
-- been at the grant. `at_caps` false: only the turn is given back (the provider counted the call). Answers {name → what L1
-- gave back}.
function calls.recharge(policy, state, f, call, actual, at_caps)
  local refunded, credit = {}, 0
  local c, before = state.classes[f.class], flows.tag_of(f)
  for d, p in ipairs(policy.dims) do
    local charged, s = call.dims[d].charge, state.dims[d]
    local x = (actual[d] or charged) - charged
    if x ~= 0 then
      if at_caps and p.limit > 0 then
        local done = p.ops.adjust(p, s, call.dims[d].mark, x)
        if done ~= 0 then refunded[p.name] = -done end
        if done < 0 then s.refunded = s.refunded - done else s.debited = s.debited + done end
      end
      if call.bucket and c.share then c.share[d] = c.share[d] - x end
      if p.cap > 0 then
        if f.dims[d].F > 0 then f.dims[d].F = f.dims[d].F + x / p.cap / f.weight end
        if math.abs(x / p.cap) > math.abs(credit) then credit = x / p.cap end
      end
    end
  end
  -- credit is bounded: nobody falls further back than about one second of its share
  local rate = state.share > 0 and state.share or 1
  local floor = c.v - rate / math.max(c.W, f.weight)
  local tag = flows.tag_of(f)
  local own = tag - before -- the class is charged what the call cost, not the lift that follows
  if tag < floor then
    for _, fd in ipairs(f.dims) do
      if fd.F > 0 then fd.F = fd.F + floor - tag end
    end
    tag = flows.tag_of(f)
  end
  local omega = policy.classes[f.class].weight
  if omega > 0 then
    c.F = math.max(c.F + own * f.weight / omega, math.min(c.F, state.V - rate))
  end
  f.service, c.service = f.service + credit, c.service + credit
  if call.bucket then f.level = f.level - credit end
  if f.band == 'h' then flows.place(state, f, 'h', tag) end
  return refunded
end

-- Leases and remembered ids that have had their time: a bounded number a call, and more than one call can add. A lease
-- nobody released: how the call ended is unknown, its charge stays. Answers how many of those.
function calls.reap(policy, state)
  if state.now_us < state.expiry_us then return 0 end
  write_expiry()
  local found = redis.call('ZRANGEBYSCORE', keys.expiry, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, REAPED_MAX + 1)
  local expired = 0
  state.expiry_us = states.NEVER
  for i = 1, #found, 2 do
    local id, at_us = found[i], tonumber(found[i + 1])
    if at_us > state.now_us or i > 2 * REAPED_MAX then
      state.expiry_us = math.min(state.expiry_us, at_us)
      break
    end
    local call = calls.load(id)
    if call and call.state == 'l' then
      calls.close_lease(policy, state, call)
      calls.remember(policy, state, id, call, 'x')
      state.expired, expired = state.expired + 1, expired + 1
    else
      calls.expire_never(id)
      if call and not (call.state == 'w' and call.due_us > 0) then calls.remove(id) end -- but one that came back
    end
  end
  return expired
end

return calls
