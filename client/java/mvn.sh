#!/usr/bin/env bash
# mvn for this package, with everything that it downloads below build/deps/maven: mvn.sh ARGUMENTS. Fails without a JDK of 17
# or later, or without Maven. What succeeded once with this pom and these goals is done offline from then on.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
deps="$(cd "$here/../.." && pwd)/build/deps/maven"

javac="${JAVA_HOME:+$JAVA_HOME/bin/}javac"
version="$("$javac" -version 2>/dev/null | sed -n 's/^javac \([0-9]*\).*/\1/p')" || true
[ "${version:-0}" -ge 17 ] || { echo "there is no JDK >= 17" >&2; exit 69; }
command -v mvn >/dev/null || { echo "there is no Maven" >&2; exit 69; }
[ "$*" != --version ] || { echo "JDK $version"; exit 0; }

goals=()
for argument in "$@"; do case "$argument" in -D*) ;; *) goals+=("$argument") ;; esac; done
mkdir -p "$deps/done"
done="$deps/done/$({ cat "$here/pom.xml"; echo "${goals[@]}"; } | sha256sum | cut -c1-16)"
mvn=(mvn --batch-mode --quiet -Dstyle.color=never "-Dmaven.repo.local=$deps/repository" -f "$here/pom.xml")
export MAVEN_OPTS="${MAVEN_OPTS:--XX:+UseSerialGC -XX:TieredStopAtLevel=1}"
[ ! -e "$done" ] || exec "${mvn[@]}" --offline "$@"
(
  flock 9 # Maven's repository is for one writer
  "${mvn[@]}" "$@" 9>&-
) 9>"$deps/lock"
touch "$done"
