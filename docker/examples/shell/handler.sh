#!/bin/sh
# email.send [address]: standard output is the result, and the exit status is the outcome.
set -eu
address=$("$OJS_INIT" job arg 0) || exit 100
case $address in *@*) ;; *) echo "$address is no address" >&2; exit 100 ;; esac
echo "{\"sent_to\": \"$address\"}"
