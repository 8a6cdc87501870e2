#!/usr/bin/env bash
# Builds the Java client and its driver: java_build.sh FOLDER PROGRAM. FOLDER gets what Maven builds (target/), the client with
# all that it needs (lib/), and the driver; PROGRAM starts the driver.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
client="$(cd "$here/../../../client/java" && pwd)"
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
program="$(realpath -m "$2")"

rm -rf "$folder/lib" "$folder/driver"
"$client/mvn.sh" "-Dfairgate.target=$folder/target" -DskipTests package \
  dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$folder/lib" >"$folder/maven.log" ||
  { cat "$folder/maven.log"; exit 1; }
cp "$folder"/target/fairgate-client-*.jar "$folder/lib/"
"${JAVA_HOME:+$JAVA_HOME/bin/}javac" --release 17 -Xlint:all,-serial -Werror -cp "$folder/lib/*" -d "$folder/driver" "$here"/java/*.java
cat >"$program" <<END
#!/bin/sh
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xshare:auto -XX:+UseSerialGC -cp "$folder/driver:$folder/lib/*" Driver
END
chmod +x "$program"
