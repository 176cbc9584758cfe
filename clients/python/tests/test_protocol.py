"""What all clients share: the vectors of frames, and the runner that plays ojs-init."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from typing import Any, Dict, List

from .fake_init import EXAMPLES, FIXTURES, HERE, ClientTest, Running, job

from ojs_worker import ProtocolError

FRAMES = FIXTURES / "frames.jsonl"
PLAY = FIXTURES / "play.py"


def vectors() -> List[Dict[str, Any]]:
    return [json.loads(line) for line in FRAMES.read_text("utf-8").split("\n") if line]


@unittest.skipUnless(FRAMES.exists(), f"{FRAMES} is not there")
class Vectors(ClientTest):
    def test_every_frame_is_digestible(self) -> None:
        """What ojs-init says, and, for good measure, what it never says."""
        for index, vector in enumerate(vectors()):
            with self.subTest(vector["name"]):
                self.init = self.fake(f"v{index}")
                worker = self.worker()
                worker.job("ok")(lambda job: "fine")
                worker.job()(lambda job: None)
                running = Running(worker)
                self.init.hello()
                self.init.held["job-1"] = 1
                line = vector["line"].encode("utf-8", "surrogatepass")
                assert self.init.sock
                self.init.sock.sendall(line + b"\n")
                frame: Any = None
                try:
                    frame = json.loads(vector["line"])
                except (ValueError, RecursionError):
                    pass
                kind = frame.get("type") if isinstance(frame, dict) else None
                if kind == "error" and frame["code"] == "unsupported_protocol":
                    self.assertIsInstance(running.join(), ProtocolError)
                elif kind == "lifecycle" and frame["state"] == "terminate":
                    self.assertIsNone(running.join())
                else:
                    if kind == "job" and vector["from"] == "ojs-init":
                        self.assertIn(self.answer("job-1"), ("ack", "fail"))
                    if kind == "ping":
                        self.init.expect("pong", id=frame["id"])
                    self.init.ping(12345)
                    self.init.send(job("2", "ok"))
                    self.init.expect("ack", "2", result="fine")
                    self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 1})
                    self.assertIsNone(running.join())
                self.init.close()

    def answer(self, id: str) -> str:
        with self.init.changed:
            self.init.changed.wait_for(lambda: any(f.get("job_id") == id for f in self.init.frames), 10)
            return next(str(f["type"]) for f in self.init.frames if f.get("job_id") == id)


@unittest.skipUnless(PLAY.exists(), f"{PLAY} is not there")
class Runner(unittest.TestCase):
    def test_both_workers(self) -> None:
        command = [sys.executable, str(PLAY), "--patience", "4", "--", sys.executable, str(HERE / "fixture_worker.py")]
        runs = [
            subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for more in ([], ["--async"])
        ]
        outputs = [run.communicate()[0] for run in runs]
        for run, output in zip(runs, outputs):
            self.assertEqual(run.returncode, 0, "\n" + output)


class Example(ClientTest):
    def test_the_example_works(self) -> None:
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "python" / "worker.py")],
            env={**os.environ, "OJS_SOCKET": self.init.path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._reap, process)
        self.assertEqual(self.init.hello()["types"], ["email.send"])
        self.init.send(job("1", "email.send", "ann@example.org", 0.01))
        self.assertEqual(self.init.expect("ack", "1")["result"], {"sent_to": "ann@example.org"})
        self.init.send(job("2", "email.send", "ann@example.org", 600))
        self.init.expect("progress", "2")
        self.init.send({"type": "cancel", "job_id": "2", "reason": "shutdown", "grace_ms": 1000})
        self.init.expect("release", "2", reason="shutdown")
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 9000})
        self.assertEqual(self.exit_status(process), 0)


if __name__ == "__main__":
    unittest.main()
