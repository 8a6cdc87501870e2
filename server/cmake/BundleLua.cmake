# Bundles the Lua modules that `library` needs into one Valkey function library. Run with cmake -P and
#   SCRIPT_DIR  where the modules are: NAME.lua or lib/NAME.lua
#   BUNDLE_DIR  receives fairgate.lua
#   CODE_DIR    receives scripts.h and scripts.cc
#
# A module is a plain Lua module: it names the modules it needs with require('NAME') and returns its own. Each goes once into
# the library, after those it needs. A line `--@source FILE` before each lets an error's line number be traced to its source.
# In library.lua, @LIBRARY@ becomes the library's name: fairgate_ and the start of the text's SHA-1, so that servers of two
# versions never share functions.
cmake_policy(VERSION 3.25)

# Appends the module and what it needs to BUNDLE. DONE lists the modules that are there, OPEN those that are being added.
function(append_module name)
  if(name IN_LIST DONE)
    return()
  endif()
  if(name IN_LIST OPEN)
    message(FATAL_ERROR "${SCRIPT_DIR}: modules need each other: ${OPEN};${name}")
  endif()
  list(APPEND OPEN "${name}")
  set(file "lib/${name}.lua")
  if(NOT EXISTS "${SCRIPT_DIR}/${file}")
    set(file "${name}.lua")
  endif()
  if(NOT EXISTS "${SCRIPT_DIR}/${file}")
    message(FATAL_ERROR "${SCRIPT_DIR}: no module ${name}, needed by ${OPEN}")
  endif()
  file(READ "${SCRIPT_DIR}/${file}" text)
  string(REGEX MATCHALL "require\\('[a-z_]+'\\)" requires "${text}")
  foreach(require IN LISTS requires)
    string(REGEX REPLACE "require\\('([a-z_]+)'\\)" "\\1" needed "${require}")
    append_module("${needed}")
  endforeach()
  string(APPEND BUNDLE "modules.${name} = (function()\n--@source ${file}\n${text}end)()\n")
  set(BUNDLE "${BUNDLE}" PARENT_SCOPE)
  set(DONE "${DONE};${name}" PARENT_SCOPE)
endfunction()

set(BUNDLE "local modules = {}\nlocal function require(name) return modules[name] end\n")
append_module(library)
string(SHA1 sha1 "${BUNDLE}")
string(SUBSTRING "${sha1}" 0 12 version)
set(library "fairgate_${version}")
string(REPLACE "@LIBRARY@" "${library}" BUNDLE "#!lua name=${library}\n${BUNDLE}")

set(delimiter fairgate_lua) # of the raw string
string(FIND "${BUNDLE}" ")${delimiter}\"" collision)
if(NOT collision EQUAL -1)
  message(FATAL_ERROR "${SCRIPT_DIR}: contains the end of its own raw string, )${delimiter}\"")
endif()
# A string literal has a greatest length in C++; pieces are joined by the compiler.
string(REPLACE "\nmodules." "\n)${delimiter}\"\n    R\"${delimiter}(modules." pieces "${BUNDLE}")

file(MAKE_DIRECTORY "${BUNDLE_DIR}" "${CODE_DIR}")
file(WRITE "${BUNDLE_DIR}/fairgate.lua" "${BUNDLE}")

string(REGEX MATCHALL "${library}_[a-z]+" functions "${BUNDLE}")
set(declarations)
set(definitions)
foreach(function IN LISTS functions)
  string(REPLACE "${library}_" "" name "${function}")
  string(SUBSTRING "${name}" 0 1 first)
  string(TOUPPER "${first}" first)
  string(SUBSTRING "${name}" 1 -1 others)
  string(APPEND declarations "extern const Function k${first}${others};\n")
  string(APPEND definitions "const Function k${first}${others} = {\"${name}\", \"${function}\"};\n")
endforeach()

file(WRITE "${CODE_DIR}/scripts.h" "// Generated from server/lua by server/cmake/BundleLua.cmake.
#ifndef FAIRGATE_SERVER_LUA_SCRIPTS_H_
#define FAIRGATE_SERVER_LUA_SCRIPTS_H_

#include <string_view>

namespace fairgate::lua {

struct Function {
  std::string_view name;      // admit, release, ...
  std::string_view function;  // what FCALL takes
};

extern const std::string_view kLibrary;  // what FUNCTION LOAD takes
${declarations}
}  // namespace fairgate::lua

#endif  // FAIRGATE_SERVER_LUA_SCRIPTS_H_
")
file(WRITE "${CODE_DIR}/scripts.cc" "// Generated from server/lua by server/cmake/BundleLua.cmake.
#include \"server/lua/scripts.h\"

namespace fairgate::lua {

const std::string_view kLibrary = R\"${delimiter}(${pieces})${delimiter}\";
${definitions}
}  // namespace fairgate::lua
")
