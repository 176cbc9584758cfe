#!/bin/sh
# Tests the trials: builds each of tests/trials/broken/*.patch, plays trials against it, and fails when one is not caught by
# the promise that its first line names. The sources stay as they are: a copy of them is patched.
# Usage: scripts/broken-builds.sh [NAME...]   (COUNT=500 trials each, fewer when the promise was broken in three; SEED=1;
# AT_ONCE=16)
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
target=x86_64-unknown-linux-musl
CARGO_TARGET_DIR=$(mkdir -p "${CARGO_TARGET_DIR:-$root/target}" && cd "${CARGO_TARGET_DIR:-$root/target}" && pwd)
export CARGO_TARGET_DIR
binary=$CARGO_TARGET_DIR/$target/release/ojs-init

# Always the same place: what cargo keeps of a build it keeps by path.
work=${TMPDIR:-/tmp}/ojs-init-broken-builds-$(id -u)
if ! mkdir "$work" 2>/dev/null; then
    echo "broken-builds: $work is there: another run goes on, or was killed; if none does, remove it" >&2
    exit 1
fi
# The same name as that of the good binary: nobody shall take one for the other.
clean() {
    rm -f "$binary"
    if [ -e "$work/good" ]; then mv "$work/good" "$binary"; fi
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ -e "$binary" ]; then cp -p "$binary" "$work/good"; fi

mkdir "$work/tree"
# What git tracks and what is new; without what was removed and is not committed yet.
(cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cf - -T -) |
    tar -xmf - -C "$work/tree"
# A repository further up would make git leave out what is not in it.
export GIT_CEILING_DIRECTORIES="${work%/*}"

names=$*
if [ -z "$names" ]; then
    names=$(cd "$root/tests/trials/broken" && for patch in *.patch; do echo "${patch%.patch}"; done)
fi
# The size of a binary that lives for one run of trials does not matter. Without link-time optimisation it is built in a third
# of the time.
quick="--config profile.release.lto=false --config profile.release.codegen-units=16 --config profile.release.opt-level=1"
missed=0
for name in $names; do
    patch=$root/tests/trials/broken/$name.patch
    (cd "$work/tree" && git apply "$patch")
    # shellcheck disable=SC2086  # several words
    (cd "$work/tree" && cargo build --quiet --locked --release $quick --package ojs-init --target $target 2>"$work/build") || {
        cat "$work/build" >&2
        exit 1
    }
    cp "$binary" "$work/broken"
    (cd "$work/tree" && git apply -R "$patch")
    status=0
    gateway=""
    # What only mode gateway has shows in its trials.
    case $name in gateway_*) gateway=--gateway ;; esac
    head -n 1 "$patch" | grep -o '"[^"]*"' >"$work/promises"
    set --
    while IFS= read -r promise; do
        promise=${promise#\"}
        set -- "$@" --until "${promise%\"}"
    done <"$work/promises"
    # Of some, only trials of one kind show it: there are enough of them in six times as many.
    count=${COUNT:-500}
    like=$(sed -n '2s/^It shows in trials with: //p' "$patch")
    if [ -n "$like" ]; then
        set -- "$@" --like "$like"
        count=$((count * 6))
    fi
    # shellcheck disable=SC2086  # a flag or nothing
    (cd "$root" && BINARY_UNDER_TEST=$work/broken cargo test --quiet --locked --test trials -- $gateway "$@" \
        --count "$count" --seed "${SEED:-1}" --at-once "${AT_ONCE:-16}" --keep "$work/kept") \
        >"$work/out" 2>"$work/err" || status=$?
    played=$(sed -n 's/^\([0-9]* trials\), [0-9]* with a broken promise$/\1/p' "$work/out")
    if [ -z "$played" ]; then
        echo "broken-builds: $name: the trials did not come to their end:" >&2
        tail -n 40 "$work/out" "$work/err" >&2
        exit 1
    fi
    caught=$(sed -n 's/^BROKEN in \([0-9]*\) trials: \(.*\)$/"\2" \1 times/p' "$work/out" | paste -s -d ';' - | sed 's/;/; /g')
    verdict="NOT CAUGHT as it must be"
    if [ "$status" != 0 ] && printf '%s' "$caught" | grep -qF -f "$work/promises"; then
        verdict="caught"
    else
        missed=1
    fi
    echo "$name: $verdict: ${caught:-no promise broken} in $played"
done
exit $missed
