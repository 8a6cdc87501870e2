-- Fixed windows of unknown phase, which is learnt from the reset times that the provider tells. Until it is known this is
-- `sliding`, then `fixed`: a boundary lies between lo and hi, so a window is used from its latest start to its earliest end. The
-- log is kept all the while, so that going back to it forgets nothing. Times are the target's own.
local fixed = require('fixed')
local sliding = require('sliding')

local fixed_learnt = {}
local NEED, NEED_MAX = 8, 64 -- consistent reports until the phase counts as known; each time it proves wrong, twice as many
local SPAN = 2 -- windows that these must span: one alone says where it ends, not that the next ends so, too
local WIDTH_MAX = 0.25 -- part of the window that may be uncertain: it is not used
local REPORT_MAX = 0.5 -- a report that is less certain says too little
local DRIFT = 1e-4 -- between two clocks
local EXACT_US, ROUNDED_US = 1e3, 1e6 -- how far a reset time may be off; whole seconds are taken for rounded ones

function fixed_learnt.derive(p) sliding.derive(p) end

function fixed_learnt.fresh(p, s)
  sliding.fresh(p, s)
  fixed.fresh(p, s)
  s.known, s.lo, s.hi, s.told_us, s.first_us, s.reports, s.need, s.behind_us = false, 0, 0, 0, 0, 0, NEED, 0
end

-- The bounds of a boundary, and so of each: they part slowly while nobody tells of it.
local function bounds(s, now_us)
  local drift = DRIFT * (now_us - s.told_us)
  return s.lo - drift, s.hi + drift
end

local function forget(s)
  if s.known then s.need = math.min(NEED_MAX, 2 * s.need) end
  s.known, s.reports = false, 0
end

-- The windows as `fixed` knows them: each begins when the one before has surely ended, and the guard before its end holds all
-- of the uncertainty.
local function open(p, s, now_us)
  local lo, hi = bounds(s, now_us)
  local w = {phase_us = hi, window_us = p.window_us, window_s = p.window_s, depth = p.depth, rate = p.cap * p.rate_fraction,
    burst_fraction = p.burst_fraction}
  fixed.derive(w)
  w.spread_s = w.spread_s - (hi - lo) / 1e6
  s.windows = w
  fixed.advance(w, s, {clock_us = now_us})
end

-- Is that too little to say?
local function vague(p, s, now_us, part)
  local lo, hi = bounds(s, now_us)
  return hi - lo >= part * p.window_us
end

-- Back: then the target's own time has lost some.
local function stepped(s, state) return state.now_us - state.clock_us ~= s.behind_us end

function fixed_learnt.advance(p, s, state)
  local net = s.net
  sliding.advance(p, s, state)
  if s.reports == 0 then return end
  if stepped(s, state) or vague(p, s, state.now_us, s.known and WIDTH_MAX or REPORT_MAX) then return forget(s) end
  if not s.known then return end
  s.net = net -- nothing comes free before a window's end
  open(p, s, state.now_us)
end

-- From now on windows are counted: with all that may have been debited in the running one. Not in between two, where it is
-- not certain which one that is.
local function begin(p, s, now_us)
  local lo, hi = bounds(s, now_us)
  local window = math.floor((now_us - hi) / p.window_us)
  if now_us >= lo + (window + 1) * p.window_us then return end
  s.known, s.window, s.count = true, window, sliding.since(p, s, lo + window * p.window_us)
  open(p, s, now_us)
end

-- The provider said, at some time since the grant, that its window ends reset_us later. Answers whether that was what is
-- known already.
function fixed_learnt.learn(p, s, state, granted_us, reset_us)
  local now_us, off_us = state.now_us, reset_us % 1e6 == 0 and ROUNDED_US or EXACT_US
  local from, to = granted_us + reset_us - off_us, now_us + reset_us + off_us
  if reset_us <= 0 or reset_us > p.window_us or to - from > REPORT_MAX * p.window_us then return false end
  if s.reports > 0 then
    local lo, hi = bounds(s, now_us)
    local ahead = math.floor((from + to - lo - hi) / (2 * p.window_us) + 0.5) * p.window_us
    lo, hi = math.max(lo, from - ahead), math.min(hi, to - ahead)
    if lo <= hi then
      s.lo, s.hi, s.told_us, s.reports = lo, hi, now_us, s.reports + 1
      if s.known then
        open(p, s, now_us)
      elseif s.reports >= s.need and now_us - s.first_us >= SPAN * p.window_us and not vague(p, s, now_us, WIDTH_MAX) then
        begin(p, s, now_us)
      end
      return true
    end
  end
  forget(s)
  s.lo, s.told_us, s.first_us, s.reports = from % p.window_us, now_us, now_us, 1
  s.hi, s.behind_us = s.lo + to - from, now_us - state.clock_us
  return false
end

-- A refusal that did not confirm the phase: if the books had room, that was wrong.
function fixed_learnt.doubt(p, s)
  if s.known and s.count <= p.depth then forget(s) end
end

-- For who only looks: where the clock's windows begin at the earliest, as a policy's phase_us, and how much later that may be;
-- microseconds. nil: not known.
function fixed_learnt.phase(p, s, state)
  if not s.known or stepped(s, state) or vague(p, s, state.now_us, WIDTH_MAX) then return nil end
  local lo, hi = bounds(s, state.now_us)
  return (lo - s.behind_us) % p.window_us, hi - lo
end

function fixed_learnt.free(p, s, state)
  if not fixed_learnt.phase(p, s, state) then return sliding.free(p, s, state) end
  open(p, s, state.now_us)
  return fixed.avail(s.windows, s)
end

function fixed_learnt.avail(p, s, need, out_of_turn)
  if s.known then return fixed.avail(s.windows, s, need, out_of_turn) end
  return sliding.avail(p, s, need, out_of_turn)
end

function fixed_learnt.books(p, s) return s.known and fixed.books(p, s) or sliding.books(p, s) end

function fixed_learnt.wait(p, s, need)
  if s.known then return fixed.wait(s.windows, s, need) end
  return sliding.wait(p, s, need)
end

function fixed_learnt.gain(p, s, tau)
  if s.known then return fixed.gain(s.windows, s, tau) end
  return sliding.gain(p, s, tau)
end

function fixed_learnt.debit(p, s, c)
  if s.known then
    fixed.debit(p, s, c)
    s.smooth = math.max(s.smooth, 0) -- which spreads nothing here, and must not run up a debt
  end
  return sliding.debit(p, s, c)
end

function fixed_learnt.counts(p, s, mark)
  if s.known then return mark * p.slot_us >= s.windows.phase_us + s.window * p.window_us end
  return sliding.counts(p, s, mark)
end

-- The mark is the log's slot. What may lie in the running window is charged to it, what surely does is given back.
function fixed_learnt.adjust(p, s, mark, x)
  local done = sliding.adjust(p, s, mark, x)
  if not s.known then return done end
  local start_us = s.windows.phase_us + s.window * p.window_us
  local ours = fixed_learnt.counts(p, s, mark)
  if x > 0 then
    ours = (mark + 1) * p.slot_us > start_us - (p.window_s - s.windows.guard_s - s.windows.spread_s) * 1e6
  end
  return ours and fixed.adjust(p, s, s.window, x) or 0
end

fixed_learnt.period = sliding.period -- of either: grants of the window before last are at rest in both

function fixed_learnt.renumber(p, s)
  forget(s)
  sliding.renumber(p, s)
end

return fixed_learnt
