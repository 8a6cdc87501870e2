-- Flows and their order. A flow (tenant in a class) is in exactly one band of the `order` set:
--   'h' head     it has waiters; ordered by start tag
--   'a' ahead    it has none, but its tag is ahead of the class's virtual time; still counted in the sums
--   'i' idle     ordered by the time it fell idle, forgotten oldest first
-- Members are band, class (2 bytes), tag or time (8 bytes, big-endian, so that bytes sort as numbers do), field.
local FLOW_LIFE_US = 3600e6

local function flow_field(class, tenant) return class .. ':' .. tenant end

local function class_prefix(band, class) return band .. struct.pack('>H', class) end

local function load_flow(class, tenant, field)
  field = field or flow_field(class, tenant)
  local raw = redis.call('HGET', KEY_FLOWS, field)
  if not raw then return nil end
  local f = unpack_record(raw)
  f.field = field
  return f
end

local function new_flow(policy, class, tenant)
  local f = {field = flow_field(class, tenant), class = class, tenant = tenant, weight = tenant_weight(policy),
    F = {}, u = {}, num = {}, den = {}, var = {}, waiters = 0, E = 0, G = 0, late = 0, dev = 50000, grants = 0,
    service = 0}
  return f
end

local function save_flow(f)
  local field = f.field
  f.field = nil
  redis.call('HSET', KEY_FLOWS, field, pack(f))
  f.field = field
end

-- The flow's start tag: the furthest of its dimensions' finish tags.
local function tag_of(f)
  local tag = 0
  for _, v in pairs(f.F) do if v > tag then tag = v end end
  return tag
end

local function band_member(f, band, value)
  local class = band == 'i' and 0 or f.class
  return class_prefix(band, class) .. struct.pack('>d', math.max(0, value)) .. f.field
end

-- Moves a flow to a band, keeping the class's sums over heads: M = sum of w S, Wh = sum of w.
local function set_band(state, f, band, value)
  local member = band_member(f, band, value)
  if member == f.member then return end
  local c = state.classes[f.class]
  if f.member then redis.call('ZREM', KEY_ORDER, f.member) end
  if f.band == 'h' then
    c.M, c.Wh = c.M - f.head_weight * f.head_tag, c.Wh - f.head_weight
  end
  redis.call('ZADD', KEY_ORDER, 0, member)
  f.member, f.band = member, band
  if band == 'h' then
    f.head_tag, f.head_weight = value, f.weight
    c.M, c.Wh = c.M + f.weight * value, c.Wh + f.weight
    c.least = math.min(c.least or value, value)
  end
end

local function first_in_band(band, class, limit)
  local from = class_prefix(band, class)
  return redis.call('ZRANGEBYLEX', KEY_ORDER, '[' .. from, '(' .. class_prefix(band, class + 1), 'LIMIT', 0, limit or 1)
end

local function member_value(member) return (struct.unpack('>d', member, 4)) end
local function member_field(member) return string.sub(member, 12) end

local function head_tag(class)
  local m = first_in_band('h', class)[1]
  return m and member_value(m) or nil
end

-- Number of heads of the class with a tag below `tag`.
local function heads_before(class, tag)
  local from = class_prefix('h', class)
  return redis.call('ZLEXCOUNT', KEY_ORDER, '[' .. from, '(' .. from .. struct.pack('>d', math.max(0, tag)))
end

-- Sums over active flows of a class: W = sum of w, D[d] = sum of w u[d]. A flow takes out exactly what it put in.
local function leave_sums(state, f)
  if not f.counted then return end
  local c = state.classes[f.class]
  c.flows, c.W = c.flows - 1, c.W - f.counted[1]
  for i = 2, #f.counted do c.D[i - 1] = (c.D[i - 1] or 0) - f.counted[i] end
  f.counted = nil
  if c.flows <= 0 then c.flows, c.W, c.D = 0, 0, {} end
end

local function enter_sums(state, f, dims)
  leave_sums(state, f)
  local c = state.classes[f.class]
  f.counted = {f.weight}
  c.flows, c.W = c.flows + 1, c.W + f.weight
  for d = 1, dims do
    local share = f.weight * (f.u[d] or 0)
    f.counted[d + 1] = share
    c.D[d] = (c.D[d] or 0) + share
  end
end

-- A changed weight takes effect on first touch; a lead that is still owed is rescaled with it.
local function refresh_weight(state, f, weight, dims)
  if weight == f.weight then return end
  local v = state.classes[f.class].v
  for d, tag in pairs(f.F) do
    if tag > v then f.F[d] = v + (tag - v) * f.weight / weight end
  end
  f.weight = weight
  if f.counted then enter_sums(state, f, dims) end
  if f.band == 'h' then set_band(state, f, 'h', tag_of(f)) end
end

-- Flows that neither wait nor are ahead of virtual time leave the sums; the long idle are forgotten. Two of each a call.
local function retire_flows(state, class, keep)
  local c = state.classes[class]
  for _, member in ipairs(first_in_band('a', class, 2)) do
    if member_value(member) > c.v then break end
    local field = member_field(member)
    if field ~= keep then
      local f = load_flow(nil, nil, field)
      if not f then
        redis.call('ZREM', KEY_ORDER, member)
      else
        local tag = tag_of(f)
        if tag > c.v then
          set_band(state, f, 'a', tag)
        else
          leave_sums(state, f)
          set_band(state, f, 'i', state.now_us)
        end
        save_flow(f)
      end
    end
  end
  for _, member in ipairs(first_in_band('i', 0, 2)) do
    if member_value(member) > state.now_us - FLOW_LIFE_US then break end
    local field = member_field(member)
    if field ~= keep then
      redis.call('ZREM', KEY_ORDER, member)
      redis.call('HDEL', KEY_FLOWS, field)
    end
  end
end
