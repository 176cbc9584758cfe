#!/bin/sh
# Checks that a release's tag is signed with one of the keys of a file, and prints its message, which is SHA256SUMS.
# The file is as in ssh-keygen(1), ALLOWED SIGNERS. Tags are signed with: git -c gpg.format=ssh tag --sign --file SHA256SUMS v0.1.0
# Usage: scripts/release-tag.sh TAG ALLOWED_SIGNERS
set -eu

if [ $# != 2 ]; then
    echo "usage: release-tag.sh TAG ALLOWED_SIGNERS" >&2
    exit 2
fi
tag=$1 signers=$2

refuse() {
    echo "release-tag: $tag: $1" >&2
    exit 1
}

[ -s "$signers" ] || refuse "$signers is missing or empty: it has to have the keys that may sign"
[ "$(git cat-file -t "refs/tags/$tag" 2>/dev/null)" = tag ] || refuse "is no annotated tag, so it has no signature"
# The name in the signed text: else an old release could be shown under a new name.
git cat-file tag "refs/tags/$tag" | sed '/^$/q' | grep -qxF "tag $tag" || refuse "was signed under another name"
# A key of GnuPG or X.509 says nothing about the file of signers.
git cat-file tag "refs/tags/$tag" | grep -qx -e '-----BEGIN SSH SIGNATURE-----' ||
    refuse "has no SSH signature: sign it with gpg.format=ssh"
git -c gpg.ssh.allowedSignersFile="$signers" -c gpg.minTrustLevel=fully verify-tag "refs/tags/$tag" >&2 ||
    refuse "the signature is not one of a key in $signers"

sums=$(git cat-file tag "refs/tags/$tag" | sed -e '1,/^$/d' -e '/^-----BEGIN SSH SIGNATURE-----$/,$d')
[ -n "$sums" ] || refuse "its message is empty; it has to be SHA256SUMS"
# 64 digits, two spaces, a name without a folder.
if printf '%s\n' "$sums" | grep -vqE '^[0-9a-f]{64}  [A-Za-z0-9][A-Za-z0-9._+~-]*$'; then
    refuse "its message has a line that is none of SHA256SUMS"
fi
printf '%s\n' "$sums"
