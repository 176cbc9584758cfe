"""Draws the shutdown of docs/lifecycle.md: a real ojs-init, a real worker, the development backend and its record.

Three jobs are active when SIGTERM comes. Two finish, the third does not end: it is cut off. Then ojs-init is gone before
the orchestrator would end it. Writes the record and the picture, and prints the termination log of that run.

    make picture
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Callable, List, Optional

ROOT = Path(__file__).resolve().parents[2]

# What the worker gets besides the URL: the times of a Docker container, of which the margin leaves a drain of 5 s.
SETTINGS = {
    "OJS_CONCURRENCY": "3",
    "OJS_TERMINATION_GRACE_PERIOD": "10s",
    "OJS_HEARTBEAT_INTERVAL": "1s",
    "OJS_POLL_INTERVAL": "250ms",
    "OJS_HEALTH_LISTEN": "off",
}

# What is enqueued. A mail is sent in so many seconds; the report never ends.
JOBS = [
    ("email.send", [0.7, "a@example.com"]),
    ("report.build", []),
    ("email.send", [1.2, "b@example.com"]),
    ("email.send", [2.4, "c@example.com"]),
    ("email.send", [4.6, "d@example.com"]),
]

# How long anything may take, in seconds.
PATIENCE = 20.0


def ask(url: str, body: Optional[Any] = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    # Whatever proxy others may need, this is our own machine.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=5) as answer:
        return json.load(answer)


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            raise SystemExit(f"waited in vain until {what}")
        time.sleep(0.02)


def shut_down(url: str, init: str, scratch: Path) -> List[str]:
    """The life of a worker up to its end; returns the marks."""

    def active() -> int:
        return int(ask(f"{url}/ojs/v1/jobs?limit=1")["counts"].get("active", 0))

    def mark(text: str) -> str:
        return f"--mark={ask(url + '/dev/events?limit=1')['now_ms']}={text}"

    termination_log = scratch / "termination-log"
    termination_log.touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OJS_")}
    environment.update(SETTINGS, OJS_URL=url, OJS_RUNTIME_DIR=str(scratch), OJS_TERMINATION_LOG=str(termination_log))
    for kind, arguments in JOBS[:3]:
        ask(f"{url}/ojs/v1/jobs", {"type": kind, "args": arguments})
    command = [init, "--", sys.executable, str(ROOT / "examples/demo/worker.py")]
    worker = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_until("three jobs are active", lambda: active() == 3)
        wait_until("the two mails are sent", lambda: active() == 1)
        for kind, arguments in JOBS[3:]:
            ask(f"{url}/ojs/v1/jobs", {"type": kind, "args": arguments})
        wait_until("three jobs are active again", lambda: active() == 3)
        # Else the signs of the FETCH and of the SIGTERM would lie on each other.
        time.sleep(0.4)
        marks = [mark("SIGTERM")]
        worker.send_signal(signal.SIGTERM)
        wait_until("the stop phase", lambda: "about to be cut off" in termination_log.read_text())
        marks.append(mark("stop phase: the termination log says what is about to be cut off"))
        status = worker.wait(PATIENCE)
        marks.append(mark(f"exit {status}"))
    finally:
        worker.kill()
        worker.wait()
    print(termination_log.read_text(), end="")
    return marks


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--init", required=True, help="path of ojs-init")
    parser.add_argument("--devserver", required=True, help="path of ojs-devserver")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/pictures", help="folder of the record and the picture")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ojs-picture-") as scratch:
        port_file = Path(scratch) / "url"
        serve = [options.devserver, "serve", "--listen", "127.0.0.1:0", "--port-file", str(port_file)]
        backend = subprocess.Popen(serve, stdout=subprocess.DEVNULL)
        try:
            wait_until("the backend listens", port_file.exists)
            url = port_file.read_text().strip()
            marks = shut_down(url, options.init, Path(scratch))
            files = ["--save", str(options.out / "shutdown.jsonl"), "--svg", str(options.out / "shutdown.svg")]
            subprocess.run([options.devserver, "timeline", "--url", url, *files, *marks], check=True)
        finally:
            backend.terminate()
            backend.wait(PATIENCE)


if __name__ == "__main__":
    main()
