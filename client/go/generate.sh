#!/usr/bin/env bash
# Writes the contract's Go stubs: generate.sh FOLDER makes FOLDER/fairgatev1. `go generate` calls it for the sources' own
# folder. Needs protoc and go; the generators are those that tools/go.mod pins, built once into build/deps/go/bin.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
target="$(mkdir -p "${1:-$here}" && cd "${1:-$here}" && pwd)"
package=fairgate.io/go/fairgate/fairgatev1

pins="$(cat "$here/tools/go.mod" "$here/tools/go.sum" | sha256sum | cut -c1-16)"
bin="$root/build/deps/go/bin/$pins"
if [ ! -e "$bin/.done" ]; then
  mkdir -p "$bin"
  GOWORK=off GOBIN="$bin" "$here/go.sh" -C "$here/tools" install \
    google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
  touch "$bin/.done"
fi

mapping=()
cd "$root/proto"
for proto in fairgate/v1/*.proto; do
  mapping+=("--go_opt=M$proto=$package" "--go-grpc_opt=M$proto=$package")
done
protoc -I. "--plugin=$bin/protoc-gen-go" "--plugin=$bin/protoc-gen-go-grpc" "--go_out=$target" "--go-grpc_out=$target" \
  --go_opt=module=fairgate.io/go/fairgate --go-grpc_opt=module=fairgate.io/go/fairgate "${mapping[@]}" fairgate/v1/*.proto
