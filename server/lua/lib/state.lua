-- The target's own record: levels, virtual times, sums. Created full inside the evaluation.
local EPOCH_TAG = 1000 -- first virtual time; leaves room for credit below it, so that tags stay positive

local function fresh_dimension(p)
  return {level = p.depth, window = -1, count = 0, slot = -1, sum = 0, current = 0,
    smooth = p.depth * p.burst_fraction, history = {}, waiting = 0, variance = 0, num = 1, den = 1,
    debited = 0, refunded = 0, cap = p.limit}
end

local function fresh_class()
  return {F = EPOCH_TAG, v = EPOCH_TAG, W = 0, D = {}, waiters = 0, flows = 0, M = 0, Wh = 0,
    grants = 0, service = 0, ceiling = nil}
end

-- A changed limit keeps what is there in proportion to nothing: the level is only cut to the new depth, so that a raised
-- cap mints no tokens.
local function adapt(state, policy)
  for i, p in ipairs(policy.dims) do
    local s = state.dims[i]
    if not s then
      state.dims[i] = fresh_dimension(p)
    elseif s.cap ~= p.limit then
      s.level = math.min(s.level, p.depth)
      s.smooth = math.min(s.smooth, p.depth * p.burst_fraction)
      s.history, s.cap = {}, p.limit
    end
  end
  for i = 1, #policy.classes do state.classes[i] = state.classes[i] or fresh_class() end
  state.version = policy.version
end

-- Loads or creates the state and moves its own monotonic clock to `clock_us`. A clock that steps back stands still for the
-- target: elapsed time is clamped at 0, and the new reading is kept.
local function load_state(policy, clock_us)
  local raw = redis.call('GET', KEY_STATE)
  local state
  if raw then
    state = unpack_record(raw)
    state.elapsed_us = math.max(0, clock_us - state.clock_us)
    state.now_us = state.now_us + state.elapsed_us
  else
    state = {now_us = clock_us, elapsed_us = 0, V = EPOCH_TAG, dims = {}, classes = {}, waiters = 0, leases = 0,
      expired = 0, grants = 0, admits = 0, serial = 0, share = 0, pause_us = 0, version = 0, kept_us = 0}
  end
  state.clock_us = clock_us
  if state.version ~= policy.version then adapt(state, policy) end
  return state
end

-- Keys outlive the last use by the longest time anything in them can matter; refreshed at most once a minute.
local function save_state(state, policy)
  if state.now_us - state.kept_us > 60e6 or state.now_us < state.kept_us then
    state.kept_us = state.now_us
    local life_ms = math.ceil((policy.retention_us + policy.max_defer_us) / 1000) + 3900000
    for i = 3, 9 do redis.call('PEXPIRE', KEYS[i], life_ms) end
    redis.call('SET', KEY_STATE, pack(state), 'PX', life_ms)
  else
    redis.call('SET', KEY_STATE, pack(state), 'KEEPTTL')
  end
end
