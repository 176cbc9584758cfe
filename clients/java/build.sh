#!/bin/sh
# build.sh [--tests] DIRECTORY: makes DIRECTORY/ojs-worker.jar, with javac and jar alone (JDK 17 or later).
# --tests also makes DIRECTORY/ojs-worker-tests.jar: tests, fixture worker, example, and the programs that measure.
# Without DIRECTORY the one that CLIENT_OUT names.
set -eu
tests=
if [ "${1:-}" = --tests ]; then tests=yes; shift; fi
out=${1:-${CLIENT_OUT:-}}
if [ -z "$out" ] || [ $# -gt 1 ]; then
    echo "usage: build.sh [--tests] DIRECTORY (where the jar goes; outside of the sources)" >&2
    exit 2
fi
for tool in javac jar; do
    command -v "$tool" >/dev/null || { echo "build.sh: no $tool: install a JDK (Debian: openjdk-17-jdk-headless)" >&2; exit 1; }
done
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
work=$(mktemp -d "$out/classes.XXXXXX")
trap 'rm -rf "$work"' EXIT

printf 'Automatic-Module-Name: dev.ojs.worker\nImplementation-Title: ojs-worker\nImplementation-Version: 0.2.0\nBundle-License: Apache-2.0\n' > "$work/manifest"
find "$here/src/main/java" -name '*.java' > "$work/sources"
javac -J-XX:TieredStopAtLevel=1 --release 17 -encoding UTF-8 -Xlint:all -Werror -d "$work/main" @"$work/sources"
mkdir "$work/main/META-INF"
cp "$here/LICENSE" "$work/main/META-INF/LICENSE"
jar --create --file "$work/ojs-worker.jar" --manifest "$work/manifest" -C "$work/main" .
mv "$work/ojs-worker.jar" "$out/ojs-worker.jar"

if [ -n "$tests" ]; then
    find "$here/src/test/java" "$here/examples" -name '*.java' > "$work/sources"
    javac -J-XX:TieredStopAtLevel=1 --release 17 -encoding UTF-8 -Xlint:all -Werror -cp "$work/main" -d "$work/tests" @"$work/sources"
    jar --create --file "$work/ojs-worker-tests.jar" -C "$work/tests" .
    mv "$work/ojs-worker-tests.jar" "$out/ojs-worker-tests.jar"
fi
