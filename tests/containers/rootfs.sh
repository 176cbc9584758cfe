#!/bin/sh
# Writes a root file system to standard output, as a tar: an image's base made of what this machine has, where no registry
# can be reached.
# Usage: rootfs.sh python|node|shell|rust [PROGRAM...] | docker import - NAME     with the libraries of these programs as well
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
    # shellcheck disable=SC2046  # a list of files
    cp -L --parents $(libraries "$@") "$root"
    cp -L --parents "$@" "$root"
}

case $what in
python)
    python=$(readlink -f /usr/bin/python3)
    library=/usr/lib/$(basename "$python")
    take "$python" /bin/sleep /bin/dash
    ln -s "$python" "$root/usr/bin/python3"
    ln -s dash "$root/bin/sh"
    # Without what only developers need, and without extensions that bring libraries of their own.
    tar -C / -c --exclude='*/test' --exclude='*/config-*' --exclude='*/ensurepip' --exclude='*/idlelib' \
        --exclude='*/lib2to3' --exclude='*/tkinter' --exclude='*/pydoc_data' "${library#/}" | tar -x -C "$root"
    ;;
node)
    take "$(readlink -f "$(command -v node)")"
    ln -s "$(readlink -f "$(command -v node)")" "$root/bin/node"
    ;;
shell)
    take /bin/dash /usr/bin/awk /usr/bin/sed /usr/bin/sleep /usr/bin/tail /usr/bin/tr
    ln -s dash "$root/bin/sh"
    ;;
rust)
    # The compilers, each file of their packages where it is here, and of the toolchain what building needs.
    packages="gcc libc6-dev musl-tools coreutils dash ca-certificates"
    # shellcheck disable=SC2046,SC2086  # lists of packages
    dpkg -L $(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances $packages | grep '^[a-z0-9]' | sort -u) 2>/dev/null | sort -u | grep -v '^/usr/share' |
        while read -r file; do
            # Not the links to directories: /lib and others are directories in the image.
            [ -d "$file" ] || ! [ -e "$file" ] || echo "$file"
        done >"$root/files"
    tar -C / -c -T "$root/files" 2>/dev/null | tar -x -C "$root"
    rm "$root/files"
    [ -e "$root/bin/sh" ] || ln -s dash "$root/bin/sh"
    # The name that Debian leaves to the alternatives.
    ln -s gcc "$root/usr/bin/cc"
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
# shellcheck disable=SC2046  # a list of files
[ $# = 0 ] || cp -L --parents $(libraries "$@") "$root"
tar -C "$root" -c .
