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

-- Reads the records of the questions' ids and flows: one command for each kind.
local function fetch(policy, questions)
  local ids, fields = {}, {}
  for i = 1, #questions do ids[i] = questions[i].id end
  calls.fetch(ids)
  for i = 1, #questions do
    local q = questions[i]
    local class, tenant = policy.class_index[q.class or policy.default_class], q.tenant
    if q.ask == 'release' then
      local call = calls.load(q.id)
      class, tenant = call and call.class, call and call.tenant
    end
    if class then fields[#fields + 1] = flows.field_of(class, tenant) end
  end
  flows.fetch(fields)
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
  local tenants, answers = {}, {}
  for i = 1, #questions do tenants[#tenants + 1] = questions[i].tenant end
  local policy = policies.load(tenants)
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
