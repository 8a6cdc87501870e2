-- The keys of one target, in the order that server/store/keyspace.h builds them (README.md says what each holds).
local keys = {}

-- Called first in every evaluation.
function keys.set(list)
  keys.policy, keys.state, keys.flows, keys.order, keys.calls = list[1], list[2], list[3], list[4], list[5]
  keys.due, keys.expiry, keys.caps, keys.window = list[6], list[7], list[8], list[9]
end

return keys
