# The Java client's tests: its driver and its own. Without a JDK and Maven there are none, which CI does not accept.
set(java_client "${PROJECT_SOURCE_DIR}/client/java")
execute_process(COMMAND "${java_client}/mvn.sh" --version OUTPUT_VARIABLE java_version ERROR_VARIABLE java_missing
  RESULT_VARIABLE java_failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(java_failed)
  if(NOT "$ENV{CI}" STREQUAL "")
    message(FATAL_ERROR "The Java client cannot be tested: ${java_missing}. deploy/setup/install.sh test looks for one.")
  endif()
  message(WARNING "The Java client is NOT TESTED: ${java_missing}. deploy/setup/install.sh test looks for one.")
  return()
endif()
message(STATUS "Java client: ${java_version}")

file(GLOB_RECURSE java_sources CONFIGURE_DEPENDS "${java_client}/src/*" "${CMAKE_CURRENT_LIST_DIR}/java/*.java")
file(GLOB java_protos CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/proto/fairgate/v1/*.proto")
set(java_driver "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/fairgate_conformance_java")
add_custom_command(OUTPUT "${java_driver}"
  COMMAND "${CMAKE_CURRENT_LIST_DIR}/java_build.sh" "${PROJECT_BINARY_DIR}/client-java" "${java_driver}"
  DEPENDS "${CMAKE_CURRENT_LIST_DIR}/java_build.sh" "${java_client}/mvn.sh" "${java_client}/pom.xml" "${java_client}/LICENSE"
    ${java_sources} ${java_protos}
  COMMENT "Building the Java client" VERBATIM)
add_custom_target(fairgate_conformance_java ALL DEPENDS "${java_driver}")

fairgate_pytest(conformance_java test_java.py TIMEOUT 600 DEPENDS fairgate-server fairgate_conformance_java)
fairgate_pytest(client_java test_java_client.py TIMEOUT 300 DEPENDS fairgate_conformance_java)
fairgate_pytest(client_java_package test_java_package.py LABELS long DEPENDS fairgate-server fairgate_conformance_java)
