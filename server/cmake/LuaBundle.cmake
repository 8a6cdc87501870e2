# fairgate_bundle_lua(OUT_SOURCES variable SCRIPT_DIR dir)
#
# Bundles the entry scripts (dir/*.lua) with what they include into <build>/lua/*.lua and into the C++ of
# "server/lua/scripts.h", by BundleLua.cmake at build time.
function(fairgate_bundle_lua)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_SOURCES;SCRIPT_DIR" "")
  file(GLOB entries CONFIGURE_DEPENDS "${arg_SCRIPT_DIR}/*.lua")
  file(GLOB_RECURSE parts CONFIGURE_DEPENDS "${arg_SCRIPT_DIR}/lib/*.lua")
  set(bundle_dir "${PROJECT_BINARY_DIR}/lua")
  set(code_dir "${FAIRGATE_GENERATED_DIR}/server/lua")
  set(bundler "${PROJECT_SOURCE_DIR}/server/cmake/BundleLua.cmake")

  set(bundles)
  foreach(entry IN LISTS entries)
    get_filename_component(name "${entry}" NAME)
    list(APPEND bundles "${bundle_dir}/${name}")
  endforeach()
  add_custom_command(
    OUTPUT "${code_dir}/scripts.h" "${code_dir}/scripts.cc" ${bundles}
    COMMAND "${CMAKE_COMMAND}" "-DSCRIPT_DIR=${arg_SCRIPT_DIR}" "-DBUNDLE_DIR=${bundle_dir}" "-DCODE_DIR=${code_dir}"
      "-DENTRIES=${entries}" -P "${bundler}"
    DEPENDS "${bundler}" ${entries} ${parts}
    COMMENT "Bundling Lua scripts"
    VERBATIM)
  set(${arg_OUT_SOURCES} "${code_dir}/scripts.h" "${code_dir}/scripts.cc" PARENT_SCOPE)
endfunction()
