#!/bin/sh
# Writes a root file system to standard output, as a tar: an image's base made of what this machine has, where no registry
# can be reached.
# Usage: rootfs.sh python|node [PROGRAM...] | docker import - NAME     with the libraries of these programs as well
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
*)
    echo "rootfs.sh: what is '$what'?" >&2
    exit 2
    ;;
esac
# shellcheck disable=SC2046  # a list of files
[ $# = 0 ] || cp -L --parents $(libraries "$@") "$root"
tar -C "$root" -c .
