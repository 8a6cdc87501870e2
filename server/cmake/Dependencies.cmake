# Every library from outside, found in one place. deploy/setup/install.sh provides them.
list(APPEND CMAKE_PREFIX_PATH "${FAIRGATE_DEPS_DIR}/hiredis")
set(THREADS_PREFER_PTHREAD_FLAG ON)

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED) # before gRPC, which looks for it too
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
pkg_check_modules(libuv REQUIRED IMPORTED_TARGET libuv)

# Names that do not change with the version or the packager.
add_library(fairgate_yaml INTERFACE)
add_library(Fairgate::yaml ALIAS fairgate_yaml)
if(TARGET yaml-cpp::yaml-cpp)
  target_link_libraries(fairgate_yaml INTERFACE yaml-cpp::yaml-cpp)
else()
  target_link_libraries(fairgate_yaml INTERFACE yaml-cpp)
endif()

add_library(fairgate_libuv INTERFACE)
add_library(Fairgate::libuv ALIAS fairgate_libuv)
target_link_libraries(fairgate_libuv INTERFACE PkgConfig::libuv)

find_path(MSGPACK_CXX_INCLUDE_DIR msgpack.hpp REQUIRED)
mark_as_advanced(MSGPACK_CXX_INCLUDE_DIR)
add_library(fairgate_msgpack INTERFACE)
add_library(Fairgate::msgpack ALIAS fairgate_msgpack)
target_include_directories(fairgate_msgpack SYSTEM INTERFACE "${MSGPACK_CXX_INCLUDE_DIR}")
target_compile_definitions(fairgate_msgpack INTERFACE MSGPACK_NO_BOOST)

# hiredis with TLS, static from build/deps or the distribution's if that is new enough.
add_library(fairgate_hiredis INTERFACE)
add_library(Fairgate::hiredis ALIAS fairgate_hiredis)
find_package(hiredis 1.2 CONFIG QUIET PATHS "${FAIRGATE_DEPS_DIR}/hiredis" NO_DEFAULT_PATH)
find_package(hiredis_ssl CONFIG QUIET PATHS "${FAIRGATE_DEPS_DIR}/hiredis" NO_DEFAULT_PATH)
if(hiredis_FOUND AND hiredis_ssl_FOUND)
  target_link_libraries(fairgate_hiredis INTERFACE hiredis::hiredis_ssl hiredis::hiredis OpenSSL::SSL)
else()
  pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis>=1.2 hiredis_ssl>=1.2)
  target_link_libraries(fairgate_hiredis INTERFACE PkgConfig::hiredis OpenSSL::SSL)
endif()
