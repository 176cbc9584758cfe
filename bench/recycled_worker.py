"""A worker whose jobs sleep, for mode socket and gateway: recycled_worker.py {socket,gateway} CONCURRENCY [LEAK]

It keeps LEAK bytes of each job until it ends.
"""

import heapq
import http.client
import json
import os
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Tuple
from urllib.parse import urlsplit

# Between two requests for jobs when there are none, in seconds.
POLL = 0.05


leaked: List[bytes] = []


def leak() -> None:
    if len(sys.argv) > 3:
        leaked.append(b"x" * int(sys.argv[3]))


def main() -> None:
    mode, concurrency = sys.argv[1], int(sys.argv[2])
    if mode == "socket":
        by_socket(concurrency)
    for _ in range(concurrency):
        threading.Thread(target=by_gateway).start()


def by_socket(concurrency: int) -> None:
    """All jobs in one thread: each is done when its time has come."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(os.environ["OJS_SOCKET"])
    say = lambda frame: link.sendall((json.dumps(frame) + "\n").encode())  # noqa: E731
    say({"type": "ready", "protocol": 1, "concurrency": concurrency, "ok": False, "client": "bench"})
    due: List[Tuple[float, str]] = []
    buffer = b""
    while True:
        link.settimeout(max(due[0][0] - time.monotonic(), 0.001) if due else None)
        try:
            got = link.recv(65536)
            if not got:
                sys.exit()
            buffer += got
        except socket.timeout:
            pass
        *lines, buffer = buffer.split(b"\n")
        for frame in map(json.loads, lines):
            if frame["type"] == "job":
                heapq.heappush(due, (time.monotonic() + frame["job"]["args"][0], frame["job"]["id"]))
            elif frame["type"] == "ping":
                say({"type": "pong", "id": frame["id"]})
        while due and due[0][0] <= time.monotonic():
            leak()
            say({"type": "ack", "job_id": heapq.heappop(due)[1]})


def by_gateway() -> None:
    """One job after the other, as an SDK's thread does it."""
    url = urlsplit(os.environ["OJS_URL"])
    link = http.client.HTTPConnection(str(url.hostname), url.port)

    def ask(operation: str, **fields: Any) -> Dict[str, Any]:
        link.request("POST", f"/ojs/v1/workers/{operation}", json.dumps(fields), {"Content-Type": "application/json"})
        answer = link.getresponse()
        text = answer.read()
        return json.loads(text) if answer.status < 300 and text else {}

    while True:
        jobs = ask("fetch", queues=["default"], count=1, worker_id="bench").get("jobs") or []
        for job in jobs:
            time.sleep(job["args"][0])
            leak()
            ask("ack", worker_id="bench", job_id=job["id"])
        if not jobs:
            time.sleep(POLL)


main()
