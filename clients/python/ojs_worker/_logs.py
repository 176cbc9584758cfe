"""Log lines that say which job they are about: the current job, a JSON formatter, and the level of
one job."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import queue
import sys
import threading
import time
import traceback
from typing import Any, Dict, Iterator, List, Optional, TextIO, Tuple, Union

from ._basics import MAX_LOGGED, dump, log, text_of
from ._jobs import AnyJob

LEVELS = {"trace": 5, "debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40, "fatal": 50, "critical": 50}
SEVERITIES = ((50, "FATAL", 21), (40, "ERROR", 17), (30, "WARN", 13), (20, "INFO", 9), (10, "DEBUG", 5), (0, "TRACE", 1))
MAX_LINES = 100
"""The most lines that wait for a log."""
_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "ojs_job"}

_current: contextvars.ContextVar[Optional[AnyJob]] = contextvars.ContextVar("ojs_job", default=None)


def current_job() -> Optional[AnyJob]:
    """The job whose handler runs here; None outside of handlers, and in threads that a handler has
    started."""
    return _current.get()


def trace_of(job: AnyJob) -> Dict[str, str]:
    """The trace of a job: `trace_id`, and `span_id` where it is known."""
    meta, parts = job.meta, str(job.traceparent).split("-")
    if len(parts) >= 4 and len(parts[1]) == 32 and len(parts[2]) == 16:
        return {"trace_id": parts[1], "span_id": parts[2]}
    return {"trace_id": str(meta["trace_id"])[:200]} if "trace_id" in meta else {}


class ContextFilter(logging.Filter):
    """Notes in a record which job it is about, for a handler that passes records to another thread,
    as `logging.handlers.QueueHandler` does. `LogFormatter` finds the job by itself everywhere else.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.ojs_job = _job_of(record)
        return True


class LogFormatter(logging.Formatter):
    """One JSON object a line, as in ojs-init's own log. Lines that are logged while a handler runs,
    those of libraries included, have the job's id, type, queue, attempt and trace."""

    def format(self, record: logging.LogRecord) -> str:
        severity, number = next((name, number) for least, name, number in SEVERITIES if record.levelno >= least)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        job = _job_of(record)
        line: Dict[str, Any] = {
            "timestamp": f"{moment}.{int(record.msecs):03d}Z", "severity": severity, "severity_number": number,
            "message": record.getMessage()[:MAX_LOGGED], "category": "worker",
            "component": "worker" if job is None else "handler",
        }  # fmt: skip
        if job is not None:
            line["ojs"] = {"job_id": job.id, "job_type": job.type, "queue": job.queue, "attempt": job.attempt}
            line.update({"trace": trace} if (trace := trace_of(job)) else {})
        kind, error, stack = record.exc_info or (None, None, None)
        if kind is not None:
            # The end of a stack has what was raised.
            text = "".join(traceback.format_exception(kind, error, stack))[-MAX_LOGGED:]
            line["error"] = {"type": kind.__name__, "message": text_of(error)[:MAX_LOGGED], "stack": text}
        extras = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line["attributes"] = {"logger": record.name, **extras}
        try:
            text = dump(line, text_of)
        except Exception:  # NaN, a cycle, a key that is no string.
            line["attributes"] = {"logger": record.name, **{name: text_of(value) for name, value in extras.items()}}
            text = dump(line, text_of)
        return text.encode("utf-8", "replace").decode("utf-8")


def _job_of(record: logging.LogRecord) -> Optional[AnyJob]:
    return getattr(record, "ojs_job", None) or _current.get()


class LateLog:
    """Logs for a thread that must not wait, on a thread of its own: nobody may read the log. Lines
    that do not fit are dropped."""

    def __init__(self) -> None:
        self._lines: queue.Queue[Tuple[Any, ...]] = queue.Queue(MAX_LINES)
        self._thread: Optional[threading.Thread] = None

    def add(self, level: int, text: str, *args: Any) -> None:
        """Log this line soon."""
        with contextlib.suppress(queue.Full, RuntimeError):  # No thread can be started.
            self._lines.put_nowait((level, text, *args))
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="ojs-log", daemon=True)
                thread.start()
                self._thread = thread

    def flush(self, seconds: float) -> None:
        """Wait until all lines are logged, for at most so long."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, seconds)

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            with contextlib.suppress(Exception):  # A handler of the program's own.
                log.log(*line)
            self._lines.task_done()


class _Levels:
    """The level of everything, and those of single jobs. Loggers ask for the level before there is
    a record, so the root logger has the lowest of them, and a filter looks at each record."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: Optional[int] = None
        self._own: List[int] = []

    def filter(self, record: logging.LogRecord) -> bool:
        job = _job_of(record)
        level = None if job is None else _level_of(job)
        return record.levelno >= (self._base or 0 if level is None else level)

    def change(self, base: Optional[int] = None, adds: Optional[int] = None, drops: Optional[int] = None) -> None:
        with self._lock:
            self._base = self._base if base is None else base
            self._own += [] if adds is None else [adds]
            if drops is not None:
                self._own.remove(drops)
            if self._base is not None:
                logging.getLogger().setLevel(min([self._base, *self._own]))


_levels = _Levels()


def install_logging(
    level: Union[str, int] = "info", *, handler: Optional[logging.Handler] = None, stream: Optional[TextIO] = None
) -> logging.Handler:
    """Log everything of this process to standard error as JSON lines, in the format of ojs-init's
    own log.

    `stream` is another file, `handler` another logging handler: it replaces those of the root
    logger. From then on ``meta.log_level`` of a job sets the level for that job alone. Loggers with
    a level of their own keep it.
    """
    number = LEVELS.get(level.lower()) if isinstance(level, str) else level
    if number is None:
        raise ValueError(f"a log level is a number, or one of {', '.join(LEVELS)}, not {level!r}")
    chosen = handler or logging.StreamHandler(stream or sys.stderr)
    chosen.setFormatter(LogFormatter())
    chosen.addFilter(ContextFilter())
    chosen.addFilter(_levels.filter)
    logging.addLevelName(LEVELS["trace"], "TRACE")
    logging.basicConfig(handlers=[chosen], force=True)
    _levels.change(base=number)
    return chosen


def _level_of(job: AnyJob) -> Optional[int]:
    """The level that a job asks for."""
    name = job.meta.get("log_level")
    return LEVELS.get(name.lower()) if isinstance(name, str) else None


@contextlib.contextmanager
def context_of(job: AnyJob) -> Iterator[None]:
    """Lines that are logged in here are about this job."""
    token = _current.set(job)
    level = _level_of(job)
    if level is not None:
        _levels.change(adds=level)
    try:
        yield
    finally:
        if level is not None:
            _levels.change(drops=level)
        _current.reset(token)
