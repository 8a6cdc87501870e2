#!/usr/bin/env bash
# Builds the Go worker: temporal_go_build.sh FOLDER PROGRAM. FOLDER becomes a workspace of the client, the adapter and the
# worker; the adapter's own tests and examples can be run there.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
client="$(cd "$here/../../client/go" && pwd)"
program="$(realpath -m "$2")"
mkdir -p "$1"
cd "$1"

"$client/stage.sh" fairgate
rm -rf temporal worker
cp -r "$client/temporal" temporal
cp -r "$here/temporal_go" worker
cat >go.work <<'WORK'
go 1.23.0

use (
	./fairgate
	./temporal
	./worker
)

// Nothing is looked for elsewhere.
replace (
	fairgate.io/go/fairgate v0.1.0 => ./fairgate
	fairgate.io/go/fairgate/temporal v0.1.0 => ./temporal
)
WORK
"$client/go.sh" build -o "$program" ./worker
