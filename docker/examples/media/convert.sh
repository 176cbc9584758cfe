#!/bin/sh
# video.convert [name, pieces]: a long job in pieces. It says how far it is, and where the next attempt shall go on; when it is to
# stop it finishes its piece, and gives the job back.
set -eu

pieces=$(printf %s "$OJS_JOB_ARGS" | tr -dc '0-9,' | tr ',' '\n' | tail -n 1)
first=$(printf %s "${OJS_JOB_CHECKPOINT:-}" | sed -n 's/.*"done": *\([0-9]*\).*/\1/p')
stopping=
trap 'stopping=yes' TERM

piece=${first:-0}
while [ "$piece" -lt "$pieces" ]; do
    sleep 0.2 # pretends to convert
    piece=$((piece + 1))
    echo "progress $(awk "BEGIN { print $piece / $pieces }") piece $piece of $pieces" >&3
    echo "checkpoint {\"done\": $piece}" >&3
    if [ -n "$stopping" ] && [ "$piece" -lt "$pieces" ]; then
        echo "stopped after piece $piece" >&2
        exit 75
    fi
done
echo "{\"pieces\": $pieces, \"begun_at\": ${first:-0}}"
