"""The life of one worker container in ten seconds.

Starts a backend on this machine's loopback, gives it jobs, and runs a Python worker behind ojs-init: as PID 1 of a PID
namespace of its own where the machine allows that, as in a container. Then it does what an operator and an orchestrator
do: SIGTSTP, SIGCONT, SIGTERM. It prints who saw what, and at the end what became of each job, and fails if any of that is
not as promised.

    make demo
    make demo MODE=gateway      the worker is one that was built on an SDK, and speaks HTTP
    make demo MODE=exec         each job is a process: a shell script
"""

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))
from timeline import Bar, Timeline, chart  # noqa: E402

# What the worker gets besides the URL. An orchestrator would allow 30 s; a demo is shorter.
SETTINGS = {
    "OJS_CONCURRENCY": "3",
    "OJS_SHUTDOWN_GRACE_PERIOD": "3s",
    "OJS_TERMINATION_GRACE_PERIOD": "7s",
    "OJS_STOP_MARGIN": "3s",
    "OJS_HEARTBEAT_INTERVAL": "500ms",
    "OJS_POLL_INTERVAL": "250ms",
    "OJS_LOG_FORMAT": "json",
    "OJS_HEALTH_LISTEN": "off",
}

# The worker of each mode.
WORKERS = {"socket": "worker.py", "gateway": "sdk_worker.py", "exec": "handler.sh"}

# The limit above, in seconds after SIGTERM: then the orchestrator would send SIGKILL.
LIMIT = 7.0

# How long everything may take, in seconds; then the demo has failed.
PATIENCE = 28.0

# How often the backend is asked what it has seen, in seconds.
LOOK_EVERY = 0.05


class Failed(Exception):
    """Something is not as promised."""


def interrupt(number: int, _: Any) -> None:
    """Ends the demo as Ctrl-C does: whatever was started is ended first."""
    raise KeyboardInterrupt(signal.Signals(number).name)


class Demo:
    def __init__(self, init: str, devserver: str, mode: str, scratch: Path) -> None:
        self.init = init
        self.devserver = devserver
        self.mode = mode
        self.scratch = scratch
        self.timeline = Timeline()
        self.bars: Dict[str, Bar] = {}
        self.outcomes: Dict[str, List[str]] = {}
        self.marks: List[Any] = []
        self.url = ""
        self.worker_id = ""
        self.said: Optional[str] = None
        self.seen = 0
        self.looking = threading.Lock()
        self.log: List[str] = []

    # What is asked

    def run(self) -> None:
        timeline = self.timeline
        backend = self.start_backend()
        try:
            print("Eleven jobs. A deploy pauses the worker, is called off, and in the end stops the container: one job will")
            print("not end, and one comes too late. Watch that none is lost and none is done twice.")
            timeline.heading("What happens")
            self.enqueue("email.send", 7, lambda number: [0.8 + 0.2 * (number % 3), f"user{number}@example.com"])
            supervisor, pid = self.start_worker()
            watcher = threading.Thread(target=self.watch, daemon=True)
            watcher.start()
            try:
                self.direct(pid)
                status = self.wait_for(supervisor)
            finally:
                supervisor.kill()
                supervisor.wait()
            self.look()
            self.mark("gone")
            timeline.say("you", f"ojs-init is gone, exit status {status}")
            self.conclude(status)
        finally:
            backend.terminate()
            backend.wait(10)

    def direct(self, pid: int) -> None:
        """What operators and orchestrators do; each step waits for what the one before was for."""
        self.wait_until("three jobs are done", lambda: self.done() >= 3)
        self.send(pid, signal.SIGTSTP, "take no new jobs: we are about to deploy")
        self.wait_until("nothing is active", lambda: not self.active())
        time.sleep(1)
        self.send(pid, signal.SIGCONT, "go on: the deploy was called off")
        self.wait_until("the mails are sent", lambda: self.done() >= 7)
        self.enqueue("report.build", 1, lambda _: [])
        self.enqueue("email.send", 2, lambda number: [1.5, f"late{number}@example.com"])
        self.wait_until("three jobs are active", lambda: len(self.active()) == 3)
        self.send(pid, signal.SIGTERM, f"end; {LIMIT:.0f} s from now I send SIGKILL")
        self.terminated_at = time.time()
        self.enqueue("email.send", 1, lambda _: [0.5, "tomorrow@example.com"])

    def send(self, pid: int, number: signal.Signals, why: str) -> None:
        self.timeline.say("you", f"{number.name} ({why})")
        self.mark(number.name)
        os.kill(pid, number)

    def mark(self, name: str) -> None:
        self.marks.append((self.timeline.now(), name))

    def enqueue(self, kind: str, count: int, arguments: Any) -> None:
        for _ in range(count):
            number = len(self.bars) + 1
            body = json.dumps({"type": kind, "args": arguments(number)}).encode()
            created = self.ask("/ojs/v1/jobs", body)
            identity = created.get("job", created)["id"]
            self.bars[identity] = Bar(f"#{number} {kind}")
        self.timeline.say("you", f"enqueue {count} x {kind}")

    # What runs

    def start_backend(self) -> "subprocess.Popen[bytes]":
        port_file = self.scratch / "url"
        command = [self.devserver, "serve", "--listen", "127.0.0.1:0", "--port-file", str(port_file)]
        with open(self.scratch / "devserver.log", "wb") as log:
            backend = subprocess.Popen(command, stdout=log, stderr=log)
        self.wait_until("the backend listens", port_file.exists)
        self.url = port_file.read_text().strip()
        return backend

    def start_worker(self) -> Any:
        prefix, place = namespace()
        name = WORKERS[self.mode]
        path = Path(__file__).resolve().with_name(name)
        program = [str(path)] if self.mode == "exec" else [sys.executable, str(path)]
        command = [self.init, "--mode", self.mode, "--", *program]
        words = name if self.mode == "exec" else f"python3 {name}"
        self.timeline.say("you", f"ojs-init --mode {self.mode} -- {words}, {place}; 3 jobs at a time")
        # Settings of whoever calls us are for other workers.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OJS_")}
        supervisor = subprocess.Popen(
            prefix + command,
            env={**inherited, **SETTINGS, "OJS_URL": self.url, "OJS_RUNTIME_DIR": str(self.scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for stream, tell in ((supervisor.stdout, self.worker_said), (supervisor.stderr, self.init_said)):
            threading.Thread(target=self.read, args=(stream, tell), daemon=True).start()
        return supervisor, only_child(supervisor.pid) if prefix else supervisor.pid

    @staticmethod
    def read(stream: Any, tell: Any) -> None:
        for line in stream:
            tell(line.decode(errors="replace").rstrip())

    def worker_said(self, line: str) -> None:
        self.timeline.say("worker", self.shorten(line))

    def init_said(self, line: str) -> None:
        self.log.append(line)
        try:
            record = json.loads(line)
        except ValueError:
            self.timeline.say("init", line)
            return
        # That a job went well is seen at the backend already.
        least = 13 if record["category"] == "lifecycle" else 9
        if record["severity_number"] >= least:
            at = datetime.fromisoformat(record["timestamp"].replace("Z", "+00:00")).timestamp()
            job = record.get("ojs", {}).get("job_id")
            message = f"job {job}: {record['message']}" if job else record["message"]
            self.timeline.say("init", self.shorten(message), at)

    def shorten(self, text: str) -> str:
        for identity, bar in self.bars.items():
            text = text.replace(f"job {identity}", bar.name)
        return text.replace(self.worker_id, "W") if self.worker_id else text

    # What the backend saw

    def ask(self, path: str, body: Optional[bytes] = None) -> Any:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"})
        # Whatever proxy others may need, this is our own machine.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=5) as answer:
            return json.load(answer)

    def watch(self) -> None:
        while True:
            try:
                self.look()
            except OSError:
                return
            time.sleep(LOOK_EVERY)

    def look(self) -> None:
        with self.looking:
            answer = self.ask(f"/dev/events?after={self.seen}")
            self.seen = answer["last"]
            for event in answer["events"]:
                self.take(event)

    def take(self, event: Dict[str, Any]) -> None:
        at = datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()
        since = at - self.timeline.began
        operation, status = event["operation"], event.get("status")
        bars = [self.bars[identity] for identity in event.get("jobs", []) if identity in self.bars]
        names = ", ".join(bar.name for bar in bars)
        if operation == "register":
            self.worker_id = event.get("worker") or ""
            self.timeline.say("backend", "registered: W", at)
        elif operation == "deregister":
            self.timeline.say("backend", "deregistered: W", at)
        elif operation == "heartbeat":
            self.heartbeat(event.get("state"), names, at)
        elif operation == "fetch" and bars:
            for bar in bars:
                bar.claimed, bar.text = since, "still with the worker"
            self.timeline.say("backend", f"FETCH: gave {names}", at)
        elif operation in ("ack", "nack") and status == 200:
            for identity in event["jobs"]:
                self.outcome(identity, operation, since, at)

    def heartbeat(self, state: Optional[str], names: str, at: float) -> None:
        """Only those that say something new: there are two a second."""
        words = f"heartbeat: {state}, active: {names or 'none'}"
        if state != self.said or state == "terminate" and not names:
            self.timeline.say("backend", words, at)
        self.said = state

    def outcome(self, identity: str, operation: str, since: float, at: float) -> None:
        bar = self.bars[identity]
        self.outcomes.setdefault(identity, []).append(operation)
        bar.ended = since
        if operation == "ack":
            bar.end, bar.text = "acked", "ACK"
            self.timeline.say("backend", f"ACK {bar.name}", at)
            return
        job = self.ask(f"/ojs/v1/jobs/{identity}")["job"]
        error = job["errors"][-1]
        bar.end, bar.text = "failed", f"FAIL: {job['state']}"
        self.timeline.say("backend", f"FAIL {bar.name}: {error['type']}, now {job['state']}", at)

    def done(self) -> int:
        return len(self.outcomes)

    def active(self) -> List[Bar]:
        return [bar for bar in list(self.bars.values()) if bar.claimed is not None and bar.ended is None]

    # What is waited for, and what has to be so

    def wait_until(self, what: str, is_so: Any) -> None:
        while not is_so():
            if self.timeline.now() > PATIENCE:
                raise Failed(f"waited in vain until {what}")
            time.sleep(0.02)

    def wait_for(self, supervisor: "subprocess.Popen[bytes]") -> int:
        left = self.terminated_at + LIMIT - time.time()
        try:
            return supervisor.wait(left)
        except subprocess.TimeoutExpired:
            raise Failed(f"ojs-init was still there {LIMIT:.0f} s after SIGTERM") from None

    def conclude(self, status: int) -> None:
        took = time.time() - self.terminated_at
        self.timeline.heading("What became of each job")
        chart(self.timeline, list(self.bars.values()), self.marks, self.timeline.now())
        ends = [bar.end for bar in self.bars.values()]
        acked, failed, waiting = (ends.count(end) for end in ("acked", "failed", "waiting"))
        twice = [outcomes for outcomes in self.outcomes.values() if len(outcomes) > 1]
        wrong = {
            f"exit status {status} instead of 0": status != 0,
            f"{len(twice)} jobs have two outcomes": bool(twice),
            f"{acked} ACK, {failed} FAIL, {waiting} waiting, instead of 9, 1 and 1": (acked, failed, waiting) != (9, 1, 1),
            "a job was left with the worker": bool(self.active()),
        }
        for what in (what for what, is_so in wrong.items() if is_so):
            raise Failed(what)
        self.timeline.heading("In short")
        print(f"  {acked} jobs are done and acknowledged once each. The one that would not end was failed in time, and")
        print("  will be tried again. The one that came after SIGTERM waits for the next worker, untouched.")
        print(f"  SIGTERM to exit: {took:.1f} s of {LIMIT:.0f} s, exit status {status}.")


def namespace() -> Any:
    """The command that makes a PID namespace, if the machine allows it, and what to call that."""
    ways = (["unshare"], ["unshare", "--user", "--map-root-user"])
    for way in ways:
        command = [*way, "--pid", "--fork", "--kill-child", "--mount-proc"]
        try:
            subprocess.run([*command, "true"], check=True, capture_output=True, timeout=5)
        except (OSError, subprocess.SubprocessError):
            continue
        return command, "as PID 1 of a PID namespace of its own"
    return [], "as a normal process (no PID namespace to be had here)"


def only_child(pid: int) -> int:
    """The process that this one has started."""
    for _ in range(250):
        for process in (entry for entry in os.listdir("/proc") if entry.isdigit()):
            try:
                with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as stat:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                return int(process)
        time.sleep(0.02)
    raise Failed("ojs-init did not start")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--init", required=True, help="path of ojs-init")
    parser.add_argument("--devserver", required=True, help="path of ojs-devserver")
    parser.add_argument("--mode", choices=sorted(WORKERS), default="socket", help="how the worker gets its jobs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    with tempfile.TemporaryDirectory(prefix="ojs-demo-") as scratch:
        demo = Demo(options.init, options.devserver, options.mode, Path(scratch))
        try:
            demo.run()
        except Failed as failed:
            demo.timeline.flush()
            print(f"\nThe demo failed: {failed}. The log of ojs-init:", file=sys.stderr)
            print("\n".join(demo.log), file=sys.stderr)
            return 1
        except OSError as error:
            print(f"\nThe demo cannot run: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\nInterrupted; all that was started is ended.", file=sys.stderr)
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
