# fairgate_generate_protos(OUT_SOURCES variable IMPORT_DIR dir [GRPC] PROTOS relative/path.proto...)
#
# Generates C++ for PROTOS, which are named relative to IMPORT_DIR, into the generated folder: messages (*.pb.*), or with GRPC
# the service stubs (*.grpc.pb.*), and lists the sources in the variable.
function(fairgate_generate_protos)
  cmake_parse_arguments(PARSE_ARGV 0 arg "GRPC" "OUT_SOURCES;IMPORT_DIR" "PROTOS")
  file(MAKE_DIRECTORY "${FAIRGATE_GENERATED_DIR}")
  if(arg_GRPC)
    set(suffix .grpc.pb)
    set(output_option "--grpc_out=generate_mock_code=true:${FAIRGATE_GENERATED_DIR}"
      "--plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>")
  else()
    set(suffix .pb)
    set(output_option "--cpp_out=${FAIRGATE_GENERATED_DIR}")
  endif()

  # Any of the protos may import any other one.
  list(TRANSFORM arg_PROTOS PREPEND "${arg_IMPORT_DIR}/" OUTPUT_VARIABLE all_protos)
  set(sources)
  foreach(proto IN LISTS arg_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    set(base "${FAIRGATE_GENERATED_DIR}/${stem}${suffix}")
    add_custom_command(
      OUTPUT "${base}.cc" "${base}.h"
      COMMAND protobuf::protoc ${output_option}
        -I "${arg_IMPORT_DIR}" -I "${FAIRGATE_DEPS_DIR}/googleapis" "${arg_IMPORT_DIR}/${proto}"
      DEPENDS ${all_protos} protobuf::protoc
      COMMENT "Generating ${stem}${suffix}"
      VERBATIM)
    list(APPEND sources "${base}.cc" "${base}.h")
  endforeach()
  set(${arg_OUT_SOURCES} ${sources} PARENT_SCOPE)
endfunction()

# A library of generated code: no warnings and no checkers, and its headers are system headers to whoever links it.
function(fairgate_generated_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_library(${name} STATIC ${arg_SOURCES})
  target_compile_options(${name} PRIVATE -w)
  target_include_directories(${name} SYSTEM PUBLIC "${FAIRGATE_GENERATED_DIR}")
  target_link_libraries(${name} PUBLIC ${arg_LIBS})
  set_target_properties(${name} PROPERTIES CXX_CLANG_TIDY "")
endfunction()
