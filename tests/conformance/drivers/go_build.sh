#!/usr/bin/env bash
# Builds the Go client's driver: go_build.sh FOLDER PROGRAM. FOLDER becomes a workspace of the client, with its stubs, and
# of the driver.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
client="$(cd "$here/../../../client/go" && pwd)"
program="$(realpath -m "$2")"
mkdir -p "$1"
cd "$1"

"$client/stage.sh" fairgate
rm -rf conformance
cp -r "$here/go" conformance
printf 'go 1.23.0\n\nuse (\n\t./conformance\n\t./fairgate\n)\n' >go.work
"$client/go.sh" build -o "$program" ./conformance
