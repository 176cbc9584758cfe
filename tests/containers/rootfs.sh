#!/bin/sh
# Writes a root file system to standard output, as a tar: an image's base made of what this machine has, where no registry
# can be reached.
# Usage: rootfs.sh python|pip|node|ruby|php|go|java|shell|rust [PROGRAM...] | docker import - NAME
# With the libraries of these programs as well.
set -eu

what=$1
shift
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/tmp" "$root/bin" "$root/usr/bin" "$root/etc" "$root/lib" "$root/lib64" "$root/usr/lib"
chmod 1777 "$root/tmp"
chmod 755 "$root"

# libraries PROGRAM...: those that the loader needs for them, the loader included.
libraries() { ldd "$@" 2>/dev/null | grep -o '/[^ :)]*' | sort -u | grep '\.so'; }

# take PROGRAM...: copies programs with their libraries to where they are here.
take() {
    # A static program has no libraries.
    needed=$(libraries "$@" || true)
    # shellcheck disable=SC2086  # a list of files
    [ -z "$needed" ] || cp -L --parents $needed "$root"
    cp -L --parents "$@" "$root"
}

# packages PACKAGE...: copies each file of Debian's packages, and of those that they need, to where it is here.
packages() {
    # shellcheck disable=SC2046  # a list of packages
    dpkg -L $(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances "$@" | grep '^[a-z0-9]' | sort -u) 2>/dev/null | sort -u |
        grep -v '^/usr/share/\(doc\|info\|locale\|man\)/' |
        while read -r file; do
            # Not the links to directories at the top: /lib and others are directories in the image.
            case $file in
            /*/*) if [ -L "$file" ] || [ -f "$file" ]; then echo "$file"; fi ;;
            esac
        done >"$root/files"
    tar -C / -c -T "$root/files" 2>/dev/null | tar -x -C "$root"
    rm "$root/files"
    [ -e "$root/bin/sh" ] || ln -s dash "$root/bin/sh"
}

# alternative NAME...: links a name that Debian leaves to the alternatives.
alternative() {
    for name in "$@"; do ln -s "$(readlink -f "/usr/bin/$name")" "$root/usr/bin/$name"; done
}

# stand_in NAME: a command that has nothing to do here, for what it installs is there.
stand_in() {
    mkdir -p "$root/usr/local/bin"
    printf '#!/bin/sh\n' >"$root/usr/local/bin/$1"
    chmod 755 "$root/usr/local/bin/$1"
}

case $what in
python)
    python=$(readlink -f /usr/bin/python3)
    library=/usr/lib/$(basename "$python")
    take "$python" /bin/sleep /bin/dash
    ln -s "$python" "$root/usr/bin/python3"
    ln -s dash "$root/bin/sh"
    # One extension of Python has a library of its own that a test needs.
    set -- "$@" "$library"/lib-dynload/_ctypes.*.so
    # Without what only developers need.
    tar -C / -c --exclude='*/test' --exclude='*/config-*' --exclude='*/ensurepip' --exclude='*/idlelib' \
        --exclude='*/lib2to3' --exclude='*/tkinter' --exclude='*/pydoc_data' "${library#/}" | tar -x -C "$root"
    ;;
pip)
    packages python3 python3-pip python3-wheel coreutils dash
    # Debian's is older than the spelling of a licence that it asks for from 2027 on.
    python3 -m pip install --quiet --root-user-action=ignore 'setuptools>=77' \
        --target "$root/usr/local/lib/$(basename "$(readlink -f /usr/bin/python3)")/dist-packages"
    # As in an image of Python: it belongs to no distribution. What builds a package is there and is not fetched.
    rm "$root"/usr/lib/python3.*/EXTERNALLY-MANAGED
    printf '[install]\nno-build-isolation = no\n' >"$root/etc/pip.conf"
    ;;
ruby)
    packages ruby coreutils dash
    ;;
php)
    packages php-cli coreutils dash
    alternative php
    # Which of its extensions are on.
    cp -a --parents /etc/php "$root"
    # The extension is in Debian's PHP.
    stand_in docker-php-ext-install
    ;;
go)
    packages coreutils dash
    mkdir -p "$root/usr/local"
    cp -a "$("$(dirname "$0")/../../clients/go/go.sh" env GOROOT)" "$root/usr/local/go"
    ln -s ../local/go/bin/go "$root/usr/bin/go"
    ;;
java)
    packages openjdk-17-jdk-headless coreutils dash findutils sed libjackson2-core-java libjackson2-annotations-java \
        libjackson2-databind-java libslf4j-java
    alternative java javac jar javadoc
    ;;
node)
    take "$(readlink -f "$(command -v node)")"
    ln -s "$(readlink -f "$(command -v node)")" "$root/bin/node"
    ;;
shell)
    take /bin/dash /usr/bin/awk /usr/bin/chmod /usr/bin/sed /usr/bin/sleep /usr/bin/tail /usr/bin/tr
    ln -s dash "$root/bin/sh"
    ;;
rust)
    # The compilers, and of the toolchain what building needs.
    packages gcc libc6-dev musl-tools coreutils dash ca-certificates
    stand_in apk
    alternative cc
    cp -L --parents /etc/ssl/certs/ca-certificates.crt "$root"
    mkdir "$root/rust"
    sysroot=$(rustc --print sysroot)
    tar -C "$sysroot" -c bin/cargo bin/rustc --exclude='*/src' --exclude='lib/rustlib/wasm*' lib | tar -x -C "$root/rust"
    ;;
*)
    echo "rootfs.sh: what is '$what'?" >&2
    exit 2
    ;;
esac
# A static program needs none.
needed=$(libraries "$@" || true)
# shellcheck disable=SC2086  # a list of files
[ -z "$needed" ] || cp -L --parents --remove-destination $needed "$root"
tar -C "$root" -c .
