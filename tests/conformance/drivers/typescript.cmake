# The TypeScript client's tests. Node may be missing: client/typescript says so.
add_subdirectory("${PROJECT_SOURCE_DIR}/client/typescript" "${PROJECT_BINARY_DIR}/client/typescript")
if(TARGET fairgate_client_typescript)
  fairgate_pytest(conformance_typescript test_typescript.py TIMEOUT 600 DEPENDS fairgate-server fairgate_client_typescript)

  add_test(NAME client_typescript COMMAND "${FAIRGATE_NODE}" --test ${FAIRGATE_TYPESCRIPT_TESTS})
  set_tests_properties(client_typescript PROPERTIES LABELS quick TIMEOUT 120)
  fairgate_pytest(client_typescript_package test_typescript_package.py LABELS long DEPENDS fairgate_client_typescript)
endif()
