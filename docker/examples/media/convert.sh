#!/bin/sh
# video.convert [name, pieces]: a long job in pieces. It says how far it is, and where the next attempt shall go on; when it is to
# stop it gives the job back.
set -eu

pieces=$("$OJS_INIT" job arg 1) || exit 100
first=$(printf %s "${OJS_JOB_CHECKPOINT:-}" | sed -n 's/.*"done": *\([0-9]*\).*/\1/p')
stopping=
trap 'stopping=yes' TERM

piece=${first:-0}
while [ "$piece" -lt "$pieces" ]; do
    # Pretends to convert. SIGTERM is for each process of the job: a piece that is broken off is not done.
    sleep 0.2 || [ -n "$stopping" ] || exit 1
    if [ -n "$stopping" ]; then
        echo "stopped after piece $piece" >&2
        exit 75
    fi
    piece=$((piece + 1))
    echo "progress $(awk "BEGIN { print $piece / $pieces }") piece $piece of $pieces" >&3
    echo "checkpoint {\"done\": $piece}" >&3
done
echo "{\"pieces\": $pieces, \"begun_at\": ${first:-0}}"
