-- Hard ceilings beside the shared caps: a tenant's own caps (over all its classes) and a class's max_share. Plain buckets
-- of one window's worth. Who is stopped here is not eligible: it holds no place that others would have to respect, and is
-- told its own wait, after those of the same ceiling that wait already (E enqueued, G gone, as in a flow).
--
-- A tenant's book is {dimension → {level, at_us, E, G}}. A waiting call remembers {since, need} per ceiling, by dimension,
-- '' for the class's.
local keys = require('keys')

local ceilings = {}

-- The tenant's book; nil when its entry has no caps.
function ceilings.load_book(entry, tenant)
  if not (entry and entry.caps) then return nil end
  local raw = redis.call('HGET', keys.caps, tenant)
  return raw and cmsgpack.unpack(raw) or {}
end

function ceilings.save_book(tenant, book)
  if book then redis.call('HSET', keys.caps, tenant, cmsgpack.pack(book)) end
end

local function refilled(bucket, now_us, rate, depth)
  bucket = bucket or {level = depth, at_us = now_us, E = 0, G = 0}
  bucket.level = math.min(depth, bucket.level + math.max(0, now_us - bucket.at_us) / 1e6 * rate)
  bucket.at_us = now_us
  return bucket
end

-- The ceilings that apply to a call: {bucket, rate, depth, need, layer, key}; nil when none does.
function ceilings.of_call(policy, state, call, entry, book)
  local share = policy.classes[call.class].max_share
  if not book and not share then return nil end
  local list = {}
  for _, cap in ipairs(book and entry.caps or {}) do
    local d = policy.dim_index[cap.dimension]
    local need = d and call.dims[d].charge or 0
    if need > 0 then
      local rate = cap.limit / (cap.window_us / 1e6)
      book[cap.dimension] = refilled(book[cap.dimension], state.now_us, rate, cap.limit)
      list[#list + 1] = {bucket = book[cap.dimension], rate = rate, depth = cap.limit, need = need, layer = 'tenant',
        key = cap.dimension}
    end
  end
  if share and share < 1 then
    local c = state.classes[call.class]
    local depth = share * policy.dims[1].window_s
    c.ceiling = refilled(c.ceiling, state.now_us, share, depth)
    list[#list + 1] = {bucket = c.ceiling, rate = share, depth = depth, need = call.sigma, layer = 'class', key = ''}
  end
  return list
end

-- Seconds until every ceiling lets the call go, and the ceiling that takes longest; 0 when it may go now.
function ceilings.wait(list, call)
  if not list then return 0 end
  local wait, worst = 0, nil
  for _, x in ipairs(list) do
    local since = call.ceilings and call.ceilings[x.key] and call.ceilings[x.key].since or x.bucket.E
    local need = math.min(math.min(x.need, x.depth) + math.max(0, since - x.bucket.G), 1e300)
    if x.bucket.level < need - 1e-9 * need then
      local t = (need - x.bucket.level) / x.rate
      if t > wait then wait, worst = t, x end
    end
  end
  return wait, worst
end

function ceilings.debit(list)
  if not list then return end
  for _, x in ipairs(list) do x.bucket.level = x.bucket.level - x.need end
end

-- A settled call used `actual` instead of what was charged.
function ceilings.recharge(policy, call, entry, book, actual)
  for _, cap in ipairs(book and entry.caps or {}) do
    local d, bucket = policy.dim_index[cap.dimension], book[cap.dimension]
    if d and bucket and actual[d] then
      bucket.level = math.min(cap.limit, bucket.level + call.dims[d].charge - actual[d])
    end
  end
end

function ceilings.block(state, list, call)
  if call.ceilings then return end
  state.blocked = state.blocked + 1
  call.ceilings = {}
  for _, x in ipairs(list) do
    call.ceilings[x.key] = {since = x.bucket.E, need = x.need}
    x.bucket.E = x.bucket.E + x.need
  end
end

-- The call waits at its ceilings no more: it goes, joins the line, or its owner is lost.
function ceilings.unblock(state, call, book)
  if not call.ceilings then return end
  state.blocked = state.blocked - 1
  for key, place in pairs(call.ceilings) do
    local bucket = key == '' and state.classes[call.class].ceiling or book and book[key]
    if bucket then
      bucket.G = bucket.G + place.need
      if bucket.G >= bucket.E then bucket.G, bucket.E = 0, 0 end
    end
  end
  call.ceilings = nil
end

return ceilings
