"""A worker as an SDK makes it: it speaks HTTP to OJS_URL and knows nothing of ojs-init. email.send [address, seconds]."""

import json
import os
import signal
import threading
import time
import urllib.request

URL = os.environ["OJS_URL"] + "/ojs/v1"
TOKEN = os.environ.get("OJS_AUTH_TOKEN")
WORKER = f"worker-{os.getpid()}"
CONCURRENCY = 4

stopping = threading.Event()
active: set[str] = set()


def ask(path: str, body: dict) -> dict:
    headers = {"Content-Type": "application/json"}
    if TOKEN:
        headers["Authorization"] = f"Bearer {TOKEN}"
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


def run(job: dict) -> None:
    try:
        address, seconds = [*job["args"], 0.1][:2]
        time.sleep(seconds)  # pretends to send
        ask("/workers/ack", {"job_id": job["id"], "result": {"sent_to": address}})
    except Exception as error:
        ask("/workers/nack", {"job_id": job["id"], "error": {"code": "handler_error", "message": str(error)}})
    finally:
        active.discard(job["id"])


def beat() -> None:
    while not stopping.wait(5):
        try:
            ask("/workers/heartbeat", {"worker_id": WORKER, "active_jobs": sorted(active)})
        except OSError as error:
            print(f"no heartbeat: {error}", flush=True)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threading.Thread(target=beat, daemon=True).start()
    while not stopping.is_set():
        room = CONCURRENCY - len(active)
        jobs = []
        if room > 0:
            try:
                jobs = ask("/workers/fetch", {"queues": ["default"], "count": room, "worker_id": WORKER})["jobs"]
            except OSError as error:
                print(f"no jobs: {error}", flush=True)
        for job in jobs:
            active.add(job["id"])
            threading.Thread(target=run, args=(job,)).start()
        if not jobs:
            stopping.wait(1)


if __name__ == "__main__":
    main()
