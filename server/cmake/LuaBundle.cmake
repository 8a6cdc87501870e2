# fairgate_bundle_lua(OUT_SOURCES variable SCRIPT_DIR dir)
#
# Bundles the modules in dir into the Valkey function library <build>/lua/fairgate.lua and into the C++ of
# "server/lua/scripts.h", by BundleLua.cmake at build time.
function(fairgate_bundle_lua)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_SOURCES;SCRIPT_DIR" "")
  file(GLOB_RECURSE modules CONFIGURE_DEPENDS "${arg_SCRIPT_DIR}/*.lua")
  set(bundle_dir "${PROJECT_BINARY_DIR}/lua")
  set(code_dir "${FAIRGATE_GENERATED_DIR}/server/lua")
  set(bundler "${PROJECT_SOURCE_DIR}/server/cmake/BundleLua.cmake")
  add_custom_command(
    OUTPUT "${code_dir}/scripts.h" "${code_dir}/scripts.cc" "${bundle_dir}/fairgate.lua"
    COMMAND "${CMAKE_COMMAND}" "-DSCRIPT_DIR=${arg_SCRIPT_DIR}" "-DBUNDLE_DIR=${bundle_dir}" "-DCODE_DIR=${code_dir}"
      -P "${bundler}"
    DEPENDS "${bundler}" ${modules}
    COMMENT "Bundling the Lua library"
    VERBATIM)
  set(${arg_OUT_SOURCES} "${code_dir}/scripts.h" "${code_dir}/scripts.cc" PARENT_SCOPE)
endfunction()
