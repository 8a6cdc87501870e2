-- The library's functions. Each takes the keys of one target. `decide` takes any number of questions and answers each; the
-- others take one and give one answer. All of these are MessagePack maps.
local configure = require('configure')
local decide = require('decide')
local inspect = require('inspect')
local keys = require('keys')

local function decide_all(key_list, arguments)
  keys.set(key_list)
  local questions, out = {}, {}
  for i = 1, #arguments do questions[i] = cmsgpack.unpack(arguments[i]) end
  local answers = decide(questions)
  for i = 1, #arguments do out[i] = cmsgpack.pack(answers[i]) end
  return out
end

local function entry(run)
  return function(key_list, arguments)
    keys.set(key_list)
    return cmsgpack.pack(run(cmsgpack.unpack(arguments[1])))
  end
end

redis.register_function('@LIBRARY@_decide', decide_all)
redis.register_function('@LIBRARY@_configure', entry(configure))
redis.register_function{function_name = '@LIBRARY@_inspect', callback = entry(inspect), flags = {'no-writes'}}
