"""The demo's worker as an SDK makes it: HTTP to OJS_URL, and not a word of ojs-init. One kind of its jobs never ends.

What it prints is what it saw; the demo shows that beside what the backend saw.
"""

import json
import os
import signal
import threading
import urllib.request
from typing import Any, Dict, Set

URL = os.environ["OJS_URL"] + "/ojs/v1"
CONCURRENCY = 3

# How often jobs are asked for when there are none, and heartbeats are sent, in seconds.
POLL_EVERY = 0.25
BEAT_EVERY = 0.5

stopping = threading.Event()
active: Set[str] = set()


def ask(path: str, body: Dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    if "OJS_AUTH_TOKEN" in os.environ:
        headers["Authorization"] = f"Bearer {os.environ['OJS_AUTH_TOKEN']}"
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def run(job: Dict[str, Any]) -> None:
    if job["type"] == "report.build":
        threading.Event().wait()
    seconds, to = job["args"]
    threading.Event().wait(seconds)
    ask("/workers/ack", {"job_id": job["id"], "result": {"sent_to": to}})
    active.discard(job["id"])


def beat() -> None:
    while True:
        ask("/workers/heartbeat", {"worker_id": "w", "active_jobs": sorted(active)})
        threading.Event().wait(BEAT_EVERY)


def stop(number: int, _: Any) -> None:
    print(f"{signal.Signals(number).name}: no more jobs; {len(active)} active", flush=True)
    stopping.set()


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=beat, daemon=True).start()
    print(f"asking {URL} for jobs", flush=True)
    while not stopping.is_set():
        room = CONCURRENCY - len(active)
        body = {"queues": ["default"], "count": room, "worker_id": "w"}
        jobs = ask("/workers/fetch", body)["jobs"] if room > 0 else []
        for job in jobs:
            active.add(job["id"])
            threading.Thread(target=run, args=(job,)).start()
        stopping.wait(0 if jobs else POLL_EVERY)


if __name__ == "__main__":
    main()
