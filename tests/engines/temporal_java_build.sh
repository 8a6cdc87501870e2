#!/usr/bin/env bash
# Builds the Java worker: temporal_java_build.sh CLIENT FOLDER PROGRAM. CLIENT is what the client's tests have built; FOLDER
# gets the classes, and PROGRAM starts them.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
lib="$(cd "$1/lib" && pwd)"
mkdir -p "$2"
folder="$(cd "$2" && pwd)"
java="${JAVA_HOME:+$JAVA_HOME/bin/}java"

"${java}c" --release 17 -parameters -Xlint:all,-classfile,-processing,-serial -Werror -cp "$lib/*" -d "$folder" \
  "$here"/temporal_java/*.java
cat >"$3" <<END
#!/bin/sh
exec "$java" -Xshare:auto -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$folder:$lib/*" TemporalWorker "\$@"
END
chmod +x "$3"
