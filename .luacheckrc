-- For the bundled scripts, as `make lint` makes them: a part in lib/ is complete only together with the others.
-- The scripts run inside Valkey: Lua 5.1 with its own libraries, and nothing else global.
std = "lua51"
max_line_length = 130
-- A bundle holds whole parts; not every entry uses all that they offer.
ignore = {"211"}
read_globals = {
  "redis", "server", "KEYS", "ARGV", "cmsgpack", "cjson", "struct", "bit",
}
