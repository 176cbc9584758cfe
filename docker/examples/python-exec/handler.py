"""report.build [name, rows]: Python with nothing but its standard library, run once for each job."""

import json
import os
import signal
import sys
import time

job = json.load(sys.stdin)
say = open(int(os.environ["OJS_JOB_FD"]), "w", buffering=1, closefd=False)


def stop(*_: object) -> None:
    """Nothing is lost: the next attempt goes on where the checkpoint is."""
    sys.exit(75)


signal.signal(signal.SIGTERM, stop)
name, rows = [*job["args"], 10][:2]
if not isinstance(rows, int):
    print(f"{rows!r} is no number of rows", file=sys.stderr)
    sys.exit(100)
row = json.loads(os.environ.get("OJS_JOB_CHECKPOINT", "{}")).get("row", 0)
while row < rows:
    time.sleep(0.05)  # pretends to build
    row += 1
    print(f"progress {row / rows} {row} of {rows} rows", file=say)
    print("checkpoint", json.dumps({"row": row}), file=say)
print(json.dumps({"report": name, "rows": rows}))
