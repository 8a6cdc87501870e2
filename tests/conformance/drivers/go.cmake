# The Go client's tests: its driver and its own. Without a Go that is new enough there are none, which CI does not accept.
set(go_client "${PROJECT_SOURCE_DIR}/client/go")
execute_process(COMMAND "${go_client}/go.sh" version OUTPUT_VARIABLE go_version ERROR_VARIABLE go_missing
  RESULT_VARIABLE go_failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(go_failed)
  if(NOT "$ENV{CI}" STREQUAL "")
    message(FATAL_ERROR "The Go client cannot be tested: ${go_missing}. deploy/setup/install.sh test looks for one.")
  endif()
  message(WARNING "The Go client is NOT TESTED: ${go_missing}. deploy/setup/install.sh test looks for one.")
  return()
endif()
message(STATUS "Go client: ${go_version}")

file(GLOB_RECURSE go_sources CONFIGURE_DEPENDS
  "${go_client}/*.go" "${go_client}/*.sh" "${go_client}/go.*" "${go_client}/*.md" "${CMAKE_CURRENT_LIST_DIR}/go/*")
list(FILTER go_sources EXCLUDE REGEX "/fairgatev1/")
file(GLOB go_protos CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/proto/fairgate/v1/*.proto")
set(go_driver "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/fairgate_conformance_go")
add_custom_command(OUTPUT "${go_driver}"
  COMMAND "${CMAKE_CURRENT_LIST_DIR}/go_build.sh" "${PROJECT_BINARY_DIR}/client-go" "${go_driver}"
  DEPENDS "${CMAKE_CURRENT_LIST_DIR}/go_build.sh" ${go_sources} ${go_protos}
  COMMENT "Building the Go client" VERBATIM)
add_custom_target(fairgate_conformance_go ALL DEPENDS "${go_driver}")

fairgate_pytest(conformance_go test_go.py TIMEOUT 600 DEPENDS fairgate-server fairgate_conformance_go)
fairgate_pytest(client_go test_go_client.py TIMEOUT 300 DEPENDS fairgate_conformance_go)
fairgate_pytest(client_go_package test_go_package.py LABELS long DEPENDS fairgate-server fairgate_conformance_go)
