"""Log lines that say which job they are about: context, formatter, and the level of one job."""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import re
import sys
import threading
import time
import traceback
from typing import Any, Dict, Iterator, List, Optional, TextIO, Union

from ._jobs import AnyJob
from ._json import clean

TRACE = 5
"""The Open Job Spec's level below DEBUG, as a number of :mod:`logging`."""

_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "critical": logging.CRITICAL,
}
# The lowest level of each of the specification's severities.
_SEVERITIES = ((50, "FATAL", 21), (40, "ERROR", 17), (30, "WARN", 13), (20, "INFO", 9), (10, "DEBUG", 5), (0, "TRACE", 1))
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?\Z")
_MAX_TEXT = 10_000
_KNOWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "ojs_job"}

_current: "contextvars.ContextVar[Optional[AnyJob]]" = contextvars.ContextVar("ojs_job", default=None)


def current_job() -> Optional[AnyJob]:
    """The job whose handler runs here; None outside of handlers, and in threads that a handler has started."""
    return _current.get()


def level_of(name: Union[str, int]) -> int:
    """The number of a level: ``"debug"``, ``"INFO"``, ``logging.WARNING``."""
    if isinstance(name, int) and not isinstance(name, bool):
        return name
    level = _LEVELS.get(name.lower()) if isinstance(name, str) else None
    if level is None:
        raise ValueError(f"a log level is trace, debug, info, warn, error, fatal or a number, not {name!r}")
    return level


def trace_of(meta: Dict[str, Any]) -> Dict[str, str]:
    """The trace that a job was enqueued in: `trace_id`, and `span_id` where it is known."""
    parent = meta.get("traceparent")
    match = _TRACEPARENT.match(parent) if isinstance(parent, str) else None
    if match:
        return {"trace_id": match.group(1), "span_id": match.group(2)}
    trace_id = meta.get("trace_id")
    return {"trace_id": clean(trace_id, 200)} if isinstance(trace_id, str) and trace_id else {}


class ContextFilter(logging.Filter):
    """Notes in a record which job it is about. For a handler that passes records to another thread, as
    :class:`logging.handlers.QueueHandler` does; everywhere else :class:`LogFormatter` finds the job by itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true."""
        if not hasattr(record, "ojs_job"):
            record.ojs_job = _current.get()
        return True


class LogFormatter(logging.Formatter):
    """One JSON object a line, as ojs-init's own log; with the job's id, type, queue, attempt and trace in each line that
    is logged while a handler runs, lines of libraries included."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its line break."""
        severity, number = next((name, n) for least, name, n in _SEVERITIES if record.levelno >= least or not least)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        job: Optional[AnyJob] = getattr(record, "ojs_job", None) or _current.get()
        line: Dict[str, Any] = {
            "timestamp": f"{moment}.{int(record.msecs):03d}Z",
            "severity": severity,
            "severity_number": number,
            "message": _message(record),
            "category": "worker",
            "component": "worker" if job is None else "handler",
        }
        if job is not None:
            line["ojs"] = _about(job)
            trace = trace_of(job.meta)
            if trace:
                line["trace"] = trace
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = _error(record.exc_info[1])
        line["attributes"] = {"logger": record.name, **_extras(record)}
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=lambda value: clean(value, 1000))


def _message(record: logging.LogRecord) -> str:
    try:
        return clean(record.getMessage(), _MAX_TEXT)
    except Exception as error:  # arguments that do not fit the text must not cost the line
        return clean(f"{record.msg} ({type(error).__name__}: {error})", _MAX_TEXT)


def _about(job: AnyJob) -> Dict[str, Any]:
    about: Dict[str, Any] = {"job_id": job.id, "job_type": job.type, "queue": job.queue}
    if job.attempt is not None:
        about["attempt"] = job.attempt
    return about


def _error(error: BaseException) -> Dict[str, str]:
    try:
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception as broken:  # a __str__ of the program's own
        stack = f"(no stack: {type(broken).__name__})"
    # What was raised stands at the end.
    stack = stack if len(stack) <= _MAX_TEXT else "..." + stack[-_MAX_TEXT:]
    return {"type": type(error).__name__, "message": clean(error, _MAX_TEXT), "stack": clean(stack, _MAX_TEXT + 3)}


def _extras(record: logging.LogRecord) -> Dict[str, Any]:
    """What the program gave as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _KNOWN and _is_plain(value)}


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        return False
    return True


class _Levels:
    """The level of everything, and of the jobs that have one of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: Optional[int] = None
        self._own: List[int] = []

    def install(self, base: int) -> None:
        with self._lock:
            self._base = base
            self._apply()

    def _apply(self) -> None:
        # Loggers ask for the level before there is a record. So the lowest counts for all, and `lets_pass` decides.
        if self._base is not None:
            logging.getLogger().setLevel(min([self._base, *self._own]))

    def lets_pass(self, record: logging.LogRecord) -> bool:
        job = getattr(record, "ojs_job", None) or _current.get()
        own = None if job is None else own_level(job)
        least = own if own is not None else self._base
        return least is None or record.levelno >= least

    @contextlib.contextmanager
    def of(self, level: int) -> Iterator[None]:
        with self._lock:
            self._own.append(level)
            self._apply()
        try:
            yield
        finally:
            with self._lock:
                self._own.remove(level)
                self._apply()


_levels = _Levels()


class _LevelFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return _levels.lets_pass(record)


def install_logging(
    level: Union[str, int] = "info",
    *,
    handler: Optional[logging.Handler] = None,
    stream: Optional[TextIO] = None,
) -> logging.Handler:
    """Log everything of this process as JSON lines to standard error, in the format of ojs-init's own log.

    `handler` is another one than that to standard error (`stream`: than to that file). It gets a
    :class:`LogFormatter`, and takes over the root logger, whose other handlers are removed. From then on a job's
    ``meta.log_level`` sets the level for that job alone. Loggers with a level of their own keep it.
    """
    number = level_of(level)
    chosen = handler if handler is not None else logging.StreamHandler(stream if stream is not None else sys.stderr)
    chosen.setFormatter(LogFormatter())
    chosen.addFilter(ContextFilter())
    chosen.addFilter(_LevelFilter())
    logging.addLevelName(TRACE, "TRACE")
    root = logging.getLogger()
    for other in list(root.handlers):
        root.removeHandler(other)
    root.addHandler(chosen)
    _levels.install(number)
    return chosen


def own_level(job: AnyJob) -> Optional[int]:
    """The level that a job asks for; None if it asks for none that is known."""
    name = job.meta.get("log_level")
    return _LEVELS.get(name.lower()) if isinstance(name, str) else None


@contextlib.contextmanager
def context_of(job: AnyJob) -> Iterator[None]:
    """Lines that are logged in here are about this job."""
    token = _current.set(job)
    level = own_level(job)
    try:
        if level is None:
            yield
        else:
            with _levels.of(level):
                yield
    finally:
        _current.reset(token)
