"""One ojs-init of a soak: its log's reader, its control socket, and what the kernel knows of it."""

import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, Any, Dict, List, Optional, Sequence

import proc
from processes import Failed, Scene

# Longest wait for an answer of the control socket, in seconds.
ANSWER_PATIENCE = 10.0

# Bytes of the log that are read at a time, and that are kept for an error.
CHUNK, KEPT = 65536, 8192

# Longest time from a SIGTERM to the exit, in seconds: the limit that each ojs-init has, and room.
LIMIT, ROOM = 20, 10.0

# A namespace of processes, and a shell that is PID 1 there.
NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
SHELL_ABOVE = ["/bin/sh", "-c", '"$@"; exit $?', "sh"]


class Instance:
    """An ojs-init with its own directory, in a namespace that ends with this program. It is PID 1 there, or below a shell."""

    def __init__(
        self,
        scene: Scene,
        name: str,
        command: Sequence[str],
        is_pid_1: bool = True,
        prefix: Sequence[str] = (),
        stderr: Optional[int] = None,
        **settings: str,
    ) -> None:
        self.scene, self.name = scene, name
        self.place = scene.place / name
        self.place.mkdir()
        self.notes = self.place / "notes"
        self.notes.touch()
        variables = {
            "PATH": os.environ["PATH"],
            "OJS_RUNTIME_DIR": str(self.place / "run"),
            "OJS_HEALTH_LISTEN": "127.0.0.1:0",
            "OJS_TERMINATION_GRACE_PERIOD": f"{LIMIT}s",
            "OJS_TERMINATION_LOG": str(self.place / "termination-log"),
            "SOAK_NOTES": str(self.notes),
            **settings,
        }
        above = [] if is_pid_1 else SHELL_ABOVE
        self.process = subprocess.Popen(
            [*NAMESPACE, *above, *prefix, scene.programs.init, *command],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr or subprocess.PIPE,
            start_new_session=True,
        )
        scene.running.append(self.process)
        self.log = LogReader(self.process.stderr)
        # The command of a plain init.
        self.command_pid = 0
        self.pid = self.process.pid
        for _ in range(1 if is_pid_1 else 2):
            self.pid = int(scene.until(f"{name}: the namespace", lambda: proc.children(self.pid))[0])
        runs = lambda: Path(f"/proc/{self.pid}/comm").read_text().startswith("ojs-init")  # noqa: E731
        scene.until(f"{name}: ojs-init", runs)

    def ask(self, request: str) -> Dict[str, Any]:
        """One request on the control socket."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(ANSWER_PATIENCE)
            # The whole path may be longer than an address of a socket can be.
            folder = os.open(self.scene.until("the control socket", self._sockets), os.O_PATH)
            try:
                client.connect(f"/proc/self/fd/{folder}/control.sock")
            finally:
                os.close(folder)
            client.sendall(json.dumps({"request": request}).encode() + b"\n")
            with client.makefile("rb") as answers:
                line = answers.readline()
        return json.loads(line)

    def _sockets(self) -> Optional[Path]:
        """The directory of the sockets."""
        return next((path.parent for path in (self.place / "run").glob("*/*/control.sock")), None)

    def worker(self) -> Optional[int]:
        """The worker's process, by its number in the namespace of this program."""
        number = self.ask("status")["worker"].get("pid")
        children = proc.children(self.pid) if number else []
        return next((child for child in children if own_number(child) == number), None)

    def first_child(self) -> Optional[int]:
        """The command of a plain init, before it has orphans."""
        children = proc.children(self.pid)
        return children[0] if children else None

    def kernel(self) -> Dict[str, int]:
        """What the kernel knows of ojs-init's own process."""
        states = [state(child) for child in proc.children(self.pid)]
        memory = proc.memory_kib(self.pid)
        return {
            "private_kib": memory["private"],
            "resident_kib": memory["resident"],
            "descriptors": descriptors(self.pid),
            "threads": proc.threads(self.pid),
            "children": len(states),
            "zombies": states.count("Z"),
        }

    def tables(self) -> Dict[str, int]:
        """The sizes of ojs-init's tables, as it says itself."""
        status = self.ask("status")
        return {
            "timers": status["timers"],
            "jobs": len(status["jobs"]) + status["jobs_not_shown"],
            "connections": len(status["connections"]) + status["connections_not_shown"],
            "requests": status["backend"]["requests"],
            "streams": status["backend"]["streams"],
        }

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def expect_alive(self) -> None:
        if not self.is_alive():
            raise Failed(f"{self.name} has ended with {self.process.returncode}\n{self.log.end()}")

    def stop(self) -> Dict[str, Any]:
        """SIGTERM, and the exit."""
        began = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        try:
            status = self.process.wait(LIMIT + ROOM)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{self.name} is still there {LIMIT + ROOM:.0f} s after SIGTERM\n{self.log.end()}") from error
        return {"status": status, "seconds": round(time.monotonic() - began, 2)}


class LogReader:
    """Reads the log all the time, unless it is stalled."""

    def __init__(self, pipe: Optional[IO[bytes]]) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.lines, self.kept = 0, b""
        # Lines with these words are counted.
        self.words: Dict[bytes, int] = {}
        if pipe:
            threading.Thread(target=self._read, args=[pipe], daemon=True).start()

    def _read(self, pipe: IO[bytes]) -> None:
        while True:
            self.goes_on.wait()
            text = os.read(pipe.fileno(), CHUNK)
            if not text:
                return
            self.lines += text.count(b"\n")
            for word in self.words:
                self.words[word] += text.lower().count(word)
            self.kept = (self.kept + text)[-KEPT:]

    def end(self) -> str:
        return self.kept.decode(errors="replace")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


def own_number(pid: int) -> Optional[int]:
    """The number of a process in its own namespace."""
    try:
        return int(proc.status(pid)["NSpid"].split()[-1])
    except OSError:
        return None


def signal_all(pids: List[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def limit(pid: int, what: int, soft: int) -> int:
    """Sets the soft limit of a running process; gives the one before."""
    before, hard = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (soft, hard))
    return before
