-- Admit: may this call go now? One atomic decision over every layer and dimension.
-- Argument and answer: README.md. Order: read, check, decide, then write; nothing is written before the request is known
-- to be good, because a script that fails half-way is not rolled back.
--@include lib/keys.lua
--@include lib/clock.lua
--@include lib/policy.lua
--@include lib/state.lua
--@include lib/caps.lua
--@include lib/flows.lua
--@include lib/calls.lua
--@include lib/ceilings.lua
--@include lib/queue.lua
--@include lib/buckets.lua

local MARGIN_Z = 1      -- standard deviations of estimates in flight that L1 keeps as headroom
local LATE_GAIN = 0.1
local LATE_MAX_US = 5e6

local function invalid(policy, field, message)
  return answer({outcome = 'invalid', field = field, message = message, version = policy.version})
end

-- Costs as an array over the policy's dimensions, or the name that it does not have.
local function cost_vector(policy, cost)
  local raw = {}
  for d in ipairs(policy.dims) do raw[d] = 0 end
  local requests = policy.dim_index['requests']
  if requests then raw[requests] = 1 end
  for name, amount in pairs(cost or {}) do
    local d = policy.dim_index[name]
    if not d then return nil, name end
    raw[d] = amount
  end
  return raw
end

local function named(policy, values)
  local out = {}
  for d, p in ipairs(policy.dims) do
    if (values[d] or 0) ~= 0 then out[p.name] = values[d] end
  end
  return out
end

local function same_question(call, args, class, raw)
  if call.tenant ~= args.tenant then return false, 'tenant' end
  if call.class ~= class then return false, 'priority' end
  if (call.bound or false) ~= (args.bound or false) then return false, 'cost_kind' end
  for d, v in ipairs(raw) do
    if (call.raw[d] or 0) ~= v then return false, 'cost' end
  end
  return true
end

-- What can never be granted, whoever waits.
local function impossible(policy, raw)
  for d, p in ipairs(policy.dims) do
    if raw[d] > 0 and not p.retired then
      if p.limit <= 0 then
        return {reason = 'target_disabled', dimension = p.name, message = 'cap of "' .. p.name .. '" is 0'}
      end
      local most = p.model == 'continuous' and p.limit or p.depth
      if raw[d] > most * (1 + 1e-12) then
        return {reason = 'cost_exceeds_cap', dimension = p.name, message = string.format(
          'cost %.6g is above the %.6g that "%s" can ever hold', raw[d], most, p.name)}
      end
    end
  end
  for _, cap in ipairs(policy.tenant and policy.tenant.caps or {}) do
    local d = policy.dim_index[cap.dimension]
    if d and raw[d] > 0 and raw[d] > cap.limit then
      return {reason = cap.limit <= 0 and 'target_disabled' or 'cost_exceeds_cap', dimension = cap.dimension,
        message = string.format('cost %.6g is above the tenant\'s own cap %.6g', raw[d], cap.limit)}
    end
  end
end

-- Corrected estimate by the flow's learnt ratio (the target's until the flow has one); a bound is debited as it stands.
local function estimate(policy, state, f, raw, bound)
  local expected, sigma = {}, 1e-9
  for d, p in ipairs(policy.dims) do
    local ratio = f.num[d] and f.num[d] / f.den[d] or state.dims[d].num / state.dims[d].den
    local e = raw[d] * math.min(1e4, math.max(0.01, ratio))
    expected[d] = math.min(e, p.limit)
    if p.cap > 0 then sigma = math.max(sigma, expected[d] / p.cap) end
  end
  return bound and raw or expected, expected, sigma
end

local function new_call(args, class, raw, now_us)
  return {state = 'w', tenant = args.tenant, class = class, raw = raw, bound = args.bound or nil, attempt = args.attempt,
    first_us = now_us, admits = 0}
end

-- A caller that was not early shows how late its timer is.
local function learn_lateness(f, call, now_us)
  if not call.told_us or call.parked or now_us < call.told_us then return end
  local z = math.min(LATE_MAX_US, now_us - call.told_us)
  f.late = f.late + LATE_GAIN * (z - f.late)
  f.dev = f.dev + LATE_GAIN * (math.abs(z - f.late) - f.dev)
end

-- Headroom each dimension must show: the cost, a margin for noisy estimates in flight, and the reserve for better places.
local function needs(policy, state, f, call, kept)
  local bare, full = {}, {}
  for d, p in ipairs(policy.dims) do
    local c = call.debit[d]
    local margin = 0
    if not call.bound then margin = MARGIN_Z * math.sqrt(state.dims[d].variance + (f.var[d] or 0)) end
    bare[d] = math.min(c + margin, p.depth)
    full[d] = math.max(bare[d], math.min(bare[d] + (kept[d] or 0), p.depth))
  end
  return bare, full
end

local function caps_wait(policy, state, call, need)
  local wait = math.max(0, state.pause_us - state.now_us) / 1e6
  local short
  for d, p in ipairs(policy.dims) do
    if call.debit[d] > 0 and p.limit > 0 then
      local t = p.ops.wait(p, state.dims[d], need[d])
      if t > wait then wait, short = t, p.name end
    end
  end
  return wait, short
end

local function caps_hold(policy, state, call, need, out_of_turn)
  if state.pause_us > state.now_us then return false end
  for d, p in ipairs(policy.dims) do
    if call.debit[d] > 0 and p.limit > 0 then
      if p.ops.avail(p, state.dims[d], call.debit[d], out_of_turn) < need[d] - 1e-9 * math.max(1, need[d]) then return false end
    end
  end
  return true
end

local args = unpack_record(ARGV[1])
local policy = load_policy(args.tenant)
if not policy then return answer({outcome = 'no_target'}) end
local class_name = args.class or policy.default_class
local class = policy.class_index[class_name]
if not class then
  return invalid(policy, 'priority', 'unknown class "' .. class_name .. '"')
end
local raw, unknown = cost_vector(policy, args.cost)
if not raw then return invalid(policy, 'cost["' .. unknown .. '"]', 'the target has no such dimension') end

local id, attempt = args.id, args.attempt or 1
args.attempt = attempt
local state = load_state(policy, read_clock(args))
advance_caps(policy, state)
local now_us = state.now_us
local expired = reap_calls(policy, state)
local head = {version = policy.version, class = class_name, expired = expired > 0 and expired or nil}

local function reply(fields)
  for k, v in pairs(head) do fields[k] = v end
  return answer(fields)
end

local function reject(fields)
  fields.outcome = 'reject'
  save_state(state, policy)
  return reply(fields)
end

local f = load_flow(class, args.tenant) or new_flow(policy, class, args.tenant)
refresh_weight(state, f, tenant_weight(policy), #policy.dims)
local book_raw = policy.tenant and policy.tenant.caps and redis.call('HGET', KEY_CAPS, args.tenant)
local book = book_raw and unpack_record(book_raw) or {}

local call = load_call(id)
if call then
  if attempt < call.attempt then
    return reject({reason = 'superseded', message = 'attempt ' .. call.attempt .. ' has been seen'})
  end
  local repeated = attempt == call.attempt
  if call.state == 's' or call.state == 'x' then
    if repeated then
      return reject({reason = 'already_settled', message = 'this attempt was settled; send again as the next attempt'})
    end
    call = nil
  else
    local same, field = same_question(call, args, class, raw)
    if not same and repeated then
      save_state(state, policy)
      return invalid(policy, field, 'differs from the first ask of this request_id and attempt')
    end
    if call.state == 'l' then
      if repeated then
        save_state(state, policy)
        return reply({outcome = 'grant', debited = named(policy, call.charged), repeated = true,
          lease_us = math.max(0, call.expires_us - now_us), admits = call.admits, waited_us = 0})
      end
      if not args.check then -- the former send is unknown: its charge stays
        close_lease(policy, state, call)
        redis.call('ZREM', KEY_EXPIRY, id)
      end
      call = nil
    elseif not same then
      if call.queued then
        local owner = call.class == class and call.tenant == args.tenant and f or load_flow(call.class, call.tenant)
        if owner then
          dequeue(policy, state, owner, call)
          save_flow(owner)
        end
      end
      redis.call('ZREM', KEY_DUE, id)
      call = nil
    else
      call.attempt = attempt
    end
  end
end

if policy.listed_only and not policy.tenant then
  return reject({reason = 'tenant_not_listed', message = 'tenant "' .. args.tenant .. '" is not in the policy'})
end
local never = impossible(policy, raw)
if never and not args.force then
  if call and call.queued then
    dequeue(policy, state, f, call)
    save_flow(f)
    redis.call('ZREM', KEY_DUE, id)
    redis.call('HDEL', KEY_CALLS, id)
  end
  return reject(never)
end

-- From here on the request is good. A check-only question works on what was read and writes nothing but the clock.
local fresh = not call
if fresh then
  call = new_call(args, class, raw, now_us)
  call.debit, call.expected, call.sigma = estimate(policy, state, f, raw, args.bound)
  if not args.check then
    state.mean_sigma = (state.mean_sigma or call.sigma) + 0.02 * (call.sigma - (state.mean_sigma or call.sigma))
  end
  for d, p in ipairs(policy.dims) do -- the flow's profile: use of each dimension per unit of dominant share
    local u = p.cap > 0 and call.expected[d] / p.cap / call.sigma or 0
    f.u[d] = f.u[d] and f.u[d] + 0.2 * (u - f.u[d]) or u
  end
else
  learn_lateness(f, call, now_us)
  if call.overdue then -- it came back: it stands before its siblings again
    call.overdue = nil
    f.G = f.G - call.sigma
  end
end
if not args.check then
  state.admits = state.admits + 1
  call.admits = call.admits + 1
end

-- Opens the lease of a grant, whatever discipline gave it.
local function open_lease()
  call.state, call.expires_us = 'l', now_us + policy.lease_us
  redis.call('ZREM', KEY_DUE, id)
  redis.call('ZADD', KEY_EXPIRY, call.expires_us, id)
  call.lost, call.told_us = nil, nil
  save_call(id, call)
  state.leases = state.leases + 1
end

local function granted()
  return reply({outcome = 'grant', debited = named(policy, call.debit), lease_us = policy.lease_us,
    admits = call.admits, waited_us = now_us - call.first_us, first_us = call.projected_us or 0})
end

local function up_to_ms(us) return math.ceil(us / 1000 - 1e-6) * 1000 end

if policy.discipline == 'buckets' then
  if not args.check then refresh_active(policy, state, f) end
  refill_classes(policy, state)
  local wait_s, layer, dim = buckets_wait(policy, state, f, call)
  local delay_us = up_to_ms(math.max(1000, math.min(wait_s * 1e6, policy.max_defer_us)))
  local go = wait_s <= 0 or args.force
  if go and not args.check then
    wake(policy, state, f)
    buckets_debit(policy, state, f, call)
    call.bucket = true
    debit_caps(policy, state, f, call, tag_of(f), 0)
    count_grant(state, f, call)
    open_lease()
  end
  if not args.check then save_flow(f) end
  if not go and args.deadline_us and delay_us > args.deadline_us then
    return reject({reason = 'deadline_unreachable', earliest_us = delay_us, dimension = dim,
      message = 'the earliest refill is after the deadline'})
  end
  save_state(state, policy)
  if go then return granted() end
  delay_us = math.max(delay_us, up_to_ms(args.timer_floor_us or 0))
  return reply({outcome = 'defer', delay_us = delay_us, projected_us = delay_us, limits = {{layer, dim}}, place = 0,
    hold = (args.hold_us or 0) >= delay_us or nil})
end

local list = ceilings_of(policy, state, call, book)
local ceiling_s, ceiling = ceiling_wait(list, call)
local eligible = ceiling_s <= 0 or args.force
wake(policy, state, f)
local joining = not call.queued -- fresh, lost to a sweep, or not eligible before
if joining then call.A = (fresh or call.blocked) and f.E or f.G end

local rate = service_rate(policy, state)
local max_horizon = 0
for _, p in ipairs(policy.dims) do
  if p.limit > 0 then max_horizon = math.max(max_horizon, horizon(p)) end
end
local places = due_places(policy, state, id, f, max_horizon * 1e6)
local turn_s = wait_for_turn(policy, state, f, call.A, rate)
local kept = reserve(policy, state, turn_key(policy, state, f, call.A), f, places, call.debit)
local out_of_turn = state.waiters > f.waiters and turn_s > math.max(0.2, 2 * (state.mean_sigma or 0))
if out_of_turn then
  for d, p in ipairs(policy.dims) do -- out of turn: only from what would soon spill
    kept[d] = math.max(kept[d], BANK * hold_fraction(p) * p.depth)
  end
end
local bare, full = needs(policy, state, f, call, kept)

local function finish()
  if not args.check then
    save_flow(f)
    retire_flows(state, class, f.field)
    if policy.tenant and policy.tenant.caps then redis.call('HSET', KEY_CAPS, args.tenant, pack(book)) end
  end
  save_state(state, policy)
end

if args.force or (eligible and caps_hold(policy, state, call, full, out_of_turn)) then
  if not args.check then
    unblock(state, call, book)
    for _, x in ipairs(list) do x.bucket.level = x.bucket.level - x.need end
    if joining then
      f.E = f.E + call.sigma
      f.G = f.G + call.sigma
      if f.waiters == 0 then f.G = f.E end
    end
    grant(policy, state, f, call, joining)
    open_lease()
  end
  finish()
  return granted()
end

-- Defer: the time of its own turn.
local caps_s, short = caps_wait(policy, state, call, bare)
local wait_s = turn_s + caps_s
if eligible then
  wait_s = math.max(wait_s, math.min(1, (caps_wait(policy, state, call, full))))
  local backlog = 0
  for d, p in ipairs(policy.dims) do
    if p.limit > 0 then backlog = math.max(backlog, (state.dims[d].waiting + call.debit[d]) / p.rate) end
  end
  wait_s = math.min(wait_s, math.max(1, 2 * backlog, caps_s)) -- a wrong forecast parks nobody for long
else
  wait_s = math.max(wait_s, ceiling_s)
end
local projected_us = math.max(1000, math.ceil(wait_s * 1e6 - 1e-3))
if args.deadline_us and (args.deadline_us <= 0 or projected_us > args.deadline_us) then
  if call.queued and not args.check then
    dequeue(policy, state, f, call)
    redis.call('ZREM', KEY_DUE, id)
    redis.call('HDEL', KEY_CALLS, id)
  end
  if not fresh then finish() else save_state(state, policy) end
  return reply({outcome = 'reject', reason = 'deadline_unreachable', earliest_us = projected_us, dimension = short,
    message = 'the projected wait passes the deadline'})
end

local hold = (args.hold_us or 0) >= projected_us
local floor_us = args.timer_floor_us or 0
local delay_us = projected_us
if not hold then delay_us = math.max(floor_us, projected_us - f.late) end
delay_us = math.min(policy.max_defer_us, math.max(1000, up_to_ms(delay_us)))

local limits = {}
if not eligible then limits[#limits + 1] = {ceiling.layer, ceiling.dimension} end
if turn_s > 0 or not short then
  local own_class = math.max(0, call.A - f.G) > 0 or heads_before(class, tag_of(f)) > 0
  limits[#limits + 1] = {own_class and 'tenant' or 'class', ''}
end
if short then limits[#limits + 1] = {'target', short} end

local place = 0
if not args.check then
  local room = call.queued or f.waiters < policy.places_max
  if room then
    if eligible then
      unblock(state, call, book)
      if joining then
        f.E = f.E + call.sigma
        enqueue(policy, state, f, call)
      end
    else
      if call.queued then dequeue(policy, state, f, call) end
      block(list, call)
      if not f.band then
        set_band(state, f, 'i', now_us)
      end
    end
    place = math.max(1, math.floor(math.max(0, call.A - f.G) / call.sigma + 1.5))
    call.told_us = now_us + delay_us
    call.due_us = math.max(now_us + math.min(projected_us, policy.max_defer_us), call.told_us)
    call.parked, call.lost = hold or nil, nil
    call.projected_us = call.projected_us or projected_us
    redis.call('ZADD', KEY_DUE, call.due_us, id)
    redis.call('ZREM', KEY_EXPIRY, id)
    save_call(id, call)
  end
end
if args.check and fresh then save_state(state, policy) else finish() end
return reply({outcome = 'defer', delay_us = delay_us, projected_us = projected_us, limits = limits, place = place,
  hold = hold or nil})
