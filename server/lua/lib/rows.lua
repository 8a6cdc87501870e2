-- The records in one hash of the target, while one evaluation decides its questions: each is read once, and what has changed
-- is written once, at the end, whatever the number of questions. So an evaluation that fails writes none of them.
local kept = require('kept')
local keys = require('keys')

local rows = {}
local FIELDS_MAX = 1000 -- of one command: Lua's unpack has an end

-- key: name in `keys`; limit: of records kept between evaluations; read(field, bytes) → record; write(record) → bytes;
-- keeps(record): whether it is worth keeping (absent: all are).
function rows.new(key, limit, read, write, keeps)
  local cache = kept.new(limit)
  local open, changed, seen = {}, {}, {} -- field → {raw, record, changed}; lists of fields
  local hash = {}

  function hash.begin() open, changed, seen = {}, {}, {} end

  -- Reads the fields' bytes in one command, those that are not yet there.
  function hash.fetch(fields)
    local missing = {}
    for i = 1, #fields do
      local field = fields[i]
      if not open[field] then
        local row = {raw = false, record = nil, changed = false}
        open[field] = row
        missing[#missing + 1] = field
      end
    end
    for first = 1, #missing, FIELDS_MAX do
      local last = math.min(#missing, first + FIELDS_MAX - 1)
      local raw = redis.call('HMGET', keys[key], unpack(missing, first, last))
      for i = first, last do open[missing[i]].raw = raw[i - first + 1] end
    end
  end

  -- The field's record, nil when there is none. Whoever changes it must put it.
  function hash.get(field)
    local row = open[field]
    if not row then
      row = {raw = redis.call('HGET', keys[key], field), record = nil, changed = false}
      open[field] = row
    end
    if row.record == nil and row.raw then row.record = cache.take(keys[key], field, row.raw) or read(field, row.raw) end
    return row.record or nil
  end

  -- The record as it is now is to be written; false: none is to be left.
  function hash.put(field, record)
    local row = open[field]
    if not row then
      row = {raw = true, record = record, changed = false} -- not read: it may be there
      open[field] = row
    end
    row.record = record
    if not row.changed then
      row.changed = true
      changed[#changed + 1] = field
    end
  end

  -- Its record was only looked at: it may be kept as it stands.
  function hash.looked_at(field) seen[#seen + 1] = field end

  -- Forgets what an unanswered question did to a record that nobody had put.
  function hash.drop(field)
    if open[field] and not open[field].changed then open[field] = nil end
  end

  local function write_all()
    local set, gone, n = {}, {}, 0
    for i = 1, #changed do
      local field = changed[i]
      local row = open[field]
      local record = row.record
      if record then
        local bytes = write(record)
        set[n + 1], set[n + 2], n = field, bytes, n + 2
        if not keeps or keeps(record) then cache.keep(keys[key], field, bytes, record) end
      elseif row.raw then
        gone[#gone + 1] = field
      end
    end
    for first = 1, n, FIELDS_MAX do redis.call('HSET', keys[key], unpack(set, first, math.min(n, first + FIELDS_MAX - 1))) end
    if #gone > 0 then redis.call('HDEL', keys[key], unpack(gone)) end
  end

  -- Writes what has changed, and begins anew.
  function hash.close()
    if #changed > 0 then write_all() end
    for i = 1, #seen do
      local row = open[seen[i]]
      if row and row.record and not row.changed then cache.keep(keys[key], seen[i], row.raw, row.record) end
    end
    hash.begin()
  end

  return hash
end

return rows
