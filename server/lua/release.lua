-- Release: settles a lease with the truth, withdraws a waiting request, or extends a lease. Question and answer: README.md.
local calls = require('calls')
local ceilings = require('ceilings')
local feedback = require('feedback')
local flows = require('flows')
local policies = require('policies')
local states = require('states')
local turns = require('turns')

local PAUSE_MAX_US = 86400e6

local function answer(r, result, fields)
  fields = fields or {}
  fields.result, fields.version = result, r.policy.version
  fields.tenant, fields.class = r.call.tenant, r.policy.classes[r.call.class].name
  return fields
end

local function save(r)
  ceilings.save_book(r.call.tenant, r.book)
  flows.save(r.flow)
  states.save()
end

local function withdraw_place(r)
  ceilings.unblock(r.state, r.call, r.call.tenant, r.book)
  if r.call.queued then
    turns.dequeue(r.state, r.flow, r.call)
    turns.advance_class(r.state, r.flow.class)
  end
  calls.set_due(r.state, r.id, r.call, 0)
  calls.expire_never(r.id)
  calls.remove(r.id)
  save(r)
  return answer(r, 'withdrawn')
end

local function extend(r)
  local call, more = r.call, {}
  for d, used in pairs(r.usage) do
    if used > call.dims[d].charge then more[d] = used end
  end
  ceilings.recharge(r.policy, r.state, call, r.entry, r.book, more)
  local refunded = calls.recharge(r.policy, r.state, r.flow, call, more, true)
  calls.forget_variance(r.policy, r.state, call)
  for d, used in pairs(more) do call.dims[d].charge = used end
  local lease_us = r.args.lease_us or r.policy.lease_us
  call.expires_us = r.state.now_us + lease_us
  calls.expire_at(r.state, r.id, call.expires_us)
  calls.save(r.id, call)
  save(r)
  return answer(r, 'extended', {refunded = refunded, lease_us = lease_us})
end

-- The provider refused: its count is full. Caps keep the charge, the turn is given back, and the target pauses.
local function settle_rate_limited(r)
  local state, zero, refunded = r.state, {}, {}
  local told = r.args.rate_limits or {}
  for d in ipairs(r.policy.dims) do zero[d] = 0 end
  if not r.call.bucket then -- the paper's rule has no turns to give back
    refunded = calls.recharge(r.policy, state, r.flow, r.call, zero, false)
  end
  feedback.refused(r.policy, state, r.flow, r.call, told)
  local retry_us = math.min(r.args.retry_after_us or 0, PAUSE_MAX_US)
  if retry_us > 0 then
    state.pause_us = math.max(state.pause_us, state.now_us + retry_us)
    for d, p in ipairs(r.policy.dims) do
      -- unless it said what it has left: the pause's own refill is no budget, at its end one such call fits, and then the next
      -- by the rate
      local charge, t = r.call.dims[d].charge, told[p.name]
      if p.limit > 0 and p.model == 'continuous' and charge > 0 and not (t and t.remaining) then
        local s = state.dims[d]
        s.level = math.min(s.level, math.min(charge, p.depth) - p.rate * retry_us / 1e6)
      end
    end
  end
  return refunded
end

-- Usage by dimension as far as it is known, and whether a part that was charged is not.
local function actual_usage(r, outcome)
  local actual, missing = r.usage, false
  for d, p in ipairs(r.policy.dims) do
    if actual[d] == nil then
      if outcome == 'not_sent' then
        actual[d] = 0
      elseif r.call.dims[d].charge > 0 then
        -- one call is one request, whatever it used besides
        if p.name == 'requests' then actual[d] = r.call.dims[d].charge else missing = true end
      end
    end
  end
  return actual, missing
end

local function settle(r)
  local policy, state, call = r.policy, r.state, r.call
  local outcome = r.args.action == 'withdraw' and 'not_sent' or r.args.outcome or 'unknown'
  local actual, missing = actual_usage(r, outcome)
  local estimated, charged = {}, {}
  for d, p in ipairs(policy.dims) do
    estimated[p.name] = call.dims[d].raw
    charged[p.name] = actual[d] or call.dims[d].charge
  end
  local refunded
  if outcome == 'rate_limited' then
    refunded = settle_rate_limited(r)
  else
    refunded = calls.recharge(policy, state, r.flow, call, actual, true)
    if outcome == 'ok' then calls.learn(state, r.flow, call, actual) end
  end
  calls.close_lease(policy, state, call)
  if r.args.rate_limits and outcome ~= 'rate_limited' then feedback.answered(policy, state, call, r.args.rate_limits) end
  ceilings.recharge(policy, state, call, r.entry, r.book, actual)
  calls.remember(policy, state, r.id, call, 's')
  save(r)
  return answer(r, r.args.action == 'withdraw' and 'withdrawn' or 'settled', {refunded = refunded, estimated = estimated,
    charged = charged, usage_missing = missing or nil})
end

-- What the record of the id says without a change; nil when there is something to do.
local function plain_result(call, args)
  if args.attempt > call.attempt then return 'unknown' end
  if args.attempt < call.attempt or call.state == 's' then return 'already_settled' end
  if call.state == 'x' then return 'expired' end
  if call.state == 'w' and args.action ~= 'withdraw' then return 'unknown' end
end

return function(policy, args)
  args.attempt = args.attempt or 1
  local call = calls.load(args.id)
  local usage, unknown = policies.fill(policy, {}, args.usage)
  if not usage then
    return {result = 'invalid', field = 'usage["' .. unknown .. '"]', version = policy.version,
      message = 'the target has no such dimension'}
  end
  if not call then return {result = 'unknown', version = policy.version} end
  local entry = policies.entry_of(policy, call.tenant)
  local r = {args = args, id = args.id, policy = policy, entry = entry, call = call, usage = usage}
  local plain = plain_result(call, args)
  if plain then return answer(r, plain) end

  r.state = states.load(policy)
  r.flow = flows.of_tenant(policy, entry, call.class, call.tenant)
  r.book = ceilings.load_book(entry, call.tenant)
  if call.state == 'w' then return withdraw_place(r) end
  if args.action == 'extend' then return extend(r) end
  return settle(r)
end
