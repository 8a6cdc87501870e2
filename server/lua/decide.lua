-- One evaluation: any number of questions about one target (Admit, Release), decided in order at one time. What they need is
-- read in few commands, what has changed is written once: so callers that ask at the same time share that cost.
local admit = require('admit')
local calls = require('calls')
local flows = require('flows')
local policies = require('policies')
local release = require('release')
local states = require('states')

local function begin(policy)
  calls.begin(#policy.dims)
  flows.begin(#policy.dims)
end

local function close()
  calls.close()
  flows.close()
end

-- Reads what the questions' ids, flows and tenants have: one command for each kind.
local function fetch(policy, questions)
  local ids, fields, tenants = {}, {}, {}
  for i = 1, #questions do ids[i] = questions[i].id end
  calls.fetch(ids)
  for i = 1, #questions do
    local q = questions[i]
    local class, tenant = policy.class_index[q.class or policy.default_class], q.tenant
    if q.ask == 'release' then
      local call = calls.load(q.id)
      class, tenant = call and call.class, call and call.tenant
    end
    if class then
      local n = #fields + 1
      fields[n], tenants[n] = flows.field_of(class, tenant), tenant
    end
  end
  flows.fetch(fields)
  policies.fetch(policy, tenants)
end

local function answer_to(policy, question)
  if question.ask == 'release' then return release(policy, question) end
  if not question.check then return admit(policy, question) end
  close()
  local answer = admit(policy, question)
  begin(policy) -- a check leaves no trace in records but what it has closed
  return answer
end

local function no_target(question)
  return question.ask == 'release' and {result = 'no_target'} or {outcome = 'no_target'}
end

-- Answers in the order of the questions.
return function(questions)
  local answers = {}
  local policy = policies.load()
  if not policy then
    for i = 1, #questions do answers[i] = no_target(questions[i]) end
    return answers
  end
  states.begin(questions[1].clock_us)
  begin(policy)
  fetch(policy, questions)
  for i = 1, #questions do answers[i] = answer_to(policy, questions[i]) end
  close()
  states.close(policy)
  return answers
end
