#!/bin/sh
# Builds the packages of the clients into target/packages: docs/release.md says what they are. The same sources and tools
# give the same bytes in any folder.
# Usage: scripts/packages.sh
set -eu
cd "$(dirname "$0")/.."
. scripts/revision.sh
work=$out/packages-work
packages=$out/packages
tools=$out/tools

rm -rf "$packages" "$work"
mkdir -p "$packages" "$work/sources"

# What git has of each client, with the modes and the time that every tool takes over.
git ls-files -z clients | xargs -0 cp --parents --no-dereference -t "$work/sources"
sources=$work/sources/clients
chmod -R u=rwX,go=rX "$sources"
find "$sources" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

# pack FOLDER FORMAT NAME: writes FOLDER/NAME as a tar of that format, which no owner and no time of this machine is in.
pack() {
    tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        --format="$2" -cf - "$3" | gzip -9n
}

echo "packages: Python"
(cd "$sources/python" && PYTHONPATH=$tools/python python3 -m build --no-isolation --outdir "$packages" >"$work/python.log" 2>&1) ||
    { cat "$work/python.log" >&2 && exit 1; }
# setuptools writes the time of the build into the archive.
sdist=ojs_worker-$VERSION
tar -C "$work" -xzf "$packages/$sdist.tar.gz"
pack "$work" ustar "$sdist" >"$packages/$sdist.tar.gz"

echo "packages: Node.js"
npm pack --silent --ignore-scripts --pack-destination "$packages" "$sources/node" >/dev/null

echo "packages: Ruby"
# The gem has no homepage yet, and gem warns about that.
(cd "$sources/ruby" && gem build --silent ojs-worker.gemspec --output "$packages/ojs-worker-$VERSION.gem" 2>"$work/ruby.log") ||
    { cat "$work/ruby.log" >&2 && exit 1; }

echo "packages: Go"
module=$(sed -n 's/^module //p' clients/go/go.mod)
proxy=$work/goproxy/$module/@v
mkdir -p "$proxy" "$work/go/$(dirname "$module")"
cp -Rp "$sources/go" "$work/go/$module@v$VERSION"
# A folder with a go.mod is a module of its own.
find "$work/go/$module@v$VERSION" -mindepth 2 -name go.mod | while read -r nested; do rm -r "$(dirname "$nested")"; done
(cd "$work/go" && find "$module@v$VERSION" -type f | sort | zip -9 -X -q -@ "$proxy/v$VERSION.zip")
cp clients/go/go.mod "$proxy/v$VERSION.mod"
date --date="@$SOURCE_DATE_EPOCH" "+{\"Version\":\"v$VERSION\",\"Time\":\"%FT%TZ\"}" >"$proxy/v$VERSION.info"
echo "v$VERSION" >"$proxy/list"
pack "$work" gnu goproxy >"$packages/ojsworker-go-$VERSION.tar.gz"

echo "packages: Rust"
# In its place and not in the copy: the crate names the revision.
cargo package --quiet --locked --allow-dirty --no-verify --manifest-path clients/rust/Cargo.toml --target-dir "$work/rust"
cp "$work/rust/package/ojs-worker-$VERSION.crate" "$packages"

echo "packages: PHP"
(cd "$sources/php" && COMPOSER_HOME=$work/composer COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_DISABLE_NETWORK=1 \
    composer archive --quiet --no-interaction --no-plugins --format=zip --dir "$packages" --file "ojs-worker-php-$VERSION")

echo "packages: Java"
"$sources/java/build.sh" "$work/java"
cp "$work/java/ojs-worker.jar" "$packages/ojs-worker-$VERSION.jar"
cp clients/java/pom.xml "$packages/ojs-worker-$VERSION.pom"
chmod 644 "$packages/ojs-worker-$VERSION.pom"
javadoc -quiet -notimestamp -Xdoclint:all -Werror -encoding UTF-8 -cp "$work/java/lib/*" -d "$work/javadoc" \
    -sourcepath "$sources/java/src/main/java" dev.ojs.worker
for kind in sources javadoc; do
    [ $kind = sources ] && tree=$sources/java/src/main/java || tree=$work/javadoc
    mkdir -p "$tree/META-INF"
    cp LICENSE "$tree/META-INF/LICENSE"
    jar --create --file "$packages/ojs-worker-$VERSION-$kind.jar" --date "$(date --date="@$SOURCE_DATE_EPOCH" +%FT%TZ)" -C "$tree" .
done

{
    echo "version: $VERSION"
    echo "revision: $revision"
    echo "SOURCE_DATE_EPOCH: $SOURCE_DATE_EPOCH"
    python3 --version
    sed -n 's/ --hash.*//; s/==/: /p' packaging/python-tools.txt
    echo "npm: $(npm --version), node $(node --version)"
    echo "gem: $(gem --version), $(ruby --version)"
    cargo --version
    composer --version --no-ansi 2>/dev/null
    php --version | head -n 1
    javac --version
    zip -v | sed -n 's/^This is //p'
    gzip --version | head -n 1
    tar --version | head -n 1
} >"$packages/ojs-clients-$VERSION.buildinfo"

(cd "$packages" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
ls -l "$packages"
