-- One record per request_id: first a place in line, then a lease, then a remembered id.
--   state 'w' waits: flow, A (service queued before it), sigma, due_us, ...
--   state 'l' lease: charged, expected, marks, expires_us
--   state 's' settled, 'x' ended by itself: only what answers a repeated question
local REAPED_MAX = 4

local function load_call(id)
  local raw = redis.call('HGET', KEY_CALLS, id)
  return raw and unpack_record(raw) or nil
end

local function save_call(id, call) redis.call('HSET', KEY_CALLS, id, pack(call)) end

local function forget_later(policy, state, id, call, ended)
  local kept = {state = ended, attempt = call.attempt, class = call.class, tenant = call.tenant}
  save_call(id, kept)
  redis.call('ZADD', KEY_EXPIRY, state.now_us + policy.retention_us, id)
end

-- Learns actual against estimate, per flow and dimension, and for the target as the prior of new flows.
local function learn(policy, state, f, raw, expected, actual)
  for d = 1, #policy.dims do
    local s, e = state.dims[d], raw[d] or 0
    if e > 0 and actual[d] then
      if not f.num[d] then f.num[d], f.den[d] = s.num / s.den * e, e end
      f.num[d] = f.num[d] + 0.05 * (actual[d] - f.num[d])
      f.den[d] = f.den[d] + 0.05 * (e - f.den[d])
      s.num = s.num + 0.02 * (actual[d] / e - s.num)
      s.den = 1
      local miss = actual[d] - expected[d]
      f.var[d] = (f.var[d] or 0) + 0.05 * (miss * miss - (f.var[d] or 0))
    end
  end
end

-- The lease is open no more, and its estimate no longer a source of noise.
local function close_lease(policy, state, call)
  for d = 1, #policy.dims do
    local s = state.dims[d]
    s.variance = math.max(0, s.variance - (call.var[d] or 0))
  end
  state.leases = state.leases - 1
end

-- Ends a lease: settles the charge to `actual` (absent dimensions keep their estimate) at every layer, as if it had been
-- charged at the grant. `at_caps` false: only the turn is given back (the provider counted the call). Answers what L1 did.
local function settle(policy, state, f, call, actual, at_caps)
  local refunded, credit = {}, 0
  local c = state.classes[call.class]
  local before = tag_of(f)
  for d, p in ipairs(policy.dims) do
    local charged, s = call.charged[d] or 0, state.dims[d]
    local x = (actual[d] or charged) - charged
    if x ~= 0 then
      if at_caps and p.limit > 0 then
        local done = p.ops.adjust(p, s, call.marks[d] or 0, x)
        if done ~= 0 then refunded[p.name] = -done end
        if done < 0 then s.refunded = s.refunded - done else s.debited = s.debited + done end
      end
      if call.bucket and c.share then c.share[d] = c.share[d] - x end
      if p.cap > 0 and f.F[d] then f.F[d] = f.F[d] + x / p.cap / f.weight end
      if p.cap > 0 and math.abs(x / p.cap) > math.abs(credit) then credit = x / p.cap end
    end
  end
  -- credit is bounded: nobody falls further back than about one second of its share
  local rate = (state.share > 0 and state.share or 1)
  local floor = c.v - rate / math.max(c.W, f.weight)
  local tag = tag_of(f)
  if tag < floor then
    for d, v in pairs(f.F) do f.F[d] = v + floor - tag end
    tag = floor
  end
  local weight = policy.classes[call.class].weight
  if weight > 0 then
    c.F = math.max(c.F + (tag - before) * f.weight / weight, math.min(c.F, state.V - rate))
  end
  f.service, c.service = f.service + credit, c.service + credit
  if call.bucket and f.level then f.level = f.level - credit end
  if f.band == 'h' then set_band(state, f, 'h', tag) end
  close_lease(policy, state, call)
  return refunded
end

-- A lease nobody released: how the call ended is unknown, its charge stays.
local function expire_lease(policy, state, id, call)
  close_lease(policy, state, call)
  state.expired = state.expired + 1
  forget_later(policy, state, id, call, 'x')
end

-- Leases and remembered ids that have had their time: a bounded number a call, and more than one call can add.
local function reap_calls(policy, state)
  local expired = 0
  local ids = redis.call('ZRANGEBYSCORE', KEY_EXPIRY, '-inf', state.now_us, 'LIMIT', 0, REAPED_MAX)
  for _, id in ipairs(ids) do
    local call = load_call(id)
    if call and call.state == 'l' then
      expire_lease(policy, state, id, call)
      expired = expired + 1
    else
      redis.call('ZREM', KEY_EXPIRY, id)
      if call and call.state ~= 'w' then redis.call('HDEL', KEY_CALLS, id) end
    end
  end
  return expired
end
