"""A plain worker over HTTP: CONCURRENCY threads, each on its own kept connection, until JOBS were acknowledged."""

import http.client
import itertools
import json
import os
import threading
import time
import uuid
from typing import Any
from urllib.parse import urlsplit

URL = urlsplit(os.environ["OJS_URL"])
CONCURRENCY = int(os.environ.get("CONCURRENCY", "10"))
JOBS = int(os.environ["JOBS"])
HEADERS = {"Content-Type": "application/json"}
WORKER_ID = f"bare-{uuid.uuid4().hex}"

numbers = itertools.count(1)
is_done = threading.Event()


def ask(connection: http.client.HTTPConnection, path: str, body: Any) -> Any:
    connection.request("POST", path, json.dumps(body), HEADERS)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{path}: {answer.status} {text!r}")
    return json.loads(text) if text else {}


def loop() -> None:
    connection = http.client.HTTPConnection(URL.hostname or "", URL.port, timeout=30)
    while not is_done.is_set():
        jobs = ask(connection, "/ojs/v1/workers/fetch", {"queues": ["default"], "count": 1, "worker_id": WORKER_ID})
        if not jobs.get("jobs"):
            time.sleep(0.02)
        for job in jobs.get("jobs") or []:
            ask(connection, "/ojs/v1/workers/ack", {"job_id": job["id"], "result": None})
            if next(numbers) >= JOBS:
                is_done.set()


threads = [threading.Thread(target=loop) for _ in range(CONCURRENCY)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
