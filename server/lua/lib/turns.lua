-- Two-level start-time fair queueing on dominant share: whose turn it is (L2 between classes, L3 between flows).
--   sigma = max_d c_d / C_d                      seconds of the cap
--   class k: start tag F_k against V             flow: start tag max_d F_d against its class's v
--   granted: F += sigma / w (flow), F_k += sigma / omega_k; v and V follow the tag that is served, never the clock
-- Sources: Goyal et al., SFQ (SIGCOMM 1996); Ghodsi et al., DRF (NSDI 2011) and DRFQ (SIGCOMM 2012);
-- X* of arXiv 2611.02926 as the forecast's speed.
local keys = require('keys')
local calls = require('calls')
local ceilings = require('ceilings')
local flows = require('flows')
local states = require('states')

local turns = {}
local LOOK, LOOK_BIG = 8, 4 -- due places looked at per call, and big ones whose turn is further off
local GRACE_MIN_US, GRACE_MAX_US = 250000, 3e6 -- how long after its time a place is kept for its owner
local SPARE_S = 0.05       -- most that a place waits longer for the siblings before it
local DOVETAIL_S = 1      -- how far an idle dimension's tag may lag behind the dominant one
local tag_of = flows.tag_of

local function is_active(state, c) return c.flows > 0 and (c.waiters > 0 or c.F > state.V) end

-- Virtual seconds of service per second: X = 1 / max_d (sum_k omega_k D_kd / W_k) / rho_d over active classes.
function turns.service_rate(policy, state)
  local worst = 0
  for d, p in ipairs(policy.dims) do
    if p.limit > 0 then
      local g = 0
      for k, c in ipairs(state.classes) do
        if c.W > 0 and is_active(state, c) then g = g + policy.classes[k].weight * c.D[d] / c.W end
      end
      g = g * p.cap / p.rate
      if g > worst then worst = g end
    end
  end
  if worst > 1e-12 then state.share = 1 / worst elseif state.share <= 0 then state.share = 1 end
  return state.share
end

-- An idle flow or class starts where the others are: no old credit, no old debt beyond its finish tag.
function turns.wake(state, f)
  local c = state.classes[f.class]
  if c.waiters == 0 and c.F < state.V then c.F = state.V end
  if f.waiters == 0 then
    local dims, v = f.dims, c.v
    for d = 1, #dims do
      local fd = dims[d]
      if fd.F < v then fd.F = v end
    end
  end
end

-- Virtual time is the start tag of who is served, never beyond those who still wait (who asks out of turn is ahead of them).
local function follow_service(policy, state, f, flow_tag, class_tag)
  local c = state.classes[f.class]
  local v = c.waiters > 0 and c.least < flow_tag and c.least or flow_tag
  if v > c.v then c.v = v end
  local V = policy.classes[f.class].weight > 0 and class_tag or nil
  if state.waiters > 0 then
    for k, other in ipairs(state.classes) do
      if other.waiters > 0 and policy.classes[k].weight > 0 and (not V or other.F < V) then V = other.F end
    end
  end
  if V and V > state.V then state.V = V end
end

local function add_waiting(state, call, sign)
  for d, cd in ipairs(call.dims) do
    local s = state.dims[d]
    s.waiting = math.max(0, s.waiting + sign * cd.expected)
  end
end

function turns.enqueue(state, f, call)
  local c = state.classes[f.class]
  f.waiters, c.waiters, state.waiters = f.waiters + 1, c.waiters + 1, state.waiters + 1
  add_waiting(state, call, 1)
  flows.enter_sums(state, f)
  flows.place(state, f, 'h', tag_of(f))
  call.queued = true
end

-- The place is given back; who waits behind moves up.
function turns.dequeue(state, f, call)
  local c = state.classes[f.class]
  f.waiters, c.waiters, state.waiters = f.waiters - 1, c.waiters - 1, state.waiters - 1
  add_waiting(state, call, -1)
  f.G = f.G + call.sigma
  if f.waiters <= 0 then
    f.waiters, f.G = 0, f.E
    flows.place(state, f, 'a', state.now_us)
  end
  call.queued = false
end

-- Virtual time is not held by who has gone.
function turns.advance_class(state, class)
  local c = state.classes[class]
  if c.waiters > 0 and c.least > c.v then c.v = c.least end
end

local function lose_place(policy, state, id, call)
  calls.set_due(state, id, call, 0)
  calls.save(id, call)
  calls.expire_at(state, id, state.now_us + policy.retention_us)
end

-- Reads the places of `ids` and their flows in two commands: {id, call, flow}, in that order; call nil: no place any more.
local function load_places(ids, own_flow)
  calls.fetch(ids)
  local places, fields = {}, {}
  for i, id in ipairs(ids) do
    local call = calls.load(id)
    places[i] = {id = id}
    if call and call.state == 'w' then
      places[i].call = call
      fields[#fields + 1] = flows.field_of(call.class, call.tenant)
    end
  end
  if #fields > 0 then flows.fetch(fields) end
  local next_field = 1
  for _, place in ipairs(places) do
    if place.call then
      local field = fields[next_field]
      next_field = next_field + 1
      if field == own_flow.field then place.flow = own_flow else place.flow = flows.load(field) end
    end
  end
  return places
end

-- A place whose owner is not back within the grace period is given back, so that the dead hold nobody up. Answers whether the
-- place still stands. `dry`: only looks.
local function still_stands(policy, state, id, call, f, own_flow, dry)
  local lost = state.now_us > call.due_us + math.min(GRACE_MAX_US, math.max(GRACE_MIN_US, 3 * f.dev))
  if lost and not dry then
    turns.dequeue(state, f, call)
    lose_place(policy, state, id, call)
    turns.advance_class(state, f.class)
    if f ~= own_flow then flows.save(f) end
  end
  return not lost
end

-- Ids of the places whose turn comes within the horizon, oldest first, and of big ones within a window.
local function due_ids(policy, state, own_id)
  local ids = redis.call('ZRANGEBYSCORE', keys.due, '-inf', state.now_us + policy.horizon_s * 1e6, 'LIMIT', 0, LOOK)
  local bigs = state.bigs > 0 and calls.big_ids(state.now_us + policy.window_us, LOOK_BIG) or {}
  local out, seen = {}, {[own_id] = true}
  for _, list in ipairs({ids, bigs}) do
    for _, id in ipairs(list) do
      if not seen[id] then
        out[#out + 1] = id
        seen[id] = true
      end
    end
  end
  return out
end

-- The places that others than the asker must respect: {call, flow}. Gives back those whose owners are lost, but for a check.
function turns.due_places(q)
  local policy, state, own_flow, dry = q.policy, q.state, q.flow, q.args.check
  if state.waiters == 0 and state.blocked == 0 then return {} end
  local ids = due_ids(policy, state, q.id)
  if #ids == 0 then return ids end
  local found = load_places(ids, own_flow)
  local places = {}
  for _, place in ipairs(found) do
    local id, call, f = place.id, place.call, place.flow
    if not call then
      if not dry then redis.call('ZREM', keys.due, id) end
    elseif call.ceilings then
      if state.now_us > call.due_us + GRACE_MAX_US and not dry then
        ceilings.unblock(state, call, q.args.tenant, q.book)
        lose_place(policy, state, id, call)
      end
    elseif call.queued and f and still_stands(policy, state, id, call, f, own_flow, dry) then
      places[#places + 1] = place
      calls.looked_at(id)
      if f ~= own_flow then flows.looked_at(f.field) end
    end
  end
  return places
end

-- Global virtual time at which a place's turn comes, by its class's clock and its own place in the flow. The class serves
-- its least waiting tag next, however far that is ahead of v: a lone flow is not behind itself.
function turns.key(policy, state, f, A)
  local omega = policy.classes[f.class].weight
  if omega <= 0 then return 1e300 end
  local c, tag = state.classes[f.class], tag_of(f)
  local ahead = A > f.G and A - f.G or 0
  local F, base = c.F, c.v
  if c.waiters > 0 then
    if c.least > base then base = c.least end
  else
    if F < state.V then F = state.V end
    if tag > base then base = tag end
  end
  local lag = tag + ahead / f.weight - base
  return F + (lag > 0 and lag or 0) * math.max(c.W, f.weight) / omega
end

-- Dominant shares before the place in its own class: siblings, heads with better tags, the lag of tags; and a little more,
-- so that few come before their turn.
local function work_before(state, f, A)
  local c, mean = state.classes[f.class], state.mean_sigma
  local own = A > f.G and A - f.G or 0
  local reach = tag_of(f) + own / f.weight
  local rank, spare = flows.heads_before(state, f, reach), 0
  if f.band == 'h' and rank > 0 and own > 0 then -- itself
    rank = rank - 1
    spare = math.min(mean, SPARE_S)
  end
  spare = spare + math.min(rank * mean, math.max(0.1, math.min(0.5 * mean, 0.5)))
  return math.max(own, rank * mean, reach * c.Wh - c.M + spare)
end

-- Seconds until all that waits is served, if anybody with weight does: background classes come after them.
local function weighted_backlog(policy, state)
  for k, c in ipairs(state.classes) do
    if c.waiters > 0 and policy.classes[k].weight > 0 then
      local total = 0
      for d, p in ipairs(policy.dims) do
        if p.cap > 0 then total = math.max(total, state.dims[d].waiting / p.cap) end
      end
      return total
    end
  end
  return 0
end

-- Seconds until the place's turn: work before it in its class and in the other classes, over the service rate.
function turns.wait(policy, state, f, A, rate)
  local c, omega = state.classes[f.class], policy.classes[f.class].weight
  local work = work_before(state, f, A)
  if omega <= 0 then return weighted_backlog(policy, state) + work / math.max(rate, 1e-9) end
  local g = (c.waiters > 0 and c.F or math.max(c.F, state.V)) + work / omega
  local total, weights = 0, 0
  for k, other in ipairs(state.classes) do
    local w = policy.classes[k].weight
    if is_active(state, other) then weights = weights + w end
    if other.waiters > 0 and w > 0 and g > other.F then
      total = total + w * (g - other.F) + (k ~= f.class and math.min(state.mean_sigma, 0.05) or 0)
    end
  end
  return total / (rate * math.max(weights, omega))
end

-- What L1 must keep, by dimension, for places with better turns that are due, or will be before L1 could be full again.
function turns.reserve(policy, state, my_key, places, mine)
  local kept, sum = {}, {}
  for d in ipairs(policy.dims) do kept[d], sum[d] = 0, 0 end
  for _, place in ipairs(places) do
    local f, call = place.flow, place.call
    if turns.key(policy, state, f, call.A) < my_key - 1e-12 then
      local tau = math.max(0, call.due_us - state.now_us) / 1e6
      for d, p in ipairs(policy.dims) do
        local c = call.dims[d].charge
        if c > 0 and p.limit > 0 and (tau <= p.horizon_s or call.big) then
          sum[d] = sum[d] + c
          if tau <= 0 then sum[d] = math.min(sum[d], math.max(p.hold * p.depth - mine.dims[d].charge, c)) end
          kept[d] = math.max(kept[d], sum[d] - p.ops.gain(p, state.dims[d], tau))
        end
      end
    end
  end
  return kept
end

-- Debits L1 and moves the flow's tags on, dimension by dimension; an idle dimension lags by `dovetail` at most.
function turns.debit(policy, state, f, call, start, dovetail)
  state.serial = state.serial + 1
  call.serial = state.serial
  local dims, least = policy.dims, start - dovetail
  for d = 1, #dims do
    local p, cd = dims[d], call.dims[d]
    local x = cd.charge
    cd.mark, cd.var, cd.net = 0, 0, 0
    if x > 0 and p.limit > 0 then
      local fd, s = f.dims[d], state.dims[d]
      cd.mark = p.ops.debit(p, s, x, state.serial)
      s.debited = s.debited + x
      s.net = s.net - cd.expected
      cd.net = s.net
      local F = fd.F
      fd.F = (F > least and F or least) + x / p.cap / f.weight
      if fd.var > 0 then
        cd.var = fd.var
        states.add_variance(s, p.ops.period(p, s, state.now_us), fd.var)
      end
    end
  end
end

function turns.count_grant(state, f, call)
  local c = state.classes[f.class]
  f.grants, c.grants, state.grants = f.grants + 1, c.grants + 1, state.grants + 1
  f.service, c.service = f.service + call.sigma, c.service + call.sigma
  f.used_us = state.now_us
end

-- Debits every layer at once and moves virtual time on.
function turns.grant(policy, state, f, call)
  local c, omega = state.classes[f.class], policy.classes[f.class].weight
  local start, class_start = tag_of(f), c.F
  local weights = c.W > f.weight and c.W or f.weight
  local dovetail = DOVETAIL_S * (state.share > 0 and state.share or 1) * omega / weights
  turns.debit(policy, state, f, call, start, dovetail)
  if call.queued then turns.dequeue(state, f, call) end
  local tag = tag_of(f)
  if omega > 0 and tag > start then c.F = class_start + (tag - start) * f.weight / omega end
  if f.waiters > 0 then
    flows.place(state, f, 'h', tag)
  elseif f.band ~= 'a' then
    flows.enter_sums(state, f)
    flows.place(state, f, 'a', state.now_us)
  end
  follow_service(policy, state, f, start, class_start)
  turns.count_grant(state, f, call)
end

return turns
