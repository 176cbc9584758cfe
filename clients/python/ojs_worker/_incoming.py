"""What comes in from ojs-init."""

from __future__ import annotations

import logging
import time
from typing import Any, Dict, Optional

from ._answers import Answers
from ._base import J
from ._errors import ProtocolError
from ._json import clean, integer, make_frame, parse_object, salvage_job_id, typed
from ._limits import DEFAULT_MAX_FRAME, MAX_CONCURRENCY, NOBODYS_JOB, PROTOCOL
from ._link import Link
from ._log import log


class Incoming(Answers[J]):
    # What comes in

    def _on_line(self, link: Link, line: bytes) -> None:
        if not line.strip():
            return
        try:
            text = line.decode("utf-8")
            frame, spans = parse_object(text)
        except (ValueError, RecursionError) as error:
            self._on_unreadable(link, line, error)
            return
        kind = frame.get("type")
        try:
            if kind == "job":
                start, end = spans["job"]
                self._on_job(link, frame["job"], text[start:end], frame.get("checkpoint"))
            elif kind == "ping":
                link.send(make_frame("pong", id=integer(frame["id"])), urgent=True)
            elif kind == "cancel":
                self._on_cancel(frame["job_id"], frame["reason"])
            elif kind == "lifecycle":
                self._on_lifecycle(frame["state"], frame.get("reason"), frame.get("remaining_ms"))
            elif kind == "hello":
                self._on_hello(link, frame)
            elif kind == "ok":
                self._on_ok(frame["job_id"], frame["for"])
            elif kind == "error":
                self._on_error(link, frame["code"], frame.get("message"), frame.get("job_id"))
            else:
                log.debug("a frame of an unknown type is ignored: %r", kind)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("a frame %r from ojs-init is ignored: %s: %s", kind, type(error).__name__, error)

    def _on_unreadable(self, link: Link, line: bytes, error: Exception) -> None:
        job_id = salvage_job_id(line.decode("utf-8", "replace"))
        log.warning("a frame from ojs-init cannot be read: %s (job %s)", clean(error, 500), job_id)
        if job_id is not None:
            message = f"the job cannot be read by Python: {type(error).__name__}: {error}"
            described = {"code": "invalid_job", "type": type(error).__name__, "message": clean(message, 1000)}
            link.send(make_frame("fail", job_id, error={**described, "retryable": False}))

    def _on_hello(self, link: Link, frame: Dict[str, Any]) -> None:
        if frame["protocol"] != PROTOCOL:
            raise ProtocolError(f"ojs-init speaks version {frame['protocol']!r} of the protocol, this is {PROTOCOL}")
        if self._is_greeted:
            return
        self._is_greeted = True
        self.worker_id = typed(frame.get("worker_id"), str, None)
        self._max_frame = typed(frame.get("max_frame"), int, DEFAULT_MAX_FRAME)
        self._on_lifecycle(frame.get("state", "running"), None, None)
        offered = min(max(typed(frame.get("concurrency"), int, 1), 1), MAX_CONCURRENCY)
        self.concurrency = min(self.concurrency or offered, offered)
        if not self._is_ending:
            link.send(self._ready_frame(self.concurrency), done=None if self._parent is None else self._parent.ready)

    def _on_lifecycle(self, state: str, reason: Optional[str], remaining_ms: Optional[float]) -> None:
        if state not in ("running", "quiet", "terminate"):
            raise ValueError(f"no such state: {state!r}")
        if self._state == "terminate" and state != "terminate":
            return
        if state != self._state:
            # In a test of a handler it is nobody's news.
            log.log(logging.INFO if self._before_handler is None else logging.DEBUG, "%s (%s)", state, reason or "at start")
        self._state = state
        if remaining_ms is not None:
            self._deadline = time.monotonic() + remaining_ms / 1000
        if state == "terminate":
            if self._parent is not None:
                self._parent.terminating()
            with self._lock:
                jobs = list(self._held)
            for job in jobs:
                job._set_stopping()

    def _on_job(self, link: Link, envelope: Dict[str, Any], raw: str, checkpoint: Any) -> None:
        job_id = envelope["id"]
        if not isinstance(job_id, str):
            raise TypeError(f"the id of a job is no string: {job_id!r}")
        if self._gives_back:
            # On its way when we said that we take no more.
            link.send(make_frame("release", job_id, reason="the worker is ending"))
            return
        kind = envelope.get("type")
        if not isinstance(kind, str) or self._handler_for(kind) is None:
            # Without a type it is a job without a handler, also where there is one for every type.
            what = clean(kind, 200) if isinstance(kind, str) else "a job without a type"
            message = f"this worker has no handler for {what}"
            self._refuse(link, job_id, "handler_not_found", message, True)
            return
        job = self._make_job(envelope, raw, checkpoint)
        with self._lock:
            is_held = any(other.id == job_id for other in self._held)
            if not is_held:
                self._held.add(job)
                self._answers.pop(job_id, None)
        if is_held:
            log.warning("job %s came again while its handler runs, which goes on", job_id)
        else:
            self._start(job)

    def _refuse(self, link: Link, job_id: str, code: str, message: str, retryable: bool) -> None:
        log.error("job %s: %s", job_id, message)
        link.send(make_frame("fail", job_id, error={"code": code, "message": message, "retryable": retryable}))

    def _on_cancel(self, job_id: str, reason: str) -> None:
        with self._lock:
            jobs = [job for job in self._held if job.id == job_id]
        for job in jobs:
            self._cancel(job, clean(reason, 200))

    def _cancel_all(self, reason: str) -> int:
        with self._lock:
            jobs = list(self._held)
        for job in jobs:
            self._cancel(job, reason)
        return len(jobs)

    def _cancel(self, job: J, reason: str) -> None:
        if job.cancel_reason is None:
            level = logging.INFO if self._before_handler is None else logging.DEBUG
            log.log(level, "job %s is cancelled: %s", job.id, reason)
            job.cancel_reason = reason
            job._set_cancelled()

    def _on_ok(self, job_id: str, about: str) -> None:
        with self._lock:
            if self._answers.get(job_id) == about:
                del self._answers[job_id]

    def _on_error(self, link: Link, code: str, message: Any, job_id: Optional[str]) -> None:
        if job_id == NOBODYS_JOB:
            self._settled_at = time.monotonic()
            self._is_replaced = False
            return
        text = clean(message, 1000)
        with self._lock:
            is_held = any(job.id == job_id for job in self._held)
            answer = None if job_id is None or is_held else self._answers.pop(job_id, None)
        if code in ("lost", "not_held"):
            level = logging.WARNING if is_held or answer == "ack" else logging.DEBUG
            log.log(level, "job %s: %s: %s", job_id, code, text)
            if is_held and job_id is not None:
                self._on_cancel(job_id, "lost")
        elif code == "refused" and answer == "ack":
            log.warning("job %s: the backend refuses its result, ojs-init reports it without: %s", job_id, text)
        elif code == "unsupported_protocol":
            raise ProtocolError(f"ojs-init does not speak version {PROTOCOL} of the protocol: {text}")
        elif code in ("not_json", "invalid_frame", "frame_too_long"):
            log.error("ojs-init refuses a frame (job %s): %s: %s", job_id, code, text)
            if job_id is not None and answer in ("ack", "release"):
                message = f"the handler's answer was refused: {code}: {text}"
                self._refuse(link, job_id, "handler_error", message, False)
        elif code == "not_offered":
            if text not in self._said and len(self._said) < 100:
                self._said.add(text)
                log.warning("the backend does not offer this (said once): %s", text)
        else:
            log.warning("job %s: ojs-init says %s: %s", job_id, code, text)
