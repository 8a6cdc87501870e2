-- Time of one evaluation: the primary's TIME, read once, in microseconds. Tests replace it.
local function read_clock(args)
  if args.clock_us then return args.clock_us end
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
