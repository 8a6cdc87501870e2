-- L1: how much a dimension lets go now, by window model. p: policy of the dimension, s: its state, now in microseconds.
-- avail(p, s, c, out_of_turn) units that may go now; c: the cost asked for, out_of_turn: others come first
-- wait(p, s, need)           seconds until `need` units may go, if nobody else takes any
-- debit(p, s, c, serial)     takes c, answers the mark that a later refund needs
-- adjust(p, s, mark, x)      charges x more (negative: refunds) as if it had been charged at the mark; answers what was done
-- gain(p, s, tau)            units that come free within tau seconds
local GUARD_S = 0.003  -- part of a fixed window's end that is not used: clocks and networks differ
local RING = SLOTS + 1 -- slots of a sliding window that are kept
local SMOOTH_BANK = 0.12 -- part of the smoothing bucket that callers out of turn must leave
local HISTORY = 8      -- kept maxima of a continuous bucket's level

local continuous = {}

function continuous.advance(p, s, state)
  s.level = math.min(p.depth, s.level + state.elapsed_us / 1e6 * p.rate)
end

function continuous.avail(_, s) return s.level end
function continuous.wait(p, s, need) return math.max(0, need - s.level) / p.rate end
function continuous.gain(p, _, tau) return p.rate * tau end

-- `history` holds (serial, level just before that debit), levels falling: the greatest level seen since any earlier debit
-- is the first entry after it.
function continuous.debit(_, s, c, serial)
  local h = s.history
  while #h > 0 and h[#h][2] <= s.level do h[#h] = nil end
  h[#h + 1] = {serial, s.level}
  if #h > HISTORY then -- join the two that differ least; the higher level stands, which refunds less
    local best = 1
    for i = 2, #h - 1 do
      if h[i][2] - h[i + 1][2] < h[best][2] - h[best + 1][2] then best = i end
    end
    h[best + 1][2] = h[best][2]
    table.remove(h, best)
  end
  s.level = s.level - c
  return serial
end

-- A refund is worth no more than the least headroom since the grant: what would have spilled is gone.
function continuous.adjust(p, s, mark, x)
  if x < 0 then
    local top = s.level
    for _, e in ipairs(s.history) do
      if e[1] > mark then top = math.max(top, e[2]) break end
    end
    x = -math.min(-x, math.max(0, p.depth - top))
    for _, e in ipairs(s.history) do
      if e[1] > mark then e[2] = e[2] - x end
    end
  end
  s.level = s.level - x
  return x
end

local fixed = {}

local function allowed(p, into_s)
  return p.depth * math.min(1, (into_s + p.burst_fraction * p.window_s) / (p.window_s - p.guard_s))
end

function fixed.advance(p, s, state)
  p.guard_s = math.min(GUARD_S, p.window_s / 20)
  local window = math.floor((state.clock_us - p.phase_us) / p.window_us)
  if window > s.window then
    -- what went above the limit (usage settled higher) is owed by the next window, and only by that
    s.count = window == s.window + 1 and math.max(0, s.count - p.depth) or 0
    s.window = window
  end
  p.into_s = math.max(0, (state.clock_us - p.phase_us - s.window * p.window_us) / 1e6)
end

function fixed.avail(p, s)
  if p.window_s - p.into_s < p.guard_s then return -1 end
  return allowed(p, p.into_s) - s.count
end

function fixed.wait(p, s, need)
  local left = p.window_s - p.into_s
  local target = need + s.count
  if left >= p.guard_s then
    if target <= allowed(p, p.into_s) + 1e-9 then return 0 end
    if target <= p.depth + 1e-9 then
      local t = (target - allowed(p, p.into_s)) * (p.window_s - p.guard_s) / p.depth
      if t < left - p.guard_s then return t end
    end
  end
  local rest = need + math.max(0, s.count - p.depth)
  local windows = math.max(0, math.ceil(rest / p.depth - 1e-9) - 1)
  rest = rest - windows * p.depth
  local t = math.max(0, rest * (p.window_s - p.guard_s) / p.depth - p.burst_fraction * p.window_s)
  return left + 1e-4 + windows * p.window_s + t
end

function fixed.gain(p, _, tau)
  if p.into_s + tau >= p.window_s - p.guard_s then return 1e300 end
  return allowed(p, p.into_s + tau) - allowed(p, p.into_s)
end

function fixed.debit(_, s, c)
  s.count = s.count + c
  return s.window
end

function fixed.adjust(_, s, mark, x)
  if mark ~= s.window then return 0 end
  s.count = s.count + x
  return x
end

local sliding = {}

local function ring_offset(p, slot) return ((p.index - 1) * RING + slot % RING) * 8 end

local function doubles(n, text)
  local values = {struct.unpack('<' .. string.rep('d', n), text)}
  values[#values] = nil
  return values
end

-- Reads slots first..last (at most a ring's worth) as numbers.
local function read_slots(p, first, last)
  local out = {}
  while first <= last do
    local n = math.min(last - first + 1, RING - first % RING)
    local from = ring_offset(p, first)
    local text = redis.call('GETRANGE', KEY_WINDOW, from, from + n * 8 - 1)
    if #text < n * 8 then text = text .. string.rep('\0', n * 8 - #text) end
    for _, v in ipairs(doubles(n, text)) do out[#out + 1] = v end
    first = first + n
  end
  return out
end

local function write_slots(p, first, text)
  local at = 1
  while at <= #text do
    local n = math.min((#text - at + 1) / 8, RING - first % RING)
    redis.call('SETRANGE', KEY_WINDOW, ring_offset(p, first), string.sub(text, at, at + n * 8 - 1))
    first, at = first + n, at + n * 8
  end
end

-- Moves to the current slot: it takes the ring position of the slot that leaves just now.
function sliding.advance(p, s, state)
  p.slot_us = p.window_us / SLOTS
  p.now_us = state.now_us
  local slot = math.floor(state.now_us / p.slot_us)
  if s.slot < 0 or slot - s.slot >= RING then
    if s.slot >= 0 then write_slots(p, slot + 1, string.rep('\0', RING * 8)) end
    s.slot, s.sum, s.current = slot, 0, 0
  elseif slot > s.slot then
    for _, v in ipairs(read_slots(p, s.slot + 1, slot)) do s.sum = s.sum - v end
    write_slots(p, s.slot, struct.pack('<d', s.current) .. string.rep('\0', (slot - s.slot) * 8))
    s.slot, s.current = slot, 0
    if s.sum < 1e-9 then s.sum = 0 end
  end
  p.smooth_depth = p.depth * p.burst_fraction
  s.smooth = math.min(p.smooth_depth, s.smooth + state.elapsed_us / 1e6 * p.rate)
end

-- The log alone keeps any window within the limit; the smoothing bucket only spreads it and may go negative.
local function smooth_wait(p, s, need, extra)
  if p.burst_fraction >= 1 then return 0 end
  return math.max(0, math.min(need, p.smooth_depth / 2) + (extra or 0) - s.smooth) / p.rate
end

function sliding.avail(p, s, need, out_of_turn)
  local extra = out_of_turn and SMOOTH_BANK * p.smooth_depth or 0
  if smooth_wait(p, s, need or 0, extra) > 0 then return math.min(0, s.smooth) end
  return p.depth - s.sum
end

local function slots_of(p, s)
  if not p.slots then
    p.slots = read_slots(p, s.slot - SLOTS, s.slot)
    p.slots[RING] = s.current
  end
  return p.slots
end

function sliding.wait(p, s, need)
  local t = smooth_wait(p, s, need)
  local left = need + s.sum - p.depth
  if left <= 1e-9 then return t end
  for i, v in ipairs(slots_of(p, s)) do
    left = left - v
    if left <= 1e-9 then
      return math.max(t, ((s.slot - SLOTS + i - 1 + RING) * p.slot_us - p.now_us) / 1e6)
    end
  end
  return math.max(t, p.window_s)
end

function sliding.gain(p, s, tau)
  local last = math.floor((p.now_us + tau * 1e6) / p.slot_us) - RING
  local sum, slots = 0, slots_of(p, s)
  for i = 1, math.min(RING, last - (s.slot - SLOTS) + 1) do sum = sum + slots[i] end
  return sum
end

function sliding.debit(p, s, c)
  s.current, s.sum, s.smooth = s.current + c, s.sum + c, s.smooth - c
  p.slots = nil
  return s.slot
end

function sliding.adjust(p, s, mark, x)
  if mark <= s.slot - RING then return 0 end
  s.smooth = math.min(p.smooth_depth, s.smooth - x)
  s.sum = s.sum + x
  if mark == s.slot then
    s.current = s.current + x
  else
    write_slots(p, mark, struct.pack('<d', read_slots(p, mark, mark)[1] + x))
  end
  p.slots = nil
  return x
end

local MODELS = {continuous = continuous, fixed = fixed, sliding = sliding}

-- How much a model keeps back for better places, as a part of its depth, and how far ahead it looks, in seconds.
local function hold_fraction(p) return p.model == 'continuous' and 0.5 or 0.03 end

local function horizon(p)
  if p.model == 'continuous' then return math.min(2, p.depth / p.rate) end
  return math.min(2, 0.1 * p.window_s)
end

local function advance_caps(policy, state)
  for i, p in ipairs(policy.dims) do
    p.index, p.ops = i, MODELS[p.model]
    if p.limit > 0 then p.ops.advance(p, state.dims[i], state) end
  end
end
