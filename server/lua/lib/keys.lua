-- The keys of one target, in the order that server/store/keyspace.h builds them (README.md says what each holds).
local KEY_POLICY, KEY_STATE, KEY_FLOWS, KEY_ORDER, KEY_CALLS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local KEY_DUE, KEY_EXPIRY, KEY_CAPS, KEY_WINDOW = KEYS[6], KEYS[7], KEYS[8], KEYS[9]

local pack, unpack_record = cmsgpack.pack, cmsgpack.unpack

-- Answers end an evaluation; they travel as one MessagePack map.
local function answer(fields) return pack(fields) end
