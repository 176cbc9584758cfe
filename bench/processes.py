"""The processes of a measurement: backend, TLS in front of it, ojs-init with its worker, the bare loop and the bare relay."""

import http.client
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

# Longest wait for anything that does happen, in seconds.
PATIENCE = 30.0

# How often something is looked at that is waited for, in seconds.
LOOK_EVERY = 0.005

# Most jobs that one request enqueues, and most bytes: the development server's bounds, with room.
BATCH = 10_000
BATCH_BYTES = 14 << 20

# More connections than the largest measurement opens.
MAX_CONNECTIONS = 12_000


class Failed(Exception):
    """A process does not do as it should."""


@dataclass
class Programs:
    """Where everything is."""

    init: str
    devserver: str
    bare_loop: str
    echo_worker: str
    tls_front: str
    bare_relay: str


class Scene:
    """The processes of one measurement; they end with it."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.running: List["subprocess.Popen[bytes]"] = []
        self.scratch = tempfile.TemporaryDirectory(prefix="ojs-bench-")
        self.place = Path(self.scratch.name)

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, *_: Any) -> None:
        for process in reversed(self.running):
            process.kill()
            process.wait()
        self.scratch.cleanup()

    def start(
        self, command: Sequence[str], folder: Optional[Path] = None, stdin: int = subprocess.DEVNULL, **more: str
    ) -> "subprocess.Popen[bytes]":
        environment = {"PATH": os.environ["PATH"], **more}
        with open(self.place / "log", "ab") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=stdin, stdout=log, stderr=log
            )
        self.running.append(process)
        return process

    def log(self) -> str:
        """The last lines that the processes wrote."""
        return "\n".join((self.place / "log").read_text(errors="replace").splitlines()[-10:])

    def until(self, what: str, condition: Any) -> Any:
        """Waits for something that is not false or None, and gives it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(LOOK_EVERY)
        raise Failed(f"{what}: not within {PATIENCE:.0f} s\n{self.log()}")

    def backend(self, *options: str) -> "Backend":
        port_file = self.place / "url"
        command = [self.programs.devserver, "serve", "--listen", "127.0.0.1:0", "--port-file", str(port_file)]
        self.start([*command, "--max-connections", str(MAX_CONNECTIONS), *options])
        self.until("the development server", port_file.exists)
        return Backend(port_file.read_text().strip().removeprefix("http://"))

    def reached(self, backend: "Backend", scheme: str) -> "Way":
        """The backend as it is reached by that way: http, name (http with a host name) or https (with a host name)."""
        port = backend.address.rsplit(":", 1)[1]
        if scheme == "http":
            return Way(f"http://{backend.address}", backend.address)
        if scheme == "name":
            return Way(f"http://localhost:{port}", f"localhost:{port}")
        ca, port_file = self.place / "ca.pem", self.place / "front"
        self.start(
            [self.programs.tls_front, "--to", backend.address, "--ca", str(ca), "--port-file", str(port_file)]
        )
        self.until("TLS in front of the backend", port_file.exists)
        address = f"localhost:{port_file.read_text()}"
        return Way(f"https://{address}", address, str(ca))

    def bare_relay(self, backend: "Backend", threads: int) -> str:
        """The address of a bare relay to the backend, for so many clients at a time."""
        port_file = self.place / "relay"
        command = [self.programs.bare_relay, "--to", backend.address, "--port-file", str(port_file)]
        self.start([*command, "--threads", str(threads)])
        self.until("the bare relay", port_file.exists)
        return f"127.0.0.1:{port_file.read_text()}"

    def bare_loop(self, way: "Way", threads: int, *options: str) -> "subprocess.Popen[bytes]":
        trust = ["--ca", way.ca] if way.ca else []
        command = [self.programs.bare_loop, "--address", way.address, "--threads", str(threads), *trust]
        return self.start([*command, *options])

    def init(
        self, way: "Way", concurrency: int, connections: int = 1, worker: Sequence[str] = (), **settings: str
    ) -> "subprocess.Popen[bytes]":
        """ojs-init with the echo worker, registered."""
        echo = [self.programs.echo_worker, "--connections", str(connections), "--concurrency", str(concurrency)]
        variables = {
            "OJS_URL": way.url,
            "OJS_CONCURRENCY": str(concurrency),
            "OJS_RUNTIME_DIR": str(self.place / "run"),
            "OJS_HEALTH_LISTEN": "127.0.0.1:0",
            "OJS_TERMINATION_GRACE_PERIOD": "30s",
        }
        if way.ca:
            variables["OJS_TLS_CA_FILE"] = way.ca
        return self.start([self.programs.init, "--", *echo, *worker], **{**variables, **settings})


@dataclass
class Way:
    """How the backend is reached."""

    url: str
    address: str
    ca: Optional[str] = None


@dataclass
class Backend:
    """The development server, and what is asked of it."""

    address: str
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)

    def ask(self, path: str, body: Optional[str] = None) -> Dict[str, Any]:
        method = "GET" if body is None else "POST"
        headers = {} if body is None else {"Content-Type": "application/json"}
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise Failed(f"{method} {path}: {answer.status} {text[:200]!r}")
        return json.loads(text) if text else {}

    def enqueue(self, count: int, argument: str = "", job: str = "echo") -> None:
        job = json.dumps({"type": job, "args": [argument]})
        batch = max(1, min(BATCH, BATCH_BYTES // len(job)))
        while count > 0:
            now = min(batch, count)
            if len(job) > BATCH_BYTES // 20:
                self.ask("/ojs/v1/jobs", job)
                now = 1
            else:
                self.ask("/ojs/v1/jobs/batch", '{"jobs":[' + ",".join([job] * now) + "]}")
            count -= now

    def fault(self, **fault: Any) -> None:
        """Switches a fault on, as the body of a request to `/dev/faults` describes it."""
        self.ask("/dev/faults", json.dumps(fault))

    def started_ns(self) -> int:
        """The wall clock when the server's clock began, in nanoseconds."""
        return nanoseconds(self.ask("/dev/events?limit=1")["started_at"])

    def completed(self) -> int:
        """How many jobs are done; the queue must have had one."""
        return int(self.ask("/ojs/v1/queues/default/stats")["stats"]["completed"])

    def workers(self) -> int:
        return len(self.ask("/ojs/v1/admin/workers")["workers"])

    def events(self, *operations: str) -> List[Dict[str, Any]]:
        """What the server noted of these operations, each with the wall clock's nanoseconds at which it arrived and was
        answered."""
        answer = self.ask("/dev/events?limit=10000")
        start = nanoseconds(answer["started_at"])
        events = [event for event in answer["events"] if event["operation"] in operations]
        for event in events:
            event["answered_ns"] = start + round(event["ms"] * 1e6)
            event["arrived_ns"] = start + round(event.get("arrived_ms", event["ms"]) * 1e6)
        return events


def nanoseconds(moment: str) -> int:
    """A moment of the wall clock, with nine decimals, in nanoseconds."""
    seconds, fraction = moment.rstrip("Z").split(".")
    return int(datetime.fromisoformat(seconds + "+00:00").timestamp()) * 10**9 + int(fraction)
