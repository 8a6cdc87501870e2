-- The pure parts of the library in plain Lua 5.1, without a server: window arithmetic and packed records. What Valkey gives
-- them is stood in for here: bytes of a key, and `struct` for little-endian doubles.
local root = os.getenv('FAIRGATE_SOURCE_DIR') or '.'
package.path = root .. '/server/lua/lib/?.lua;' .. package.path

local bytes = ''
local numbers = {} -- a packed double is 8 bytes that name its number

local function packed(x)
  if x == 0 then return string.rep('\0', 8) end
  numbers[#numbers + 1] = x
  return string.format('%08d', #numbers)
end

-- Width of a format's item: doubles are 8 bytes, `cN` N.
local function width_of(kind) return kind == 'd' and 8 or kind == 'B' and 1 or tonumber(string.sub(kind, 2)) end

local function kinds(format)
  local out = {}
  for kind in string.gmatch(string.match(format, '^<([dBc%d]*)$'), '%a%d*') do out[#out + 1] = kind end
  return out
end

_G.struct = {
  pack = function(format, ...)
    local out = {}
    for i, kind in ipairs(kinds(format)) do
      local x = select(i, ...)
      out[i] = kind == 'd' and packed(x) or kind == 'B' and string.char(x) or x
    end
    return table.concat(out)
  end,
  unpack = function(format, text, at)
    local out = {}
    at = at or 1
    for i, kind in ipairs(kinds(format)) do
      local part = string.sub(text, at, at + width_of(kind) - 1)
      if kind == 'd' then
        out[i] = part == string.rep('\0', 8) and 0 or numbers[tonumber(part)]
      else
        out[i] = kind == 'B' and string.byte(part) or part
      end
      at = at + width_of(kind)
    end
    out[#out + 1] = at
    return unpack(out)
  end,
}
_G.redis = {call = function(command, _, from, x)
  if command == 'GETRANGE' then return string.sub(bytes, from + 1, x + 1) end
  assert(command == 'SETRANGE', command)
  bytes = bytes .. string.rep('\0', from - #bytes)
  bytes = string.sub(bytes, 1, from) .. x .. string.sub(bytes, from + #x + 1)
end}

local records = require('records')
local windows = require('windows')
local START_US = 1.8e15

-- A dimension of 100 units per `window_s` and its state, at the beginning of a window.
local function dimension(model, window_s, burst)
  bytes = ''
  local p = {index = 1, model = model, limit = 100, window_us = window_s * 1e6, window_s = window_s, phase_us = 0,
    burst_fraction = burst or 1, rate_fraction = 1, cap = 100 / window_s, rate = 100 / window_s, depth = 100}
  local ops = windows[model]
  p.ops = ops
  ops.derive(p)
  local s = {net = 0}
  ops.fresh(p, s)
  local last_us = 0
  local function at(seconds)
    ops.advance(p, s, {now_us = START_US + seconds * 1e6, clock_us = START_US + seconds * 1e6,
      elapsed_us = seconds * 1e6 - last_us})
    last_us = seconds * 1e6
  end
  at(0)
  return ops, p, s, at
end

local function near(expected, got) assert.is_true(math.abs(expected - got) < 1e-6, expected .. ' is not ' .. tostring(got)) end

describe('continuous', function()
  it('refills by time up to its depth', function()
    local ops, p, s, at = dimension('continuous', 100)
    ops.debit(p, s, 80, 1)
    near(20, ops.avail(p, s))
    near(30, ops.wait(p, s, 50))
    at(30)
    near(50, ops.avail(p, s))
    at(1000)
    near(100, ops.avail(p, s))
    near(7, ops.gain(p, s, 7))
    near(1000, s.net) -- what came free, whether there was room for it or not
  end)

  it('gives back no more than the least headroom since the debit', function()
    local ops, p, s, at = dimension('continuous', 100)
    local mark = ops.debit(p, s, 90, 1)
    at(95) -- full
    ops.debit(p, s, 90, 2)
    near(0, ops.adjust(p, s, mark, -90))
    near(10, ops.avail(p, s))
  end)

  it('gives back all under load', function()
    local ops, p, s, at = dimension('continuous', 100)
    local mark = ops.debit(p, s, 90, 1)
    ops.debit(p, s, 10, 2)
    at(5)
    ops.debit(p, s, 5, 3)
    near(-90, ops.adjust(p, s, mark, -90)) -- never above 10 since
    near(90, ops.avail(p, s))
  end)

  it('keeps a bounded history, which never refunds more', function()
    local ops, p, s, at = dimension('continuous', 100)
    local mark = ops.debit(p, s, 40, 1)
    for i = 1, 40 do
      at(i)
      ops.debit(p, s, 1 + 0.2 / i, i + 1)
    end
    assert.is_true(#s.history <= 16)
    assert.is_true(-ops.adjust(p, s, mark, -40) <= 40)
  end)

  it('charges what was used above the debit', function()
    local ops, p, s = dimension('continuous', 100)
    near(30, ops.adjust(p, s, ops.debit(p, s, 50, 1), 30))
    near(20, ops.avail(p, s))
  end)
end)

describe('fixed', function()
  it('counts per window', function()
    local ops, p, s, at = dimension('fixed', 10)
    ops.debit(p, s, 60)
    near(40, ops.avail(p, s))
    near(10.0001, ops.wait(p, s, 60))
    at(10)
    near(100, ops.avail(p, s))
  end)

  it('uses nothing of the guard at its end', function()
    local ops, p, s, at = dimension('fixed', 10)
    at(9.998)
    assert.is_true(ops.avail(p, s) < 0)
    assert.is_true(ops.wait(p, s, 1) > 0.002)
  end)

  it('spreads spending with a lead', function()
    local ops, p, s, at = dimension('fixed', 10, 0.2)
    near(100 * 2 / 9.997, ops.avail(p, s))
    near((40 - 100 * 2 / 9.997) * 9.997 / 100, ops.wait(p, s, 40))
    near(100 / 9.997, ops.gain(p, s, 1))
    at(9)
    near(100, ops.avail(p, s))
  end)

  it('refunds in the window that was debited only', function()
    local ops, p, s, at = dimension('fixed', 10)
    local mark = ops.debit(p, s, 60)
    near(-50, ops.adjust(p, s, mark, -50))
    at(10)
    near(0, ops.adjust(p, s, mark, -10))
  end)

  it('owes to the next window what went above the limit', function()
    local ops, p, s, at = dimension('fixed', 10)
    ops.adjust(p, s, ops.debit(p, s, 60), 70)
    at(10)
    near(70, ops.avail(p, s))
    at(20)
    near(100, ops.avail(p, s))
  end)
end)

describe('sliding', function()
  it('lets a slot go one slot late', function()
    local ops, p, s, at = dimension('sliding', 10)
    ops.debit(p, s, 60)
    at(3)
    near(7.05, ops.wait(p, s, 60))
    at(10)
    near(40, ops.avail(p, s, 60))
    near(60, ops.gain(p, s, 0.05))
    near(0, s.net)
    at(10.05)
    near(100, ops.avail(p, s, 60))
    near(60, s.net)
  end)

  it('refunds into the slot that was debited', function()
    local ops, p, s, at = dimension('sliding', 10)
    local mark = ops.debit(p, s, 60)
    at(5)
    ops.debit(p, s, 40)
    at(8)
    near(-50, ops.adjust(p, s, mark, -50))
    near(50, ops.avail(p, s, 1))
    at(10.1)
    near(60, ops.avail(p, s, 1))
    near(0, ops.adjust(p, s, mark, -10))
  end)

  it('forgets all after a long silence', function()
    local ops, p, s, at = dimension('sliding', 10)
    ops.debit(p, s, 100)
    at(1000)
    near(100, ops.avail(p, s, 1))
    ops.debit(p, s, 30)
    at(1005)
    near(70, ops.avail(p, s, 1))
  end)

  it('smooths, and goes into debt for a large call', function()
    local ops, p, s = dimension('sliding', 10, 0.2)
    ops.debit(p, s, 30)
    near(-10, ops.avail(p, s, 5))
    near(15 / (100 / 10.05), ops.wait(p, s, 5))
  end)

  it('holds no more than the limit in any window, by a thousand random debits', function()
    local ops, p, s, at = dimension('sliding', 1)
    math.randomseed(7)
    local log, now = {}, 0
    for _ = 1, 1000 do
      now = now + math.random(0, 40) / 1000
      at(now)
      local c = math.random(1, 30)
      if ops.avail(p, s, c) >= c then
        ops.debit(p, s, c)
        log[#log + 1] = {now, c}
      end
      local sum = 0
      for i = #log, 1, -1 do
        if log[i][1] <= now - 1 then break end
        sum = sum + log[i][2]
      end
      assert.is_true(sum <= 100, 'at ' .. now .. ': ' .. sum)
    end
  end)
end)

describe('records', function()
  local head = {'a', 'flag?', 'letter!', 'many*'}

  it('reads what it wrote, and says where it ends', function()
    local write, read = records.compile('head', head, {{'items', {{'x', 'on?'}, {'x', 'on?'}}}}, 3)
    local record = {a = 1.5, flag = true, letter = 'w', many = {0, -2, 1e18},
      items = {{x = 7, on = false}, {x = 0, on = true}}}
    local raw = write(record)
    local got, at = read(raw .. 'rest')
    assert.are.same(record, got)
    assert.are.equal(1 + #raw, at)
    assert.are.equal('head', string.sub(raw, 1, 4))
  end)

  it('packs records of more values than Lua has registers', function()
    local write, read = records.compile('x', {'many*'}, {}, 400)
    local record = {many = {}}
    for i = 1, 400 do record.many[i] = i end
    assert.are.same(record, (read(write(record))))
  end)

  it('writes and reads lists', function()
    local list, at = records.read_list(records.write_list({3, 0, -1}, 3), 1, 3)
    assert.are.same({3, 0, -1}, list)
    assert.are.equal(25, at)
  end)

  it('makes one codec per count', function()
    local by_count = records.by_count({'n'}, 'dims', {'v'})
    assert.are.equal(by_count(2), by_count(2))
    local record = {n = 1, dims = {{v = 4}, {v = 5}}}
    assert.are.same(record, (by_count(2).read(by_count(2).write(record))))
  end)
end)
