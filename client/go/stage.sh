#!/usr/bin/env bash
# Makes a complete module of the sources and their stubs, as it is released: stage.sh FOLDER. Only what changed is written.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="$(mkdir -p "$1" && cd "$1" && pwd)"
aside="$(mktemp -d "$target.XXXXXX")"
trap 'rm -rf "$aside"' EXIT

cd "$here"
find . -type f \( -name '*.go' -o -name 'go.*' -o -name '*.md' -o -name LICENSE \) ! -name '*.sh' \
  ! -path './fairgatev1/*' ! -path './tools/*' ! -path './temporal/*' -exec cp --parents -t "$aside" {} +
"$here/generate.sh" "$aside"
rm -rf "$target"
mv "$aside" "$target"
