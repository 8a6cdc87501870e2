-- Any window may hold at most the limit (sliding windows, and fixed ones of unknown phase): the log of the last window in
-- slots, and a smoothing bucket that spreads what may go.
local keys = require('keys')
local records = require('records')

local sliding = {}
local SLOTS = 200
local RING = SLOTS + 1 -- slots that are kept: one leaves SLOTS + 1 slots after it began
local SMOOTH_BANK = 0.35 -- part of the smoothing bucket that callers out of turn must leave

function sliding.derive(p)
  p.slot_us = p.window_us / SLOTS
  p.rate = p.rate * SLOTS / RING -- a slot leaves one slot late
  p.smooth_depth = p.depth * p.burst_fraction
  p.hold = 0.03
  p.horizon_s = math.min(2, 0.1 * p.window_s)
  p.ring_at = (p.index - 1) * RING * 8
end

function sliding.fresh(p, s)
  s.slot, s.sum, s.current, s.smooth = -1, 0, 0, p.depth * p.burst_fraction
end

-- Reads slots first..last (at most a ring's worth) as numbers.
local function read_slots(p, first, last)
  local out, count = {}, 0
  while first <= last do
    local n = math.min(last - first + 1, RING - first % RING)
    local from = p.ring_at + first % RING * 8
    local text = redis.call('GETRANGE', keys.window, from, from + n * 8 - 1)
    if #text < n * 8 then text = text .. string.rep('\0', n * 8 - #text) end
    local values = records.read_list(text, 1, n)
    for i = 1, n do out[count + i] = values[i] end
    first, count = first + n, count + n
  end
  return out
end

local function write_slots(p, first, text)
  local at = 1
  while at <= #text do
    local n = math.min((#text - at + 1) / 8, RING - first % RING)
    redis.call('SETRANGE', keys.window, p.ring_at + first % RING * 8, string.sub(text, at, at + n * 8 - 1))
    first, at = first + n, at + n * 8
  end
end

-- Moves to the current slot: it takes the ring position of the slot that leaves just now.
function sliding.advance(p, s, state)
  s.slots = nil
  s.at_us = state.now_us
  local slot = math.floor(state.now_us / p.slot_us)
  if s.slot < 0 or slot - s.slot >= RING then
    write_slots(p, slot + 1, string.rep('\0', RING * 8))
    s.net = s.net + s.sum
    s.slot, s.sum, s.current = slot, 0, 0
  elseif slot > s.slot then
    local gone, left = read_slots(p, s.slot + 1, slot), 0
    for i = 1, #gone do left = left + gone[i] end
    s.sum, s.net = s.sum - left, s.net + left
    write_slots(p, s.slot, struct.pack('<d', s.current) .. string.rep('\0', (slot - s.slot) * 8))
    s.slot, s.current = slot, 0
    if s.sum < 1e-9 then s.sum = 0 end
  end
  s.smooth = math.min(p.smooth_depth, s.smooth + state.elapsed_us / 1e6 * p.rate)
end

-- Units free at that time, for who only looks: the ring stays where it is.
function sliding.free(p, s, state)
  local slot = math.floor(state.now_us / p.slot_us)
  if s.slot < 0 or slot - s.slot >= RING then return p.depth end
  local free = p.depth - s.sum
  local gone = read_slots(p, s.slot + 1, slot)
  for i = 1, #gone do free = free + gone[i] end
  return free
end

-- The log alone keeps any window within the limit; the smoothing bucket only spreads it and may go negative.
local function smooth_wait(p, s, need)
  if p.burst_fraction >= 1 then return 0 end
  return math.max(0, math.min(need, p.smooth_depth / 2) - s.smooth) / p.rate
end

function sliding.avail(p, s, need, out_of_turn)
  if p.burst_fraction < 1 then
    local depth, smooth = p.smooth_depth, s.smooth
    local least = need < depth / 2 and need or depth / 2
    if out_of_turn then least = least + SMOOTH_BANK * depth end
    if smooth < least then return smooth < 0 and smooth or 0 end
  end
  return p.depth - s.sum
end

function sliding.books(p, s) return p.depth - s.sum end

local function slots_of(p, s)
  if not s.slots then
    s.slots = read_slots(p, s.slot - SLOTS, s.slot)
    s.slots[RING] = s.current
  end
  return s.slots
end

-- Units in the log from the slot of that time on.
function sliding.since(p, s, at_us)
  local slots, sum = slots_of(p, s), 0
  for i = math.max(1, math.floor(at_us / p.slot_us) - (s.slot - SLOTS) + 1), RING do sum = sum + slots[i] end
  return sum
end

function sliding.wait(p, s, need)
  local t = smooth_wait(p, s, need)
  local left = need + s.sum - p.depth
  if left <= 1e-9 then return t end
  local slots = slots_of(p, s)
  for i = 1, RING do
    left = left - slots[i]
    if left <= 1e-9 then return math.max(t, ((s.slot - SLOTS + i - 1 + RING) * p.slot_us - s.at_us) / 1e6) end
  end
  return math.max(t, p.window_s)
end

function sliding.gain(p, s, tau)
  local last = math.floor((s.at_us + tau * 1e6) / p.slot_us) - RING
  local sum, slots = 0, slots_of(p, s)
  for i = 1, math.min(RING, last - (s.slot - SLOTS) + 1) do sum = sum + slots[i] end
  return sum
end

function sliding.counts(_, s, mark) return mark > s.slot - RING end

function sliding.debit(_, s, c)
  s.current, s.sum, s.smooth = s.current + c, s.sum + c, s.smooth - c
  s.slots = nil
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
  s.slots = nil
  return x
end

function sliding.period(p, _, at_us) return math.floor(at_us / p.window_us) end

-- Another length of windows: what the log held counts from its last slot on.
function sliding.renumber(p, s)
  if s.slot < 0 then return end
  s.slot = math.floor(((s.slot + 1) * s.window_us / SLOTS - 1) / p.slot_us)
  s.current = s.sum
  write_slots(p, s.slot + 1, string.rep('\0', RING * 8))
end

return sliding
