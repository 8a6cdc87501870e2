#!/usr/bin/env bash
# go, with everything that it downloads and caches below build/deps/go: go.sh ARGUMENTS. Fails without a Go that is new
# enough for go.mod; it is looked for on PATH, and where Debian and go.dev put it. Never fetches another toolchain.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
deps="$(cd "$here/../.." && pwd)/build/deps/go"
wanted="$(awk '$1 == "go" { print $2 }' "$here/go.mod")"

export GOTOOLCHAIN=local
for go in "$(command -v go || true)" /usr/local/go/bin/go /usr/lib/go-1.*/bin/go; do
  [ -x "$go" ] || continue
  version="$("$go" env GOVERSION)"
  [ "$(printf '%s\n' "$wanted" "${version#go}" | sort -V | head -n 1)" = "$wanted" ] || continue
  export GOMODCACHE="$deps/mod" GOCACHE="$deps/cache" GOPATH="$deps/path"
  export GOFLAGS="-modcacherw -buildvcs=false" # so that the cache can be removed like any folder
  exec "$go" "$@"
done
echo "there is no Go >= $wanted" >&2
exit 69
