-- The target's own record: clock, levels, virtual times, sums. Created full inside the evaluation.
local kept = require('kept')
local keys = require('keys')
local records = require('records')

local states = {}
local EPOCH_TAG = 1000 -- first virtual time; leaves room for credit below it, so that tags stay positive
local NEVER = 1e18 -- a time or tag that does not come
states.NEVER = NEVER
local cache = kept.new(1000)

local HEAD = {
  'now_us', -- the target's own time: never steps back
  'clock_us', -- the primary's clock at the last evaluation
  'V', -- virtual time between classes
  'waiters', 'bigs', 'blocked', 'leases', -- places that are queued (big ones among them), that ceilings stop; open leases
  'grants', 'admits', 'expired', -- counts since the state began; expired: leases that nobody settled
  'serial', -- of debits
  'share', -- X, the last forecast of virtual seconds per second
  'mean_sigma', -- EWMA of the dominant shares asked for; 0: none yet
  'pause_us', -- until then nothing goes: the provider said so
  'version', -- of the policy that the record fits
  'kept_us', -- when the keys' lives were last extended
  'expiry_us', -- nothing in `expiry` is older
  'idle_us', -- no idle flow is older
  'shares_us', -- when `buckets` last refilled the classes' shares
  'has_tail?', -- class shares of `buckets` or ceilings follow
}
local DIM = {
  'waiting', -- expected units of all who wait
  'period', 'variance', 'variance_before', -- of estimates in open leases of this window's time and the one before
  'ratio', -- EWMA of actual over estimate, the prior of new flows
  'debited', 'refunded', -- totals in units
  'net', -- units that came free less units that calls were granted, ever; only differences matter (feedback.lua)
  'depth', 'window_us', -- that the levels and numbers fit
}
local WINDOW = { -- of a dimension, by its window model
  -- units in the bucket, and as the last debit left it; doubles of `history` that follow (continuous.lua)
  continuous = {'level', 'after', 'history_size'},
  fixed = {'window', 'count'}, -- number of the window, units taken in it
  sliding = {'slot', 'sum', 'current', 'smooth'}, -- number of the slot, units in the window and the slot, smoothing bucket
  -- of `sliding` and `fixed`; bounds of a boundary, when it was last and first told and how often, reports that are needed,
  -- what the clock lacks to the target's own time
  fixed_learnt = {'slot', 'sum', 'current', 'smooth', 'window', 'count', 'known?', 'lo', 'hi', 'told_us', 'first_us',
    'reports', 'need', 'behind_us'},
}
local CLASS = {
  'F', -- finish tag against V
  'v', -- virtual time between the class's flows
  'W', 'D*', -- sums over active flows: of weights, and by dimension of weights times profile
  'waiters', 'flows', -- queued places, active flows
  'M', 'Wh', -- over flows that wait: sum of weight times start tag, sum of weights
  'least', -- least start tag of a flow that waits; huge: none
  'watch_us', -- no active flow is to be looked at earlier
  'grants', 'service', -- totals; service in seconds of the cap
}

local function fresh_window(s, p)
  s.model, s.depth, s.window_us = p.model, p.depth, p.window_us
  s.history = nil
  p.ops.fresh(p, s)
end

local function fresh_dim(p)
  local s = {waiting = 0, period = 0, variance = 0, variance_before = 0, ratio = 1, debited = 0, refunded = 0, net = 0}
  fresh_window(s, p)
  return s
end

local function fresh_class(dims)
  local c = {F = EPOCH_TAG, v = EPOCH_TAG, W = 0, waiters = 0, flows = 0, M = 0, Wh = 0, least = NEVER, watch_us = NEVER,
    grants = 0, service = 0, D = {}}
  for d = 1, dims do c.D[d] = 0 end
  return c
end

-- A changed limit keeps the level, cut to the new depth, so that a raised cap mints no tokens; a changed window keeps what was
-- counted; another window model starts anew.
local function adapt_dim(state, p, s)
  if s.model ~= p.model then return fresh_window(s, p) end
  if s.depth ~= p.depth and p.ops.resize then p.ops.resize(p, s, state.serial) end
  if s.window_us ~= p.window_us and p.ops.renumber then p.ops.renumber(p, s) end
  if s.smooth then s.smooth = math.min(s.smooth, p.smooth_depth) end
  s.depth, s.window_us = p.depth, p.window_us
end

local function adapt(state, policy)
  for d, p in ipairs(policy.dims) do
    local s = state.dims[d]
    if s then adapt_dim(state, p, s) else state.dims[d] = fresh_dim(p) end
  end
  for k = 1, #policy.classes do
    local c = state.classes[k] or fresh_class(#policy.dims)
    for d = 1, #policy.dims do c.D[d] = c.D[d] or 0 end
    state.classes[k] = c
  end
  state.version, state.shape = policy.version, nil
end

-- The record's shape: a letter per dimension's model, and the number of classes. Bytes begin with its length and itself.
local MODEL_OF = {c = 'continuous', f = 'fixed', s = 'sliding', l = 'fixed_learnt'}
local LETTER_OF = {continuous = 'c', fixed = 'f', sliding = 's', fixed_learnt = 'l'}
local shapes = {}

local function shape_of(state)
  local letters = {}
  for d, s in ipairs(state.dims) do letters[d] = LETTER_OF[s.model] end
  return table.concat(letters) .. #state.classes
end

local function codec_of(shape)
  local codec = shapes[shape]
  if codec then return codec end
  local dims, classes, models = {}, {}, {}
  for letter in string.gmatch(shape, '%a') do
    local fields = {}
    for _, field in ipairs(DIM) do fields[#fields + 1] = field end
    for _, field in ipairs(WINDOW[MODEL_OF[letter]]) do fields[#fields + 1] = field end
    dims[#dims + 1], models[#models + 1] = fields, MODEL_OF[letter]
  end
  for k = 1, tonumber(string.match(shape, '%d+')) do classes[k] = CLASS end
  codec = {models = models}
  codec.write, codec.read = records.compile(string.char(#shape) .. shape, HEAD, {{'dims', dims}, {'classes', classes}}, #dims)
  shapes[shape] = codec
  return codec
end

local function tail_of(state)
  local tail
  for k, c in ipairs(state.classes) do
    if c.share or c.ceiling then
      tail = tail or {}
      tail[k] = {share = c.share, ceiling = c.ceiling}
    end
  end
  return tail
end

local function write(state)
  if not state.shape then state.shape = shape_of(state) end
  local codec, tail = codec_of(state.shape), tail_of(state)
  state.has_tail = tail ~= nil
  local rest = ''
  for _, s in ipairs(state.dims) do
    local h = s.history
    if h then
      s.history_size = #h
      if s.history_size > 0 then rest = rest .. records.write_list(h, s.history_size) end
    end
  end
  if tail then rest = rest .. cmsgpack.pack(tail) end
  return codec.write(state) .. rest
end

local function read(raw)
  local shape = string.sub(raw, 2, 1 + string.byte(raw))
  local codec = codec_of(shape)
  local state, at = codec.read(raw)
  state.shape = shape
  for d, s in ipairs(state.dims) do
    s.model = codec.models[d]
    if s.history_size then s.history, at = records.read_list(raw, at, s.history_size) end
  end
  if state.has_tail then
    for k, more in pairs(cmsgpack.unpack(string.sub(raw, at))) do
      state.classes[k].share, state.classes[k].ceiling = more.share, more.ceiling
    end
  end
  return state
end

local function fresh(clock_us)
  return {now_us = clock_us, clock_us = clock_us, V = EPOCH_TAG, waiters = 0, bigs = 0, blocked = 0, leases = 0, grants = 0,
    admits = 0, expired = 0, serial = 0, share = 0, mean_sigma = 0, pause_us = 0, version = 0, kept_us = 0, expiry_us = NEVER,
    idle_us = NEVER, shares_us = clock_us, dims = {}, classes = {}}
end

local current, changed, test_clock_us -- of the evaluation

-- clock_us: tests only, replaces the primary's TIME.
function states.begin(clock_us) current, changed, test_clock_us = nil, false, clock_us end

local function clock()
  if test_clock_us then return test_clock_us end
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Loads or creates the state and moves its own monotonic clock and its windows to the time of the evaluation, which is read
-- once. A clock that steps back stands still for the target: elapsed time is clamped at 0, and the new reading is kept.
-- `look`: for reading only; the ring of sliding windows stays where it is.
function states.load(policy, look)
  if current then return current end
  local raw, clock_us = redis.call('GET', keys.state), clock()
  local state
  if raw then
    state = cache.take(keys.state, 1, raw) or read(raw)
    local elapsed_us = clock_us - state.clock_us
    state.elapsed_us = elapsed_us > 0 and elapsed_us or 0
    state.now_us = state.now_us + state.elapsed_us
    state.clock_us = clock_us
  else
    state = fresh(clock_us)
    state.elapsed_us = 0
  end
  if state.version ~= policy.version then adapt(state, policy) end
  for d, p in ipairs(policy.dims) do
    if p.limit > 0 and not (look and p.ops.free) then p.ops.advance(p, state.dims[d], state) end
  end
  current = state
  return state
end

function states.save() changed = true end

-- Writes what has changed. Keys outlive the last use by the longest time anything in them can matter; refreshed at most once a
-- minute.
function states.close(policy)
  if not changed then return end
  local state, raw = current
  if state.now_us - state.kept_us > 60e6 or state.now_us < state.kept_us then
    state.kept_us = state.now_us
    local life_ms = math.ceil((policy.retention_us + policy.max_defer_us) / 1000) + 3900000
    for _, key in ipairs({keys.flows, keys.order, keys.calls, keys.due, keys.expiry, keys.caps, keys.window}) do
      redis.call('PEXPIRE', key, life_ms)
    end
    raw = write(state)
    redis.call('SET', keys.state, raw, 'PX', life_ms)
  else
    raw = write(state)
    redis.call('SET', keys.state, raw, 'KEEPTTL')
  end
  cache.keep(keys.state, 1, raw, state)
end

-- Noise of estimates that leases may still settle into what L1 counts now: those of the running period, and where windows
-- have no edge of the one before; older ones came to rest. `period`: of the grant (windows.lua).
function states.add_variance(s, period, amount)
  if period > s.period then
    s.variance_before = period == s.period + 1 and s.variance or 0
    s.variance, s.period = 0, period
  end
  if period == s.period then
    s.variance = math.max(0, s.variance + amount)
  elseif period == s.period - 1 then
    s.variance_before = math.max(0, s.variance_before + amount)
  end
end

function states.variance(p, s, now_us)
  local age = p.ops.period(p, s, now_us) - s.period
  return age <= 0 and s.variance + (p.ops.edges and 0 or s.variance_before) or age == 1 and not p.ops.edges and s.variance or 0
end

return states
