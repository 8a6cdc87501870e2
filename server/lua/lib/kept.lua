-- Records as tables, kept between evaluations together with the bytes they stand for: used again only while the store holds
-- exactly those bytes. Whoever takes one may change it; until it is kept again, with the bytes it has become, nobody else
-- gets it. So an evaluation that fails half-way leaves nothing behind that is used again.
local kept = {}

-- Keeps at most so many records, and starts anew when there are more.
function kept.new(limit)
  local by_key, count = {}, 0
  local cache = {}

  -- The record of the key's field, if it is kept with these bytes and nobody has it; else nil.
  function cache.take(key, field, bytes)
    local fields = by_key[key]
    local entry = fields and fields[field]
    if not entry or entry.bytes ~= bytes or entry.taken then return nil end
    entry.taken = true
    return entry.record
  end

  function cache.keep(key, field, bytes, record)
    local fields = by_key[key]
    if not fields then
      fields = {}
      by_key[key] = fields
    end
    local entry = fields[field]
    if entry then
      entry.bytes, entry.record, entry.taken = bytes, record, false
      return
    end
    if count >= limit then
      fields = {}
      by_key, count = {[key] = fields}, 0
    end
    fields[field] = {bytes = bytes, record = record, taken = false}
    count = count + 1
  end

  return cache
end

return kept
