-- Discipline `queue`: L1 alone gates the rate; L2 and L3 decide whose turn it is (turns.lua). A refused caller keeps its place
-- and is told the time of its own turn.
local calls = require('calls')
local ceilings = require('ceilings')
local flows = require('flows')
local states = require('states')
local turns = require('turns')

local queue = {}
local MARGIN_Z = 1.25 -- standard deviations of estimates in flight that L1 keeps as headroom
local BIG = 0.1 -- a call that takes more of a dimension's depth is saved for from a window ahead
local BANK = 0.25 -- part of the hold that out-of-turn callers must leave
local OUT_OF_TURN_S = 0.2 -- whose turn is further off asks out of turn
local UNCERTAIN_S = 1 -- a forecast parks nobody for longer, unless L1 and the backlog say so

-- Headroom each dimension must show: the cost with a margin for noisy estimates in flight.
local function bare_needs(policy, state, f, call)
  local bare, dims = {nil, nil, nil, nil}, policy.dims
  for d = 1, #dims do
    local p = dims[d]
    local need, var = call.dims[d].charge, f.dims[d].var
    if var > 0 and not call.bound then
      need = need + MARGIN_Z * math.sqrt(states.variance(p, state.dims[d], state.now_us) + var)
    end
    bare[d] = need < p.depth and need or p.depth
  end
  return bare
end

-- On top of that the reserve for better places, together at most what the dimension can hold.
local function full_needs(policy, bare, kept)
  local full = {}
  for d, p in ipairs(policy.dims) do
    local total = bare[d] + kept[d]
    full[d] = total < p.depth and total or p.depth
  end
  return full
end

local function caps_wait(policy, state, call, need)
  local wait, short = state.pause_us > state.now_us and (state.pause_us - state.now_us) / 1e6 or 0, nil
  for d, p in ipairs(policy.dims) do
    if call.dims[d].charge > 0 and p.limit > 0 then
      local t = p.ops.wait(p, state.dims[d], need[d])
      if t > wait then wait, short = t, p.name end
    end
  end
  return wait, short
end

local function caps_hold(policy, state, call, need, out_of_turn)
  if state.pause_us > state.now_us then return false end
  local dims = policy.dims
  for d = 1, #dims do
    local p, charge = dims[d], call.dims[d].charge
    if charge > 0 and p.limit > 0 then
      local needed = need[d]
      local slack = needed > 1 and 1e-9 * needed or 1e-9
      if p.ops.avail(p, state.dims[d], charge, out_of_turn) < needed - slack then return false end
    end
  end
  return true
end

-- Seconds until all that waits, and this call, could be served.
local function backlog_s(policy, state, call)
  local longest = 0
  for d, p in ipairs(policy.dims) do
    if p.limit > 0 then longest = math.max(longest, (state.dims[d].waiting + call.dims[d].charge) / p.rate) end
  end
  return longest
end

local function grant(q, list, joining)
  local f, call = q.flow, q.call
  if call.ceilings then ceilings.unblock(q.state, call, q.args.tenant, q.book) end
  if joining then
    f.E, f.G = f.E + call.sigma, f.G + call.sigma
    if f.waiters == 0 then f.G = f.E end
  end
  turns.grant(q.policy, q.state, f, call)
  ceilings.debit(list, call.serial)
end

-- Which layers stand before the call: [[layer, dimension], ...].
local function limits_of(q, ceiling, turn_s, short)
  local limits = {}
  if ceiling then limits[1] = {ceiling.layer, ceiling.key} end
  if turn_s > 0 or not short then
    local own_class = q.call.A > q.flow.G or flows.heads_before(q.state, q.flow, flows.tag_of(q.flow)) > 0
    limits[#limits + 1] = {own_class and 'tenant' or 'class', ''}
  end
  if short then limits[#limits + 1] = {'target', short} end
  return limits
end

local GRANTED = {granted = true}

local function answer_grant(q, list, joining)
  if not q.args.check then grant(q, list, joining) end
  return GRANTED
end

-- Whose turn it is, as the call sees it: {seconds until its own, by dimension what L1 keeps for better places, whether it
-- asks out of turn}.
local function look_around(q, places)
  local policy, state, f, call = q.policy, q.state, q.flow, q.call
  local rate = turns.service_rate(policy, state)
  local turn_s = turns.wait(policy, state, f, call.A, rate)
  local kept = turns.reserve(policy, state, turns.key(policy, state, f, call.A), places, call)
  local out_of_turn = state.waiters > f.waiters and turn_s > math.max(OUT_OF_TURN_S, 2 * state.mean_sigma)
  if out_of_turn then -- only from what would soon spill
    for d, p in ipairs(policy.dims) do kept[d] = math.max(kept[d], BANK * p.hold * p.depth) end
  end
  return turn_s, kept, out_of_turn
end

-- Decides; answers {granted} or {wait_s, dimension, limits, eligible, list, joining}.
function queue.decide(q)
  local args, policy, state, f, call = q.args, q.policy, q.state, q.flow, q.call
  local list = ceilings.of_call(policy, state, call, q.entry, q.book)
  local ceiling_s, ceiling = ceilings.wait(list, call)
  local eligible = ceiling_s <= 0 or args.force
  turns.wake(state, f)
  local joining = not call.queued -- new, lost to a sweep, or not eligible before
  if joining then call.A = (q.fresh or call.ceilings) and f.E or f.G end

  local places = turns.due_places(q)
  local bare = bare_needs(policy, state, f, call)
  if args.force or (state.waiters == 0 and eligible and caps_hold(policy, state, call, bare, false)) then
    return answer_grant(q, list, joining) -- nobody stands before it
  end
  local turn_s, kept, out_of_turn = look_around(q, places)
  local full = full_needs(policy, bare, kept)
  if eligible and caps_hold(policy, state, call, full, out_of_turn) then return answer_grant(q, list, joining) end

  local caps_s, short = caps_wait(policy, state, call, bare)
  local wait_s = turn_s + caps_s
  if eligible then
    wait_s = math.max(wait_s, math.min(UNCERTAIN_S, (caps_wait(policy, state, call, full))))
    local backlog = backlog_s(policy, state, call)
    wait_s = math.min(wait_s, math.max(UNCERTAIN_S, 2 * backlog, caps_s + backlog))
  else
    wait_s = math.max(wait_s, ceiling_s)
  end
  return {wait_s = wait_s, dimension = short, limits = limits_of(q, not eligible and ceiling or nil, turn_s, short),
    eligible = eligible, list = list, joining = joining}
end

local function is_big(policy, call)
  for d, p in ipairs(policy.dims) do
    if p.limit > 0 and call.dims[d].charge > BIG * p.depth then return true end
  end
  return false
end

-- Keeps the refused caller's place in line, or at its ceilings; answers its position in its flow, 0 when the flow is full.
function queue.keep_place(q, result, projected_us, delay_us, hold)
  local policy, state, f, call = q.policy, q.state, q.flow, q.call
  if not call.queued and f.waiters >= policy.places_max then
    calls.drop(q.id)
    return 0
  end
  if result.eligible then
    ceilings.unblock(state, call, q.args.tenant, q.book)
    if result.joining then
      f.E = f.E + call.sigma
      turns.enqueue(state, f, call)
    end
  else
    if call.queued then turns.dequeue(state, f, call) end
    ceilings.block(state, result.list, call)
    if f.band == '-' then flows.place(state, f, 'i', state.now_us) end
  end
  local told_us = state.now_us + delay_us
  if call.due_us == 0 and (q.remembered or not q.fresh) then calls.expire_never(q.id) end -- ended, or lost
  call.told_us, call.parked = told_us, hold
  if call.due_us == 0 then call.big = is_big(policy, call) end
  calls.set_due(state, q.id, call, math.max(state.now_us + math.min(projected_us, policy.max_defer_us), told_us))
  if call.projected_us == 0 then call.projected_us = projected_us end
  calls.save(q.id, call)
  return math.max(1, math.floor(math.max(0, call.A - f.G) / call.sigma + 1.5))
end

return queue
