#!/bin/sh
# build.sh [--tests] DIRECTORY: makes DIRECTORY/ojs-worker.jar with javac and jar (JDK 17 or later).
# --tests also makes DIRECTORY/ojs-worker-tests.jar: tests, fixture worker, example, benchmarks.
# Without DIRECTORY it builds to $CLIENT_OUT. DIRECTORY/lib gets the jars of Jackson, SLF4J and JUnit,
# as Debian's packages have them.
set -eu
tests=
if [ "${1:-}" = --tests ]; then tests=yes; shift; fi
out=${1:-${CLIENT_OUT:-}}
if [ -z "$out" ] || [ $# -gt 1 ]; then
    echo "usage: build.sh [--tests] DIRECTORY (outside of the sources)" >&2
    exit 2
fi
jars=${JAVA_JARS:-/usr/share/java}
needed="jackson-core jackson-annotations jackson-databind slf4j-api slf4j-jdk14"
[ -z "$tests" ] || needed="$needed junit-platform-console-standalone"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out/lib"
out=$(cd "$out" && pwd)
for jar in $needed; do
    [ -e "$jars/$jar.jar" ] || {
        echo "build.sh: no $jars/$jar.jar: apt-get install libjackson2-databind-java libslf4j-java junit5" >&2
        exit 1
    }
    cp -L "$jars/$jar.jar" "$out/lib/"
done
work=$(mktemp -d "$out/classes.XXXXXX")
trap 'rm -rf "$work"' EXIT

compile() { # compile CLASSPATH DIRECTORY SOURCES...
    classpath=$1 to=$2
    shift 2
    find "$@" -name '*.java' > "$work/sources"
    javac -J-XX:TieredStopAtLevel=1 --release 17 -encoding UTF-8 -Xlint:all -Werror -cp "$classpath" -d "$to" @"$work/sources"
}

compile "$out/lib/*" "$work/main" "$here/src/main/java"
mkdir "$work/main/META-INF"
cp "$here/LICENSE" "$work/main/META-INF/LICENSE"
version=$(sed -n 's:^  <version>\(.*\)</version>:\1:p' "$here/pom.xml")
printf 'Automatic-Module-Name: dev.ojs.worker\nImplementation-Title: ojs-worker\nImplementation-Version: %s\nBundle-License: Apache-2.0\n' \
    "$version" > "$work/manifest"
# SOURCE_DATE_EPOCH, in seconds: the same sources give the same bytes.
jar --create --file "$work/ojs-worker.jar" --manifest "$work/manifest" \
    ${SOURCE_DATE_EPOCH:+--date "$(date --utc --date "@$SOURCE_DATE_EPOCH" +%FT%TZ)"} -C "$work/main" .
mv "$work/ojs-worker.jar" "$out/ojs-worker.jar"

if [ -n "$tests" ]; then
    compile "$out/lib/*:$out/ojs-worker.jar" "$work/tests" "$here/src/test/java" "$here/examples"
    jar --create --file "$work/ojs-worker-tests.jar" -C "$work/tests" .
    mv "$work/ojs-worker-tests.jar" "$out/ojs-worker-tests.jar"
fi
