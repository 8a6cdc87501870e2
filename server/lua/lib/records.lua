-- Binary records: little-endian, without padding. A record is described once, by the fields of its head and of the items in
-- its lists, in order:
--   'name'   a double          'name?'  a flag (one byte)
--   'name!'  one character     'name*'  a list of doubles, one per dimension
-- From that its writer and reader are made at first use, as code that touches each field once: a decision reads and writes
-- about a hundred fields, so a loop over names would be most of its cost.
local records = {}
local VALUES_MAX = 180 -- of one call: Lua 5.1 has 250 registers

-- Adds the fields of one table, which the writer reaches as `path`; answers the constructor of what is read.
local function add_fields(code, path, fields, dims)
  local members = {}
  local function add(format, value)
    code.formats[#code.formats + 1] = format
    code.values[#code.values + 1] = value
    return 'v[' .. #code.values .. ']'
  end
  for _, field in ipairs(fields) do
    local name, kind = string.match(field, '^(%w[%w_]*)([?!*]?)$')
    local value = path .. '.' .. name
    local read
    if kind == '*' then
      local items = {}
      for d = 1, dims do items[d] = add('d', value .. '[' .. d .. ']') end
      read = '{' .. table.concat(items, ', ') .. '}'
    elseif kind == '?' then
      read = add('B', '(' .. value .. ' and 1 or 0)') .. ' == 1'
    else
      read = add(kind == '!' and 'c1' or 'd', value)
    end
    members[#members + 1] = name .. ' = ' .. read
  end
  return table.concat(members, ', ')
end

local function writer_of(code, prefix)
  local calls = {}
  local first_format, first_value = 'c' .. #prefix, string.format('%q, ', prefix)
  for from = 1, #code.values, VALUES_MAX do
    local to = math.min(#code.values, from + VALUES_MAX - 1)
    calls[#calls + 1] = string.format('pack("<%s%s", %s%s)', first_format, table.concat(code.formats, '', from, to),
      first_value, table.concat(code.values, ', ', from, to))
    first_format, first_value = '', ''
  end
  return string.format('local pack = struct.pack return function(r) %s return %s end', table.concat(code.locals, ' '),
    table.concat(calls, ' .. '))
end

-- prefix: what the bytes begin with, at least one; head: fields; lists: {{name, fields by item}, ...}; dims: length of the
-- lists of doubles. Answers write(record) → bytes and read(bytes) → record, position after it.
function records.compile(prefix, head, lists, dims)
  local code = {formats = {}, values = {}, locals = {}}
  local members = {add_fields(code, 'r', head, dims)}
  for _, list in ipairs(lists) do
    local items, name = {}, list[1]
    for i, fields in ipairs(list[2]) do
      local item = name .. i
      code.locals[#code.locals + 1] = string.format('local %s = r.%s[%d]', item, name, i)
      items[i] = '{' .. add_fields(code, item, fields, dims) .. '}'
    end
    members[#members + 1] = name .. ' = {' .. table.concat(items, ', ') .. '}'
  end
  local reader = string.format(
    'local unpack = struct.unpack return function(raw) local v = {unpack("<%s", raw, %d)} return {%s}, v[%d] end',
    table.concat(code.formats), #prefix + 1, table.concat(members, ', '), #code.values + 1)
  return loadstring(writer_of(code, prefix))(), loadstring(reader)()
end

-- Records whose shape is the number of items in one list, which is the first byte: a function from it to {write, read}.
function records.by_count(head, list, fields)
  local made = {}
  return function(n)
    local pair = made[n]
    if not pair then
      local items = {}
      for i = 1, n do items[i] = fields end
      local write, read = records.compile(string.char(n), head, {{list, items}}, n)
      pair = {write = write, read = read}
      made[n] = pair
    end
    return pair
  end
end

-- Lists of n doubles.
local formats = {}

local function format_of(n)
  local format = formats[n]
  if not format then
    format = '<' .. string.rep('d', n)
    formats[n] = format
  end
  return format
end

function records.write_list(list, n) return struct.pack(format_of(n), unpack(list, 1, n)) end

function records.read_list(raw, at, n)
  local list = {struct.unpack(format_of(n), raw, at)}
  list[n + 1] = nil -- the position after it
  return list, at + 8 * n
end

return records
