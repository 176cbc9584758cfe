#!/bin/sh
# email.send [address]: the job's arguments are on standard input, what is printed is the result, and the end is the outcome.
set -eu
address=$(tr -d '[]"')
case $address in *@*) ;; *) echo "$address is no address" >&2; exit 100 ;; esac
echo "{\"sent_to\": \"$address\"}"
