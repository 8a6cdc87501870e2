-- Hard ceilings beside the shared caps: a tenant's own caps (over all its classes) and a class's max_share. Plain buckets
-- of one window's worth. Who is stopped here is not eligible: it holds no place that others would have to respect, and is
-- told its own wait, after those of the same ceiling that wait already (E enqueued, G gone, as in a flow).
local function refill(bucket, now_us, rate, depth)
  bucket.level = math.min(depth, bucket.level + math.max(0, now_us - bucket.at_us) / 1e6 * rate)
  bucket.at_us = now_us
end

local function bucket_of(book, name, now_us, depth)
  book[name] = book[name] or {level = depth, at_us = now_us, E = 0, G = 0}
  return book[name]
end

-- The ceilings that apply to a call: {bucket, rate, depth, need, layer, dimension}. `book` is the tenant's record.
local function ceilings_of(policy, state, call, book)
  local list = {}
  for _, cap in ipairs(policy.tenant and policy.tenant.caps or {}) do
    local d = policy.dim_index[cap.dimension]
    local need = d and call.debit[d] or 0
    if need > 0 then
      local rate = cap.limit / (cap.window_us / 1e6)
      local b = bucket_of(book, cap.dimension, state.now_us, cap.limit)
      refill(b, state.now_us, rate, cap.limit)
      list[#list + 1] = {bucket = b, rate = rate, depth = cap.limit, need = need, layer = 'tenant',
        dimension = cap.dimension, d = d}
    end
  end
  local share = policy.classes[call.class].max_share
  if share and share < 1 then
    local c = state.classes[call.class]
    local depth = share * policy.dims[1].window_s
    c.ceiling = c.ceiling or {level = depth, at_us = state.now_us, E = 0, G = 0}
    refill(c.ceiling, state.now_us, share, depth)
    list[#list + 1] = {bucket = c.ceiling, rate = share, depth = depth, need = call.sigma, layer = 'class', dimension = ''}
  end
  return list
end

local function ceiling_key(x) return x.layer == 'class' and '' or x.dimension end

-- Seconds until every ceiling lets the call go, and the ceiling that takes longest; 0 when it may go now.
local function ceiling_wait(list, call)
  local wait, worst = 0, nil
  for _, x in ipairs(list) do
    local since = call.blocked and call.blocked[ceiling_key(x)] or x.bucket.E
    local need = math.min(math.min(x.need, x.depth) + math.max(0, since - x.bucket.G), 1e300)
    if x.bucket.level < need - 1e-9 * need then
      local t = (need - x.bucket.level) / x.rate
      if t > wait then wait, worst = t, x end
    end
  end
  return wait, worst
end

local function block(list, call)
  if call.blocked then return end
  call.blocked, call.blocked_need = {}, {}
  for _, x in ipairs(list) do
    call.blocked[ceiling_key(x)], call.blocked_need[ceiling_key(x)] = x.bucket.E, x.need
    x.bucket.E = x.bucket.E + x.need
  end
end

local function leave_bucket(bucket, need)
  if not bucket then return end
  bucket.G = bucket.G + need
  if bucket.G >= bucket.E then bucket.G, bucket.E = 0, 0 end
end

-- The call waits at its ceilings no more: it goes, joins the line, or its owner is lost.
local function unblock(state, call, book)
  for key, need in pairs(call.blocked_need or {}) do
    leave_bucket(key == '' and state.classes[call.class].ceiling or book[key], need)
  end
  call.blocked, call.blocked_need = nil, nil
end
