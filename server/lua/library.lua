-- The library's functions: each takes the keys of one target and one MessagePack map, and answers one.
local admit = require('admit')
local configure = require('configure')
local inspect = require('inspect')
local keys = require('keys')
local release = require('release')

local function entry(run)
  return function(key_list, arguments)
    keys.set(key_list)
    return cmsgpack.pack(run(cmsgpack.unpack(arguments[1])))
  end
end

redis.register_function('@LIBRARY@_admit', entry(admit))
redis.register_function('@LIBRARY@_release', entry(release))
redis.register_function('@LIBRARY@_configure', entry(configure))
redis.register_function{function_name = '@LIBRARY@_inspect', callback = entry(inspect), flags = {'no-writes'}}
