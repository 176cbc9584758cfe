#!/bin/sh
# Builds the files of a release into target/dist: docs/release.md says what they are. The same sources, compilers and tools give
# the same bytes in any folder.
# Usage: scripts/dist.sh ARCH...    (x86_64, aarch64)
set -eu
cd "$(dirname "$0")/.."
. scripts/revision.sh
. scripts/versions.sh
work=$out/dist-work
dist=$out/dist

rm -rf "$dist" "$work"
mkdir -p "$dist" "$work"

cargo run --locked --quiet --package ojs-packaging -- "$work/pages"

# Names of folders stay out of the binary; the flags of .cargo/config.toml stay in force beside these.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
source=$(rustc --print sysroot)/lib/rustlib/src/rust
commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
flags="\"--remap-path-prefix=$cargo_home=/cargo\", \"--remap-path-prefix=$source=/rustc/$commit\""
flags="$flags, \"--remap-path-prefix=$root=/ojs-init\", \"--remap-path-prefix=$out=/ojs-init/target\""
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
export CARGO_INCREMENTAL=0
export CFLAGS="-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$out=/ojs-init/target -ffile-prefix-map=$root=/ojs-init"


# Cargo hashes the path of the compiler's wrapper into every symbol. cargo-auditable names itself as the wrapper, by its whole path,
# and starts $CARGO: this one puts the bare name in its place.
printf '#!/bin/sh\nRUSTC_WORKSPACE_WRAPPER=cargo-auditable exec cargo "$@"\n' >"$work/cargo"
chmod +x "$work/cargo"

# build NAME FOLDER ARG...: the binary for $target and what describes it, in $work/NAME. FOLDER is where cargo builds.
build() {
    built=$1 folder=$2
    shift 2
    echo "dist: building $built"
    PATH="$out/tools/bin:$PATH" CARGO="$work/cargo" cargo-auditable auditable build --locked --release --package ojs-init --target "$target" \
        --target-dir "$out/$folder" --config "target.$target.rustflags=[$flags]" "$@"
    mkdir "$work/$built"
    cp "$out/$folder/$target/release/ojs-init" LICENSE "$work/$built"
    # Without the address of the crates that come from this folder: the tool writes one that no reader of package URLs accepts.
    "$out/tools/bin/auditable2cdx" "$work/$built/ojs-init" | sed 's/&download_url=redacted//g' >"$dist/$built.cdx.json"
    python3 packaging/notices.py "$dist/$built.cdx.json" "$target" >"$work/$built/NOTICES"
}

# archive NAME: $work/NAME as an archive.
archive() {
    tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$1" |
        gzip -9n >"$dist/$1.tar.gz"
}

for arch in "$@"; do
    target=$arch-unknown-linux-musl
    case $arch in
    x86_64) NFPM_ARCH=amd64 cc=musl-gcc ;;
    aarch64)
        NFPM_ARCH=arm64 cc=aarch64-linux-gnu-gcc
        export CC_aarch64_unknown_linux_musl=$cc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=$cc
        ;;
    *)
        echo "dist: unknown architecture $arch; accepted are x86_64 and aarch64" >&2
        exit 1
        ;;
    esac
    export NFPM_ARCH
    name=ojs-init-$VERSION-linux-$arch
    tree=$work/$name
    build "$name" dist-build
    cp -R "$work/pages/man" "$work/pages/completions" "$tree"
    cp packaging/seccomp/ojs-init.json "$tree/seccomp.json"
    archive "$name"
    # The plain init alone. Its command line is shorter than the one that the pages describe.
    build "$name-init" dist-build-init --no-default-features
    archive "$name-init"

    gzip -9n "$tree"/man/*.1
    for packager in deb rpm apk; do
        (cd "$tree" && "$out/tools/nfpm/bin/nfpm" package --config "$root/packaging/nfpm.yaml" --packager $packager --target "$dist")
    done
    "$cc" --version | sed -n "s/^/C compiler for $arch: /p;q" >>"$work/compilers"
done

{
    echo "version: $VERSION"
    echo "revision: $revision"
    echo "SOURCE_DATE_EPOCH: $SOURCE_DATE_EPOCH"
    rustc --version --verbose | sed 's/^/rustc: /'
    cat "$work/compilers"
    echo "cargo-auditable: $cargo_auditable"
    echo "auditable2cdx: $auditable2cdx"
    echo "nfpm: $nfpm"
    gzip --version | sed -n 's/^/gzip: /p;q'
    tar --version | sed -n 's/^/tar: /p;q'
} >"$dist/ojs-init-$VERSION.buildinfo"

python3 packaging/image.py "$work" "$dist"

(cd "$dist" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
ls -l "$dist"
