# shellcheck shell=sh disable=SC2034  # dist.sh and packages.sh read these values
# What the files of a release depend on beside the sources: the version, the revision and the time. Run in the root of the project.
export LC_ALL=C TZ=UTC0
umask 022
root=$(pwd -P)
out=${CARGO_TARGET_DIR:-target}
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) || {
        echo "${0##*/}: set SOURCE_DATE_EPOCH: this folder is no git repository, so the time of its last commit is not known" >&2
        exit 1
    }
fi
export SOURCE_DATE_EPOCH
VERSION=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
export VERSION
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || revision=$revision-modified
