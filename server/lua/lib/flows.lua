-- Flows and their order. A flow (tenant in a class) is in exactly one band of the `order` set:
--   'h' head    it has waiters; ordered by start tag
--   'a' active  it has none, but asked of late or its tag is ahead of the class's virtual time; still counted in the sums;
--               ordered by the time it was last looked at
--   'b' bucket  asked of late (discipline `buckets`); ordered by the time of its last ask
--   'i' idle    ordered by the time it fell idle, forgotten oldest first
-- Single places have band 'p' (calls.lua). Members are band, class (2 bytes), tag or time (8 bytes, big-endian, so that bytes
-- sort as numbers do), field.
local keys = require('keys')
local policies = require('policies')
local records = require('records')
local rows = require('rows')
local states = require('states')

local flows = {}
local LINGER_US = 250000 -- a flow that asked within this time is active: its next call needs no bookkeeping
local FLOW_LIFE_US = 3600e6
local RETIRED_MAX = 2 -- flows of either band that one call looks at
local NEVER = states.NEVER

local codecs = records.by_count({
  'class', -- index
  'weight', -- that its tags fit
  'waiters', -- queued places
  'E', 'G', -- dominant shares that were ever enqueued, and of those gone: places are prefix sums between them
  'late', 'dev', -- EWMA of its timers' lateness and of the deviation, us
  'grants', 'service', -- totals; service in seconds of the cap
  'level', 'level_us', -- discipline `buckets`: L3's bucket in seconds of the cap, and when it was refilled; 0: never
  'used_us', -- its last grant
  'band!', 'at', -- where it is in `order`; '-': nowhere
  'counted', -- weight that it has put into W; 0: not counted
  'head_weight', -- weight that it has put into M and Wh
}, 'dims', {
  'F', -- finish tag
  'u', -- EWMA of its use of the dimension per unit of dominant share
  'num', 'den', -- EWMA of actual and of estimate; den 0: nothing learnt
  'var', -- EWMA of the square of actual minus expected
  'counted', -- share that it has put into D
})

local function field_of(class, tenant) return class .. ':' .. tenant end
flows.field_of = field_of

local function fresh_dim() return {F = 0, u = 0, num = 0, den = 0, var = 0, counted = 0} end

-- The record begins with a byte: how many dimensions it has.
local function read(field, raw)
  local f = codecs(string.byte(raw)).read(raw)
  f.field = field
  return f
end

local dim_count = 0 -- of the policy in force
local hash = rows.new('flows', 4000, read, function(f) return codecs(#f.dims).write(f) end)

function flows.begin(count)
  dim_count = count
  hash.begin()
end

flows.fetch = hash.fetch
flows.looked_at = hash.looked_at
flows.close = hash.close -- writes what has changed

-- nil: never seen, or forgotten.
function flows.load(field)
  local f = hash.get(field)
  if f then
    for d = #f.dims + 1, dim_count do f.dims[d] = fresh_dim() end -- added since it was written
  end
  return f
end

function flows.new(class, field, weight)
  local f = {field = field, class = class, weight = weight, waiters = 0, E = 0, G = 0, late = 0, dev = 50000, grants = 0,
    service = 0, level = 0, level_us = 0, used_us = 0, band = '-', at = 0, counted = 0, head_weight = 0, fresh = true,
    dims = {}}
  for d = 1, dim_count do f.dims[d] = fresh_dim() end
  return f
end

-- The tenant's flow in the class: as stored, or new.
function flows.of_tenant(policy, entry, class, tenant)
  local field = field_of(class, tenant)
  return flows.load(field) or flows.new(class, field, policies.weight_of(policy, entry))
end

function flows.save(f)
  f.fresh = false
  hash.put(f.field, f)
end

-- What a question changes in its flow before it is decided, and back to that.
function flows.remember(f)
  local before = {}
  for d, fd in ipairs(f.dims) do before[d] = {fd.F, fd.u} end
  return before
end

function flows.restore(f, before)
  for d, fd in ipairs(f.dims) do fd.F, fd.u = before[d][1], before[d][2] end
end

-- The flow's start tag: the furthest of its dimensions' finish tags.
local function tag_of(f)
  local tag, dims = 0, f.dims
  for d = 1, #dims do
    local F = dims[d].F
    if F > tag then tag = F end
  end
  return tag
end
flows.tag_of = tag_of

-- Order

local function member_of(f, band, at)
  return band .. struct.pack('>Hd', band == 'i' and 0 or f.class, at > 0 and at or 0) .. f.field
end

local function member_at(member) return (struct.unpack('>d', member, 4)) end
local function member_field(member) return string.sub(member, 12) end
flows.member_field = member_field

local function first_in_band(band, class, limit)
  return redis.call('ZRANGEBYLEX', keys.order, '[' .. band .. struct.pack('>H', class),
    '(' .. band .. struct.pack('>H', class + 1), 'LIMIT', 0, limit)
end

local function find_least(state, class)
  local c = state.classes[class]
  local m = c.waiters > 0 and first_in_band('h', class, 1)[1]
  c.least = m and member_at(m) or NEVER
end

-- Moves a flow to a band at a tag or time. Keeps the class's sums over heads (M = sum of w S, Wh = sum of w), its least tag,
-- and the times before which nobody needs to be looked at.
function flows.place(state, f, band, at)
  if band == f.band and at == f.at then return end
  local c = state.classes[f.class]
  local was, was_at = f.band, f.at
  if was ~= '-' then redis.call('ZREM', keys.order, member_of(f, was, was_at)) end
  redis.call('ZADD', keys.order, 0, member_of(f, band, at))
  f.band, f.at = band, at
  if was == 'h' then
    c.M, c.Wh = c.M - f.head_weight * was_at, c.Wh - f.head_weight
    if c.Wh <= 0 then c.M, c.Wh = 0, 0 end
  end
  if band == 'h' then
    f.head_weight = f.weight
    c.M, c.Wh = c.M + f.weight * at, c.Wh + f.weight
    if at < c.least then c.least = at end
  elseif band == 'a' then
    if at < c.watch_us then c.watch_us = at end
  elseif band == 'i' then
    if at < state.idle_us then state.idle_us = at end
  end
  if was == 'h' and was_at <= c.least and not (band == 'h' and at <= was_at) then find_least(state, f.class) end
end

-- Number of heads of its class that stand before the flow when its tag is `tag`; among equal tags the order of fields.
function flows.heads_before(state, f, tag)
  if tag < state.classes[f.class].least then return 0 end
  local from = 'h' .. struct.pack('>H', f.class)
  return redis.call('ZLEXCOUNT', keys.order, '[' .. from, '(' .. from .. struct.pack('>d', tag > 0 and tag or 0) .. f.field)
end

-- Sums over active flows of a class: W = sum of w, D[d] = sum of w u[d]. A flow takes out exactly what it put in.

function flows.leave_sums(state, f)
  if f.counted == 0 then return end
  local c = state.classes[f.class]
  c.flows, c.W, f.counted = c.flows - 1, c.W - f.counted, 0
  local none = c.flows <= 0
  if none then c.flows, c.W = 0, 0 end
  for d = 1, #c.D do
    c.D[d] = none and 0 or c.D[d] - f.dims[d].counted
    f.dims[d].counted = 0
  end
end

function flows.enter_sums(state, f)
  flows.leave_sums(state, f)
  local c = state.classes[f.class]
  c.flows, c.W, f.counted = c.flows + 1, c.W + f.weight, f.weight
  for d = 1, #c.D do
    local share = f.weight * f.dims[d].u
    f.dims[d].counted = share
    c.D[d] = c.D[d] + share
  end
end

-- A changed weight takes effect on first touch; a lead that is still owed is rescaled with it. A flow that is not new is saved
-- at once: not every question comes to a decision.
function flows.refresh_weight(state, f, weight)
  if weight == f.weight then return end
  local v = state.classes[f.class].v
  for _, s in ipairs(f.dims) do
    if s.F > v then s.F = v + (s.F - v) * f.weight / weight end
  end
  f.weight = weight
  if f.counted ~= 0 then flows.enter_sums(state, f) end
  if f.band == 'h' then
    local c = state.classes[f.class]
    c.M, c.Wh = c.M + (weight - f.head_weight) * f.at, c.Wh + weight - f.head_weight
    f.head_weight = weight
    flows.place(state, f, 'h', tag_of(f))
  end
  if not f.fresh then flows.save(f) end
end

-- Active flows of the class that have not asked of late and are not ahead leave the sums: those longest unseen, a few a call.
local function retire_active(state, class, keep)
  local c, now_us = state.classes[class], state.now_us
  if now_us < c.watch_us + LINGER_US then return end
  local members = first_in_band('a', class, RETIRED_MAX + 1)
  local next_member = members[RETIRED_MAX + 1]
  c.watch_us = next_member and member_at(next_member) or NEVER
  for i = 1, math.min(RETIRED_MAX, #members) do
    local field, at = member_field(members[i]), member_at(members[i])
    local f = field == keep.field and keep or flows.load(field)
    if not f then
      redis.call('ZREM', keys.order, members[i])
    elseif at + LINGER_US > now_us then
      if at < c.watch_us then c.watch_us = at end
      break
    else
      if f == keep then
        flows.place(state, f, 'a', now_us)
      elseif f.used_us + LINGER_US > now_us then
        flows.place(state, f, 'a', f.used_us)
      elseif tag_of(f) > c.v then
        flows.place(state, f, 'a', now_us)
      else
        flows.leave_sums(state, f)
        flows.place(state, f, 'i', now_us)
      end
      if f ~= keep then flows.save(f) end
    end
  end
end

local function forget_idle(state, keep)
  if state.now_us < state.idle_us + FLOW_LIFE_US then return end
  local members = first_in_band('i', 0, RETIRED_MAX + 1)
  local next_member = members[RETIRED_MAX + 1]
  state.idle_us = next_member and member_at(next_member) or NEVER
  for i = 1, math.min(RETIRED_MAX, #members) do
    local field, at = member_field(members[i]), member_at(members[i])
    if at + FLOW_LIFE_US > state.now_us or field == keep.field then
      if at < state.idle_us then state.idle_us = at end
    else
      redis.call('ZREM', keys.order, members[i])
      hash.put(field, false)
    end
  end
end

-- A bounded number of flows a call; `keep` is the caller's own, saved by the caller.
function flows.retire(state, keep)
  retire_active(state, keep.class, keep)
  forget_idle(state, keep)
end

-- Discipline `buckets`: the flow asks now; those of its target that have not for `active_us` leave the sums.
function flows.refresh_asking(state, f, active_us, limit)
  flows.enter_sums(state, f)
  flows.place(state, f, 'b', state.now_us)
  for k in ipairs(state.classes) do
    for _, member in ipairs(first_in_band('b', k, limit)) do
      if member_at(member) >= state.now_us - active_us then break end
      local gone = member_field(member) ~= f.field and flows.load(member_field(member))
      if gone then
        flows.leave_sums(state, gone)
        flows.place(state, gone, 'i', state.now_us)
        flows.save(gone)
      end
    end
  end
end

return flows
