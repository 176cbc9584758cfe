"""The instances of one mode, with a backend of their own."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Optional

from processes import Backend, Failed, Scene
from soak.instance import Instance

ROOT = Path(__file__).resolve().parents[2]

# Jobs at once of each instance.
AT_ONCE = 8

# Times that let a round settle soon after its faults.
SETTINGS = {
    "OJS_CONCURRENCY": str(AT_ONCE),
    "OJS_VISIBILITY_TIMEOUT": "20s",
    "OJS_HEARTBEAT_INTERVAL": "1s",
    "OJS_REQUEST_TIMEOUT": "3s",
    "OJS_POLL_INTERVAL_MAX": "2s",
    "OJS_RESTART": "always",
    "OJS_LOG_FORMAT": "json",
}

# The worker of mode gateway is one that the tests have, as an SDK makes it.
OF_GATEWAY = {"SDK_POLL_MS": "200", "SDK_HEARTBEAT_MS": "2000", "SDK_CONCURRENCY": str(AT_ONCE), "SDK_TAKES_ANY_TYPE": "1"}

# A job of mode exec: it sleeps, fails where it has to, leaves a process behind, and notes that it is done.
HANDLER = (
    'sleep "$1"; case $OJS_JOB_TYPE in fail) exit 1;; orphan) sleep 5 & ;; esac; echo "$OJS_JOB_ID" >> "$SOAK_NOTES"'
)

# The command of a plain init: four orphans every tenth of a second, and it takes SIGUSR1.
COMMAND = "trap : USR1; while :; do (sleep 0.01 & sleep 0.02 & sleep 0.05 & sleep 0.1 &); sleep 0.1; done"

# The kinds of jobs of each mode besides sleep.
KINDS = {"socket": ("fail", "large", "orphan"), "gateway": ("fail", "large"), "exec": ("fail", "orphan")}

# Jobs a second for each instance.
RATES = {"socket": 12.0, "gateway": 6.0, "exec": 5.0, "none": 0.0}

# The server forgets finished jobs beyond so many.
MAX_JOBS = 60_000

# Longest time until the port of a backend that was killed is open again, in seconds.
RETURN_PATIENCE = 20.0


class Group:
    """So many instances in one mode. Every second one is PID 1 of a namespace."""

    def __init__(self, scene: Scene, mode: str, count: int, visibility: str) -> None:
        self.scene, self.mode, self.visibility = scene, mode, visibility
        self.backend: Optional[Backend] = None
        self.counts: "Counter[str]" = Counter()
        # What is told of a backend that is about to be killed.
        self.before_it_is_gone: Any = lambda: None
        if mode != "none":
            self.server, self.backend = self._serve("127.0.0.1:0")
        self.instances = [self._start(number) for number in range(count)]

    def _serve(self, listen: str) -> Any:
        port_file = self.scene.place / f"url-{self.mode}"
        command = [self.scene.programs.devserver, "serve", "--listen", listen, "--port-file", str(port_file)]
        port_file.unlink(missing_ok=True)
        server = self.scene.start([*command, "--max-jobs", str(MAX_JOBS)])
        self.scene.until(f"the development server of mode {self.mode}", port_file.exists)
        return server, Backend(port_file.read_text().strip().removeprefix("http://"))

    def _start(self, number: int) -> Instance:
        is_pid_1 = number % 2 == 0
        name = f"{self.mode}-{number}"
        settings = {**SETTINGS, "OJS_VISIBILITY_TIMEOUT": self.visibility}
        if self.backend:
            settings["OJS_URL"] = f"http://{self.backend.address}"
        if self.mode == "socket":
            command = ["--", sys.executable, str(ROOT / "bench" / "soak" / "worker.py")]
        elif self.mode == "gateway":
            settings.update(OF_GATEWAY, SDK_DIRECTORY=str(self.scene.place / name))
            command = ["--mode", "gateway", "--", sys.executable, str(ROOT / "tests" / "support" / "sdk_workers" / "worker.py")]
        elif self.mode == "exec":
            command = ["--mode", "exec", "--", "/bin/sh", "-c", HANDLER, "sh", "{args.1}"]
        else:
            settings = {}
            command = ["--no-agent", "--", "/bin/sh", "-c", COMMAND]
        instance = Instance(self.scene, name, command, is_pid_1, **settings)
        if self.mode == "gateway":
            instance.notes = instance.place / "journal"
            instance.notes.touch()
        if self.mode == "none":
            instance.command_pid = self.scene.until(f"{name}: its command", instance.first_child)
        return instance

    def is_up(self) -> None:
        """Waits until all instances have registered."""
        backend = self.backend
        if backend:
            self.scene.until(f"mode {self.mode} to register", lambda: backend.workers() >= len(self.instances))

    def notes(self) -> List[Path]:
        return [instance.notes for instance in self.instances]

    def fault(self, fault: Dict[str, Any], lasts: float) -> None:
        """A fault for its time."""
        if fault["fault"] == "refuse":
            self._ask_again("/dev/faults", json.dumps(fault))
            time.sleep(lasts)
            self._reached_again()
            return
        ident = self._ask_again("/dev/faults", json.dumps(fault))["id"]
        time.sleep(lasts)
        self._delete(f"/dev/faults/{ident}")

    def _ask_again(self, path: str, body: str) -> Dict[str, Any]:
        assert self.backend is not None
        # A connection of its own: the fault before may have ended the kept one.
        return Backend(self.backend.address).ask(path, body)

    def _delete(self, path: str) -> None:
        assert self.backend is not None
        connection = Backend(self.backend.address).connection
        connection.request("DELETE", path)
        connection.getresponse().read()
        connection.close()

    def restart(self, gone: float) -> None:
        """SIGKILL to the backend, and another one at its address after a while."""
        assert self.backend is not None
        address = self.backend.address
        self.before_it_is_gone(self.server)
        time.sleep(gone)
        self.server, self.backend = self._serve(address)
        self.counts["backends"] += 1

    def _reached_again(self) -> None:
        assert self.backend is not None
        deadline = time.monotonic() + RETURN_PATIENCE
        while True:
            try:
                self.backend = Backend(self.backend.address)
                self.backend.ask("/ojs/v1/health")
                return
            except (OSError, Failed) as error:
                if time.monotonic() > deadline:
                    raise Failed(f"the backend of mode {self.mode} cannot be reached again") from error
                time.sleep(0.05)

    def stop(self) -> Dict[str, int]:
        """Ends all instances; gives how many ended with which status."""
        statuses = Counter(str(instance.stop()["status"]) for instance in self.instances)
        return dict(statuses)


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
