-- A bucket that refills all the time.
local continuous = {}
local HISTORY_MAX = 8 -- kept maxima of the level

function continuous.derive(p)
  p.depth = p.limit * p.burst_fraction
  p.hold = 0.5
  p.horizon_s = math.min(2, p.depth / p.rate)
end

function continuous.fresh(p, s) s.level, s.after, s.history = p.depth, -1e18, {} end

function continuous.advance(p, s, state)
  local more = state.elapsed_us / 1e6 * p.rate
  local level = s.level + more
  s.net = s.net + more
  s.level = level < p.depth and level or p.depth
end

function continuous.avail(_, s) return s.level end

function continuous.books(_, s) return s.level end

function continuous.counts() return true end

function continuous.wait(p, s, need)
  return need > s.level and (need - s.level) / p.rate or 0
end

function continuous.gain(p, _, tau) return p.rate * tau end

-- `history` holds pairs (serial, level just before that debit), without those that a later debit saw higher: the greatest
-- level seen since any earlier debit is the greatest of the pairs after it.
local function remember(h, serial, level)
  local n = #h
  while n > 0 and h[n] <= level do
    h[n], h[n - 1] = nil, nil
    n = n - 2
  end
  h[n + 1], h[n + 2] = serial, level
  if n + 2 <= 2 * HISTORY_MAX then return end
  local best, least = 2, math.huge -- join the two that differ least; the higher level stands, which refunds less
  for i = 2, n, 2 do
    local step = h[i] - h[i + 2]
    if step < least then best, least = i, step end
  end
  h[best + 2] = h[best]
  table.remove(h, best - 1)
  table.remove(h, best - 1)
end

-- A debit that finds the level as the last one left it needs no pair: nothing can have spilled in between.
function continuous.debit(_, s, c, serial)
  local level = s.level
  if level ~= s.after then remember(s.history, serial, level) end
  s.level = level - c
  s.after = s.level
  return serial
end

-- A refund is worth no more than the least headroom since the grant: what would have spilled is gone.
function continuous.adjust(p, s, mark, x)
  local h = s.history
  if x < 0 then
    local top = s.level
    for i = 1, #h, 2 do
      if h[i] > mark and h[i + 1] > top then top = h[i + 1] end
    end
    x = -math.min(-x, math.max(0, p.depth - top))
    for i = 1, #h, 2 do
      if h[i] > mark then h[i + 1] = h[i + 1] - x end
    end
  end
  s.level = s.level - x
  return x
end

function continuous.period(p, _, at_us) return math.floor(at_us / p.window_us) end

-- Another depth: the headroom of the past stays what it was. A level that is cut has nothing to come back above it.
function continuous.resize(p, s, serial)
  if s.level > p.depth then
    s.level = p.depth
    s.history = {serial + 0.5, p.depth} -- no refund of the past can pass it
    return
  end
  local h = s.history
  for i = 2, #h, 2 do h[i] = h[i] + p.depth - s.depth end
end

return continuous
