#!/bin/sh
# The demo's handler in mode exec, a process for each job: email.send [seconds, address] pretends to send mail, and
# report.build never ends.
set -eu
case $OJS_JOB_TYPE in
    report.build)
        trap 'echo "told to stop, and goes on" >&2' TERM
        while :; do sleep 1; done
        ;;
esac
seconds=$("$OJS_INIT" job arg 0) || exit 100
address=$("$OJS_INIT" job arg 1) || exit 100
sleep "$seconds"
echo "sent to $address" >&2
echo "{\"sent_to\": \"$address\"}"
