"""One job in this process, for tests of handlers: a session without a socket."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from ._basics import frame
from ._errors import OjsError
from ._link import Link
from ._session import PROTOCOL, Frame, Session


@dataclasses.dataclass
class Outcome:
    """What became of a job that `perform` ran."""

    outcome: str = ""
    """``"ack"``, ``"fail"`` or ``"release"``."""
    result: Any = None
    """The result, as the backend gets it: a tuple is a list."""
    error: Optional[Dict[str, Any]] = None
    """The failure, as the backend gets it."""
    reason: Optional[str] = None
    """The reason of a release."""
    checkpoints: List[Any] = dataclasses.field(default_factory=list)
    """The states that were saved, in order."""
    progress: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    """The reports, in order: `progress`, and `message` and `data` where given."""


class Performance(Link):
    """A job, and what happens while it runs: `cancels` are reasons, each with its seconds after the
    handler began. It takes the frames of the session in place of ojs-init."""

    def __init__(self, job: Frame, checkpoint: Any, stopping: Optional[float], cancels: List[Tuple[float, str]]) -> None:
        super().__init__()
        self.close()
        self._job = json.loads(frame({"type": "job", "job": job, "checkpoint": checkpoint}))
        self._stopping = stopping
        cancel = {"type": "cancel", "job_id": job["id"]}
        self._cancels = [(after, {**cancel, "reason": reason}) for after, reason in sorted(cancels)]
        self._began: Optional[float] = None
        self._outcome = Outcome()
        self._is_answered = threading.Event()

    def start(self, session: Session) -> None:
        """Hand the job to the session."""
        self._session = session
        session.before_handler = self._before_handler
        session.on_frame({"type": "hello", "protocol": PROTOCOL, "concurrency": 1})
        session.on_frame(self._job)

    def wait(self, patience: float) -> Outcome:
        """The outcome, once the job is answered."""
        give_up_at = time.monotonic() + patience
        while not self._is_answered.wait(0.005):
            if self._began is not None:
                self._cancel(time.monotonic() - self._began)
            if time.monotonic() >= give_up_at:
                raise OjsError(f"the handler has not ended within {patience:g} s (patience=)")
        return self._outcome

    def _before_handler(self, _job: Any) -> None:
        if self._stopping is not None:
            left = {"remaining_ms": self._stopping * 1000}
            self._session.on_frame({"type": "lifecycle", "state": "terminate", "reason": "perform", **left})
        self._cancel(0.0)
        self._began = time.monotonic()

    def _cancel(self, seconds: float) -> None:
        """Send what is due so long after the handler began."""
        while self._cancels and self._cancels[0][0] <= seconds:
            self._session.on_frame(self._cancels.pop(0)[1])

    def _write(self, data: bytes, waits: bool) -> bool:
        for sent in map(json.loads, data.splitlines()):
            kind = sent.pop("type")
            if kind == "checkpoint":
                self._outcome.checkpoints.append(sent["state"])
            elif kind == "progress":
                self._outcome.progress.append({name: value for name, value in sent.items() if name != "job_id"})
            elif kind in ("ack", "fail", "release"):
                self._outcome.outcome = kind
                self._outcome.result, self._outcome.error = sent.get("result"), sent.get("error")
                self._outcome.reason = sent.get("reason")
                self._is_answered.set()
        return True
