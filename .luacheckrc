-- Valkey's Lua is 5.1 with libraries of its own.
std = "lua51"
read_globals = {"redis", "cmsgpack", "struct"}
max_line_length = 130
