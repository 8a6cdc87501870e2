# Bundles Lua entry scripts. Run with cmake -P and
#   SCRIPT_DIR  where the scripts and their lib/ are
#   ENTRIES     the entry scripts, a list of paths
#   BUNDLE_DIR  receives one whole script per entry
#   CODE_DIR    receives scripts.h and scripts.cc
#
# A line `--@include lib/NAME.lua` is replaced by that file, at its first occurrence in a bundle. Nothing is stripped. A line
# `--@source FILE:N` says that the next line is line N of FILE, so an error's line number can be traced to its source.
cmake_policy(VERSION 3.25)

# Sets `count` to the number of line ends in `text`.
function(count_lines text count)
  string(REGEX REPLACE "[^\n]+" "" ends "${text}")
  string(LENGTH "${ends}" length)
  set(${count} ${length} PARENT_SCOPE)
endfunction()

# Appends the file to BUNDLE, following its includes. DONE lists the files of this bundle.
function(append_file file)
  list(APPEND DONE "${file}")
  file(READ "${SCRIPT_DIR}/${file}" text)
  if(NOT text MATCHES "\n$")
    string(APPEND text "\n")
  endif()
  string(APPEND BUNDLE "--@source ${file}:1\n")

  set(line_number 1)
  # The line end in front makes "at the start of a line" one search for the whole text.
  set(rest "\n${text}")
  while(rest MATCHES "\n--@include[ \t]+([^ \t\r\n]+)[ \t\r]*\n")
    set(directive "${CMAKE_MATCH_0}")
    set(included "${CMAKE_MATCH_1}")
    string(FIND "${rest}" "${directive}" position)
    string(SUBSTRING "${rest}" 0 ${position} before)
    string(LENGTH "${directive}" length)
    math(EXPR after "${position} + ${length} - 1") # keeps the directive's own line end as the next marker
    string(SUBSTRING "${rest}" ${after} -1 rest)

    string(APPEND before "\n")
    string(SUBSTRING "${before}" 1 -1 before)
    count_lines("${before}" lines)
    string(APPEND BUNDLE "${before}")
    math(EXPR line_number "${line_number} + ${lines}")

    if(included IN_LIST DONE)
      string(APPEND BUNDLE "-- ${included} is included above.\n")
      math(EXPR line_number "${line_number} + 1")
      continue()
    endif()
    if(NOT EXISTS "${SCRIPT_DIR}/${included}")
      message(FATAL_ERROR "${SCRIPT_DIR}/${file}:${line_number}: no such file to include: ${included}")
    endif()
    append_file("${included}")
    math(EXPR line_number "${line_number} + 1")
    string(APPEND BUNDLE "--@source ${file}:${line_number}\n")
  endwhile()
  string(SUBSTRING "${rest}" 1 -1 rest)
  string(APPEND BUNDLE "${rest}")

  set(BUNDLE "${BUNDLE}" PARENT_SCOPE)
  set(DONE "${DONE}" PARENT_SCOPE)
endfunction()

# snake_case.lua -> kSnakeCase
function(constant_name file name)
  get_filename_component(stem "${file}" NAME_WE)
  string(REPLACE "_" ";" words "${stem}")
  set(result k)
  foreach(word IN LISTS words)
    string(SUBSTRING "${word}" 0 1 first)
    string(SUBSTRING "${word}" 1 -1 others)
    string(TOUPPER "${first}" first)
    string(APPEND result "${first}${others}")
  endforeach()
  set(${name} "${result}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY "${BUNDLE_DIR}" "${CODE_DIR}")
set(delimiter fairgate_lua) # of the raw strings
set(declarations)
set(definitions)
foreach(path IN LISTS ENTRIES)
  get_filename_component(entry "${path}" NAME)
  get_filename_component(stem "${path}" NAME_WE)
  set(BUNDLE)
  set(DONE)
  append_file("${entry}")
  string(FIND "${BUNDLE}" ")${delimiter}\"" collision)
  if(NOT collision EQUAL -1)
    message(FATAL_ERROR "${path}: contains the end of its own raw string, )${delimiter}\"")
  endif()
  file(WRITE "${BUNDLE_DIR}/${entry}" "${BUNDLE}")
  string(SHA1 sha1 "${BUNDLE}")

  constant_name("${entry}" constant)
  string(APPEND declarations "extern const Script ${constant};\n")
  string(APPEND definitions
    "const Script ${constant} = {\"${stem}\", R\"${delimiter}(${BUNDLE})${delimiter}\",\n    \"${sha1}\"};\n\n")
endforeach()

file(WRITE "${CODE_DIR}/scripts.h" "// Generated from server/lua by server/cmake/BundleLua.cmake.
#ifndef FAIRGATE_SERVER_LUA_SCRIPTS_H_
#define FAIRGATE_SERVER_LUA_SCRIPTS_H_

#include <string_view>

namespace fairgate::lua {

struct Script {
  std::string_view name;
  std::string_view text;
  std::string_view sha1;  // of the text, lower case hexadecimal: what EVALSHA takes
};

${declarations}
}  // namespace fairgate::lua

#endif  // FAIRGATE_SERVER_LUA_SCRIPTS_H_
")
file(WRITE "${CODE_DIR}/scripts.cc" "// Generated from server/lua by server/cmake/BundleLua.cmake.
#include \"server/lua/scripts.h\"

namespace fairgate::lua {

${definitions}}  // namespace fairgate::lua
")
