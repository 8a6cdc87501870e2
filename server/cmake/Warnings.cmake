# fairgate_options: what every hand-written target of this project links. Its include root is the repository, so that headers
# are named as "server/core/request.h".
add_library(fairgate_options INTERFACE)
add_library(Fairgate::options ALIAS fairgate_options)

target_compile_features(fairgate_options INTERFACE cxx_std_20)
target_compile_options(fairgate_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  $<$<BOOL:${FAIRGATE_WERROR}>:-Werror>
  # Protobuf and Abseil headers expand these in our translation units.
  -Wno-unused-parameter
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
)
target_include_directories(fairgate_options INTERFACE "${PROJECT_SOURCE_DIR}" "${FAIRGATE_GENERATED_DIR}")

# The version stands in project() alone; C++ reads it as fairgate::kVersion.
configure_file("${CMAKE_CURRENT_LIST_DIR}/version.h.in" "${FAIRGATE_GENERATED_DIR}/server/version.h" @ONLY)
