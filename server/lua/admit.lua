-- Admit: may this call go now? One decision over every layer and dimension. Question and answer: README.md.
-- Order: read, check, decide, then write; nothing is written before the request is known to be good, because an evaluation
-- that fails half-way is not rolled back.
local buckets = require('buckets')
local calls = require('calls')
local ceilings = require('ceilings')
local estimates = require('estimates')
local flows = require('flows')
local policies = require('policies')
local queue = require('queue')
local states = require('states')
local turns = require('turns')

-- Costs as an array over the policy's dimensions, or nil and the name that it does not have.
local function cost_vector(policy, cost)
  local raw = {nil, nil, nil, nil} -- with room, as tables that grow are made anew
  for d = 1, #policy.dims do raw[d] = 0 end
  local requests = policy.dim_index.requests
  if requests then raw[requests] = 1 end
  return policies.fill(policy, raw, cost)
end

-- The field in which the question differs from the one that the record answers; nil when it is the same.
local function difference(call, args, class, raw)
  if call.tenant ~= args.tenant then return 'tenant' end
  if call.class ~= class then return 'priority' end
  if (call.bound or false) ~= (args.bound or false) then return 'cost_kind' end
  for d = 1, #raw do
    if call.dims[d].raw ~= raw[d] then return 'cost' end
  end
end

-- Why this can never be granted, whoever waits; nil when it can.
local function impossible(policy, entry, raw)
  for d = 1, #raw do
    local p = policy.dims[d]
    if raw[d] > 0 and not p.retired then
      if p.limit <= 0 then
        return {reason = 'target_disabled', dimension = p.name, message = 'cap of "' .. p.name .. '" is 0'}
      end
      local most = p.largest_cost
      if raw[d] > most * (1 + 1e-12) then
        return {reason = 'cost_exceeds_cap', dimension = p.name, message = string.format(
          'cost %.6g is above the %.6g that "%s" can ever hold', raw[d], most, p.name)}
      end
    end
  end
  if not (entry and entry.caps) then return nil end
  for _, cap in ipairs(entry.caps) do
    local d = policy.dim_index[cap.dimension]
    if d and raw[d] > 0 and raw[d] > cap.limit then
      return {reason = cap.limit <= 0 and 'target_disabled' or 'cost_exceeds_cap', dimension = cap.dimension,
        message = string.format('cost %.6g is above the tenant\'s own cap %.6g', raw[d], cap.limit)}
    end
  end
end

local function too_late(args)
  if args.deadline_us and args.deadline_us <= 0 then
    return {reason = 'deadline_unreachable', message = 'the deadline is over'}
  end
end

-- One question while it is decided: {args, id, policy, entry, class, class_name, raw, state, flow, book, call, expired}.
-- entry: the policy's of the tenant, book: its ceilings; call: what is known of the id, nil when it is to be decided anew.

local function answer(q, fields)
  fields.version, fields.class = q.policy.version, q.class_name
  if q.expired > 0 then fields.expired = q.expired end
  return fields
end

local function reject(q, fields)
  fields.outcome = 'reject'
  states.save()
  return answer(q, fields)
end

local function named(policy, call)
  local out, dims = {}, call.dims
  for d = 1, #dims do
    local charge = dims[d].charge
    if charge ~= 0 then out[policy.dims[d].name] = charge end
  end
  return out
end

local function leave_line(q, call)
  if not call.queued then return end
  local own = call.class == q.flow.class and call.tenant == q.args.tenant
  local f = own and q.flow or flows.load(flows.field_of(call.class, call.tenant))
  if not f then return end
  turns.dequeue(q.state, f, call)
  flows.save(f)
end

-- The call waits no more, wherever it did.
local function abandon(q, call)
  ceilings.unblock(q.state, call, q.args.tenant, q.book)
  ceilings.save_book(q.args.tenant, q.book)
  leave_line(q, call)
  calls.set_due(q.state, q.id, call, 0)
  calls.expire_never(q.id) -- its owner may have been lost before
end

-- What the record of the id says before anything is decided: an answer, or nil. Sets q.call to the place that goes on.
local function recall(q)
  local call, args = calls.load(q.id), q.args
  if not call then return nil end
  if args.attempt < call.attempt then
    return reject(q, {reason = 'superseded', message = 'attempt ' .. call.attempt .. ' has been seen'})
  end
  local repeated = args.attempt == call.attempt
  if call.state == 's' or call.state == 'x' then
    q.remembered = true
    if not repeated then return nil end
    return reject(q, {reason = 'already_settled', message = 'this attempt was settled; send again as the next attempt'})
  end
  local field = difference(call, args, q.class, q.raw)
  if field and repeated then
    states.save()
    return {outcome = 'invalid', version = q.policy.version, field = field,
      message = 'differs from the first ask of this request_id and attempt'}
  end
  if call.state == 'l' then
    if repeated then
      states.save()
      return answer(q, {outcome = 'grant', debited = named(q.policy, call), repeated = true, admits = call.admits,
        waited_us = 0, lease_us = math.max(0, call.expires_us - q.state.now_us)})
    end
    if not args.check then -- the former send is unknown: its charge stays
      calls.close_lease(q.policy, q.state, call)
      calls.remember(q.policy, q.state, q.id, call, 's')
      q.remembered = true
    end
  elseif field then -- another question, as the next attempt: it starts anew
    if not args.check then abandon(q, call) end
  else
    call.attempt = args.attempt
    q.call = call
  end
end

local function granted(q)
  local call, state = q.call, q.state
  local fields = {outcome = 'grant', debited = named(q.policy, call), lease_us = q.policy.lease_us, admits = call.admits,
    version = 0, class = ''}
  if call.projected_us > 0 then fields.waited_us, fields.first_us = state.now_us - call.first_us, call.projected_us end
  return answer(q, fields)
end

local function up_to_ms(us) return math.ceil(us / 1000 - 1e-6) * 1000 end

local function save(q)
  if not q.args.check then
    flows.retire(q.state, q.flow)
    flows.save(q.flow)
    ceilings.save_book(q.args.tenant, q.book)
  end
  states.save()
end

local function decide_by_buckets(q)
  local args, policy = q.args, q.policy
  local result = buckets.decide(q)
  if result.granted and not args.check then calls.open_lease(policy, q.state, q.id, q.call) end
  save(q)
  if result.granted then return granted(q) end
  local delay_us = up_to_ms(math.max(1000, math.min(result.wait_s * 1e6, policy.max_defer_us)))
  if args.deadline_us and delay_us > args.deadline_us then
    return answer(q, {outcome = 'reject', reason = 'deadline_unreachable', earliest_us = delay_us, dimension = result.dimension,
      message = 'the earliest refill is after the deadline'})
  end
  delay_us = math.max(delay_us, up_to_ms(args.timer_floor_us or 0))
  return answer(q, {outcome = 'defer', delay_us = delay_us, projected_us = delay_us, place = 0,
    limits = {{result.layer, result.dimension}}, hold = (args.hold_us or 0) >= delay_us or nil})
end

local function decide_by_queue(q)
  local args, call, state = q.args, q.call, q.state
  local c = state.classes[q.class]
  local class_tag = c.F
  local result = queue.decide(q)
  if args.check then c.F = class_tag end -- an idle class stays where it is
  if result.granted then
    if not args.check then calls.open_lease(q.policy, state, q.id, call) end
    save(q)
    return granted(q)
  end
  local projected_us = math.max(1000, math.ceil(result.wait_s * 1e6 - 1e-3))
  if args.deadline_us and projected_us > args.deadline_us then
    if not q.fresh and not args.check then
      abandon(q, call)
      calls.remove(q.id)
    end
    if not q.fresh then
      save(q)
    else
      if not q.flow.fresh and not args.check then -- it may have lost others of its places; the question leaves no trace
        flows.restore(q.flow, q.before)
        flows.save(q.flow)
      end
      states.save()
    end
    return answer(q, {outcome = 'reject', reason = 'deadline_unreachable', earliest_us = projected_us,
      dimension = result.dimension, message = 'the projected wait passes the deadline'})
  end
  local hold = (args.hold_us or 0) >= projected_us
  local delay_us = projected_us
  if not hold then -- its timer is late; who may be held comes earlier, and goes at the very moment
    delay_us = math.max(args.timer_floor_us or 0, projected_us - q.flow.late - (args.hold_us or 0) / 2)
  end
  delay_us = math.min(q.policy.max_defer_us, math.max(1000, up_to_ms(delay_us)))
  local place = 0
  if not args.check then place = queue.keep_place(q, result, projected_us, delay_us, hold) end
  save(q)
  return answer(q, {outcome = 'defer', delay_us = delay_us, projected_us = projected_us, limits = result.limits, place = place,
    hold = hold or nil})
end

-- The good request becomes a call with its estimate, or the place that came back.
local function prepare(q)
  local args, state, f = q.args, q.state, q.flow
  q.fresh = not q.call
  if q.fresh then
    q.call = calls.new(args, q.class, q.raw, state.now_us)
    if args.deadline_us then q.before = flows.remember(f) end
    estimates.apply(q.policy, state, f, q.call)
    if not args.check then estimates.note_size(state, q.call) end
  else
    estimates.learn_lateness(f, q.call, state.now_us)
  end
  if not args.check then
    state.admits = state.admits + 1
    q.call.admits = q.call.admits + 1
  end
end

return function(policy, args)
  args.attempt = args.attempt or 1
  local tenant, class_name = args.tenant, args.class or policy.default_class
  local class = policy.class_index[class_name]
  if not class then
    return {outcome = 'invalid', version = policy.version, field = 'priority', message = 'unknown class "' .. class_name .. '"'}
  end
  local raw, unknown = cost_vector(policy, args.cost)
  if not raw then
    return {outcome = 'invalid', version = policy.version, field = 'cost["' .. unknown .. '"]',
      message = 'the target has no such dimension'}
  end

  local state = states.load(policy)
  local expired = calls.reap(policy, state)
  if args.check then -- all that it leaves
    calls.close()
    flows.close()
  end
  local entry = policies.entry_of(policy, tenant)
  local flow = flows.of_tenant(policy, entry, class, tenant)
  if not args.check then flows.refresh_weight(state, flow, policies.weight_of(policy, entry)) end
  local q = {args = args, id = args.id, policy = policy, entry = entry, class = class, class_name = class_name, raw = raw,
    state = state, expired = expired, flow = flow, book = ceilings.load_book(entry, tenant), call = false, fresh = false,
    remembered = false, before = false}

  local known = recall(q)
  if known then return known end
  if args.held and not q.call then
    return reject(q, {reason = 'already_settled', message = 'withdrawn while the server held it'})
  end
  if policy.listed_only and not entry then
    return reject(q, {reason = 'tenant_not_listed', message = 'tenant "' .. args.tenant .. '" is not in the policy'})
  end
  local never = not args.force and (impossible(policy, entry, q.raw) or too_late(args))
  if never then
    if q.call and not args.check then
      abandon(q, q.call)
      calls.remove(q.id)
    end
    return reject(q, never)
  end
  prepare(q)
  if policy.discipline == 'buckets' then return decide_by_buckets(q) end
  return decide_by_queue(q)
end
