-- Two-level start-time fair queueing on dominant share: whose turn it is (L2 between classes, L3 between flows).
--   sigma = max_d c_d / C_d                      seconds of the cap
--   class k: start tag F_k against V             flow: start tag max_d F_d against its class's v
--   granted: F += sigma / w (flow), F_k += sigma / omega_k; v and V follow the least waiting tag, never the clock
-- Sources: Goyal et al., SFQ (SIGCOMM 1996); Ghodsi et al., DRF (NSDI 2011) and DRFQ (SIGCOMM 2012);
-- X* of arXiv 2611.02926 as the forecast's speed.
local LOOK = 8            -- due places looked at per call
local SWEPT_MAX = 8       -- lost places given back per call
local OVERDUE_US = 100000 -- later than this, a place no longer stands before its own siblings
local DOVETAIL_S = 1      -- how far an idle dimension's tag may lag behind the dominant one
local BANK = 0.25         -- part of the hold that out-of-turn callers must leave

local function omega(policy, k) return policy.classes[k].weight end

local function is_active(state, c) return c.flows > 0 and (c.waiters > 0 or c.F > state.V) end

-- Virtual seconds of service per second: X = 1 / max_d (sum_k omega_k D_kd / W_k) / rho_d over active classes.
local function service_rate(policy, state)
  local worst = 0
  for d, p in ipairs(policy.dims) do
    if p.limit > 0 then
      local g = 0
      for k, c in ipairs(state.classes) do
        if c.W > 0 and is_active(state, c) then g = g + omega(policy, k) * (c.D[d] or 0) / c.W end
      end
      worst = math.max(worst, g * p.cap / p.rate)
    end
  end
  if worst > 1e-12 then state.share = 1 / worst elseif state.share <= 0 then state.share = 1 end
  return state.share
end

-- An idle flow or class starts where the others are: no old credit, no old debt beyond its finish tag.
local function wake(policy, state, f)
  local c = state.classes[f.class]
  if c.waiters == 0 then c.F = math.max(c.F, state.V) end
  if f.waiters == 0 then
    for d in ipairs(policy.dims) do f.F[d] = math.max(f.F[d] or 0, c.v) end
  end
end

local function follow_service(policy, state, f, flow_tag, class_tag)
  local c = state.classes[f.class]
  c.least = head_tag(f.class)
  c.v = math.max(c.v, c.least or flow_tag)
  local least
  for k, other in ipairs(state.classes) do
    if other.waiters > 0 and omega(policy, k) > 0 and (not least or other.F < least) then least = other.F end
  end
  if least or omega(policy, f.class) > 0 then state.V = math.max(state.V, least or class_tag) end
end

local function add_waiting(policy, state, cost, sign)
  for d = 1, #policy.dims do
    local s = state.dims[d]
    s.waiting = math.max(0, s.waiting + sign * (cost[d] or 0))
  end
end

local function enqueue(policy, state, f, call)
  f.waiters = f.waiters + 1
  state.classes[f.class].waiters = state.classes[f.class].waiters + 1
  state.waiters = state.waiters + 1
  add_waiting(policy, state, call.expected, 1)
  enter_sums(state, f, #policy.dims)
  set_band(state, f, 'h', tag_of(f))
  call.queued = true
end

local function dequeue(policy, state, f, call)
  f.waiters = f.waiters - 1
  state.classes[f.class].waiters = state.classes[f.class].waiters - 1
  state.waiters = state.waiters - 1
  add_waiting(policy, state, call.expected, -1)
  if not call.overdue then f.G = f.G + call.sigma end
  if f.waiters <= 0 then
    f.waiters, f.G = 0, f.E
    set_band(state, f, 'a', tag_of(f))
  end
  call.queued, call.overdue = nil, nil
end

local function grace_us(f) return math.min(3e6, math.max(250000, 3 * f.dev)) end

local function lose_place(policy, state, id, call)
  call.lost = true
  save_call(id, call)
  redis.call('ZREM', KEY_DUE, id)
  redis.call('ZADD', KEY_EXPIRY, state.now_us + policy.retention_us, id)
end

local function sweep_blocked(policy, state, id, call)
  local raw = redis.call('HGET', KEY_CAPS, call.tenant)
  local book = raw and unpack_record(raw) or {}
  unblock(state, call, book)
  if raw then redis.call('HSET', KEY_CAPS, call.tenant, pack(book)) end
  lose_place(policy, state, id, call)
end

-- The due places with their flows, oldest first. Owners who have not come back within the grace period lose the place, so
-- that the dead hold nobody up.
local function due_places(policy, state, own_id, own_flow, horizon_us)
  if state.waiters == 0 then return {} end
  local raw = redis.call('ZRANGEBYSCORE', KEY_DUE, '-inf', state.now_us + horizon_us, 'WITHSCORES', 'LIMIT', 0, LOOK)
  local places, flows, swept = {}, {[own_flow.field] = own_flow}, 0
  for i = 1, #raw, 2 do
    local id, due_us = raw[i], tonumber(raw[i + 1])
    local call = id ~= own_id and load_call(id)
    if call and call.state == 'w' then
      local field = flow_field(call.class, call.tenant)
      local f = flows[field] or load_flow(nil, nil, field)
      flows[field] = f
      if call.blocked and state.now_us > due_us + 3e6 then
        sweep_blocked(policy, state, id, call)
      elseif call.queued and f and swept < SWEPT_MAX and state.now_us > due_us + grace_us(f) then
        swept = swept + 1
        dequeue(policy, state, f, call)
        lose_place(policy, state, id, call)
        if f ~= own_flow then save_flow(f) end
        local c = state.classes[f.class]
        c.least = head_tag(f.class)
        c.v = math.max(c.v, c.least or c.v)
      elseif call.queued and f then
        if state.now_us > due_us + OVERDUE_US and not call.overdue then
          call.overdue = true
          f.G = f.G + call.sigma
          save_call(id, call)
          if f ~= own_flow then save_flow(f) end
        end
        places[#places + 1] = {call = call, flow = f, due_us = due_us}
      end
    elseif id ~= own_id then
      redis.call('ZREM', KEY_DUE, id)
    end
  end
  return places
end

-- Global virtual time at which a place's turn comes, by its class's clock and its own place in the flow. The class serves
-- its least waiting tag next, however far that is ahead of v: a lone flow is not behind itself.
local function turn_key(policy, state, f, A)
  local w = omega(policy, f.class)
  if w <= 0 then return 1e300 end
  local c = state.classes[f.class]
  local ahead = math.max(0, A - f.G)
  local F = c.waiters > 0 and c.F or math.max(c.F, state.V)
  local base = math.max(c.v, c.waiters > 0 and c.least or tag_of(f))
  return F + math.max(0, tag_of(f) + ahead / f.weight - base) * math.max(c.W, f.weight) / w
end

-- Seconds until the place's turn: work before it in its class (own siblings, heads with better tags, the lag of tags) and
-- in the other classes, over the service rate.
local function wait_for_turn(policy, state, f, A, rate)
  local c, w = state.classes[f.class], omega(policy, f.class)
  local mean = state.mean_sigma or 0
  local own = math.max(0, A - f.G)
  local reach = tag_of(f) + own / f.weight
  local rank = heads_before(f.class, reach)
  if f.band == 'h' and rank > 0 and f.head_tag < reach then rank = rank - 1 end
  local pulse = math.max(0.1, math.min(0.5 * mean, 0.5))
  local work = math.max(own, rank * mean, reach * c.Wh - c.M + math.min(rank * mean, pulse))
  local total, weights = 0, 0
  for k, other in ipairs(state.classes) do
    local wk = omega(policy, k)
    if is_active(state, other) then weights = weights + wk end
    if other.waiters > 0 and wk > 0 then
      if w > 0 then
        local g = (c.waiters > 0 and c.F or math.max(c.F, state.V)) + work / w
        if g > other.F then
          total = total + wk * (g - other.F) + (k ~= f.class and math.min(mean, 0.05) or 0)
        end
      else
        for d, p in ipairs(policy.dims) do
          if p.cap > 0 then total = math.max(total, state.dims[d].waiting / p.cap) end
        end
      end
    end
  end
  if w <= 0 then return total + work / math.max(rate, 1e-9) end
  return total / (rate * math.max(weights, w))
end

-- What L1 must keep for places with better turns that are due, or will be before L1 could be full again.
local function reserve(policy, state, my_key, my_flow, places, cost)
  local kept, sum = {}, {}
  for d in ipairs(policy.dims) do kept[d], sum[d] = 0, 0 end
  for _, place in ipairs(places) do
    local f, call = place.flow, place.call
    local sibling_overdue = f == my_flow and call.overdue
    if not sibling_overdue and turn_key(policy, state, f, call.A) < my_key - 1e-12 then
      local tau = math.max(0, place.due_us - state.now_us) / 1e6
      for d, p in ipairs(policy.dims) do
        local c = call.debit[d] or 0
        if c > 0 and p.limit > 0 and tau <= horizon(p) then
          sum[d] = sum[d] + c
          if tau <= 0 then
            sum[d] = math.min(sum[d], math.max(hold_fraction(p) * p.depth - (cost[d] or 0), c))
          end
          kept[d] = math.max(kept[d], sum[d] - p.ops.gain(p, state.dims[d], tau))
        end
      end
    end
  end
  return kept
end

-- Debits L1 and moves the flow's tags on, dimension by dimension; an idle dimension lags by `dovetail` at most.
local function debit_caps(policy, state, f, call, start, dovetail)
  state.serial = state.serial + 1
  call.marks, call.charged, call.var = {}, {}, {}
  for d, p in ipairs(policy.dims) do
    local x, s = call.debit[d] or 0, state.dims[d]
    call.charged[d], call.marks[d], call.var[d] = x, 0, 0
    if x > 0 and p.limit > 0 then
      call.marks[d] = p.ops.debit(p, s, x, state.serial)
      s.debited = s.debited + x
      f.F[d] = math.max(f.F[d] or 0, start - dovetail) + x / p.cap / f.weight
      call.var[d] = f.var[d] or 0
      s.variance = s.variance + call.var[d]
    end
  end
end

local function count_grant(state, f, call)
  local c = state.classes[f.class]
  f.grants, c.grants, state.grants = f.grants + 1, c.grants + 1, state.grants + 1
  f.service, c.service = f.service + call.sigma, c.service + call.sigma
end

-- Debits every layer at once and moves virtual time on.
local function grant(policy, state, f, call, fresh)
  local c, w = state.classes[f.class], omega(policy, f.class)
  local start, class_start = tag_of(f), c.F
  local dovetail = DOVETAIL_S * (state.share > 0 and state.share or 1) * w / math.max(c.W, f.weight)
  debit_caps(policy, state, f, call, start, dovetail)
  if not fresh then dequeue(policy, state, f, call) end
  if w > 0 then c.F = class_start + math.max(0, tag_of(f) - start) * f.weight / w end
  if f.waiters > 0 then
    set_band(state, f, 'h', tag_of(f))
  elseif f.band ~= 'a' then
    enter_sums(state, f, #policy.dims)
    set_band(state, f, 'a', tag_of(f))
  end
  follow_service(policy, state, f, start, class_start)
  count_grant(state, f, call)
end
