-- Hard ceilings beside the shared caps: a tenant's own caps (over all its classes) and a class's max_share. Continuous buckets
-- of one window's worth. Who is stopped here is not eligible: it holds no place that others would have to respect, and is
-- told its own wait, after those of the same ceiling that wait already (E enqueued, G gone, as in a flow).
--
-- A tenant's book is {dimension → {level, at_us, E, G, history}}. A waiting call remembers {since, need} per ceiling, by
-- dimension, '' for the class's.
local keys = require('keys')
local continuous = require('continuous')

local ceilings = {}

local function read_book(tenant)
  local raw = redis.call('HGET', keys.caps, tenant)
  return raw and cmsgpack.unpack(raw) or nil
end

-- The tenant's book; nil when its entry has no caps.
function ceilings.load_book(entry, tenant)
  if not (entry and entry.caps) then return nil end
  return read_book(tenant) or {}
end

function ceilings.save_book(tenant, book)
  if book then redis.call('HSET', keys.caps, tenant, cmsgpack.pack(book)) end
end

local function refilled(bucket, now_us, rate, depth)
  if not bucket then return {level = depth, at_us = now_us, E = 0, G = 0, history = {}} end
  bucket.level = math.min(depth, bucket.level + math.max(0, now_us - bucket.at_us) / 1e6 * rate)
  bucket.at_us = now_us
  return bucket
end

-- Every ceiling of the call's tenant and class, refilled: {bucket, rate, depth, layer, key}; nil when there is none.
local function list_of(policy, state, call, entry, book)
  local share = policy.classes[call.class].max_share
  if not book and not share then return nil end
  local list = {}
  for _, cap in ipairs(book and entry.caps or {}) do
    if policy.dim_index[cap.dimension] then
      local rate = cap.limit / (cap.window_us / 1e6)
      book[cap.dimension] = refilled(book[cap.dimension], state.now_us, rate, cap.limit)
      list[#list + 1] = {bucket = book[cap.dimension], rate = rate, depth = cap.limit, layer = 'tenant', key = cap.dimension}
    end
  end
  if share and share < 1 then
    local c = state.classes[call.class]
    local depth = share * policy.dims[1].window_s
    c.ceiling = refilled(c.ceiling, state.now_us, share, depth)
    list[#list + 1] = {bucket = c.ceiling, rate = share, depth = depth, layer = 'class', key = ''}
  end
  return list
end

-- The ceilings that the call's charge meets, with its `need` of each; nil when there is none.
function ceilings.of_call(policy, state, call, entry, book)
  local list = list_of(policy, state, call, entry, book)
  if not list then return nil end
  local met = {}
  for _, x in ipairs(list) do
    x.need = x.key == '' and call.sigma or call.dims[policy.dim_index[x.key]].charge
    if x.need > 0 then met[#met + 1] = x end
  end
  return met
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

function ceilings.debit(list, serial)
  if not list then return end
  for _, x in ipairs(list) do continuous.debit(nil, x.bucket, x.need, serial) end
end

-- A call used `actual` (by dimension; absent: as charged) instead of what was charged.
function ceilings.recharge(policy, state, call, entry, book, actual)
  local list = list_of(policy, state, call, entry, book)
  for _, x in ipairs(list or {}) do
    local more
    if x.key == '' then
      local sigma = 0
      for d, p in ipairs(policy.dims) do
        if p.cap > 0 then sigma = math.max(sigma, (actual[d] or call.dims[d].expected) / p.cap) end
      end
      more = sigma - call.sigma
    else
      local d = policy.dim_index[x.key]
      more = (actual[d] or call.dims[d].charge) - call.dims[d].charge
    end
    if more ~= 0 then continuous.adjust(x, x.bucket, call.serial, more) end
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

-- The call waits at its ceilings no more: it goes, joins the line, or its owner is lost. `tenant`, `book`: the asker's, which
-- the caller saves; another tenant's is saved here.
function ceilings.unblock(state, call, tenant, book)
  if not call.ceilings then return end
  state.blocked = state.blocked - 1
  local own = call.tenant == tenant
  if not own then book = read_book(call.tenant) end
  for key, place in pairs(call.ceilings) do
    local bucket = key == '' and state.classes[call.class].ceiling or book and book[key]
    if bucket then
      bucket.G = bucket.G + place.need
      if bucket.G >= bucket.E then bucket.G, bucket.E = 0, 0 end
    end
  end
  call.ceilings = nil
  if not own then ceilings.save_book(call.tenant, book) end
end

return ceilings
