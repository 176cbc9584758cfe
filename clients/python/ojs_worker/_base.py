"""What every part of a worker knows: its options, its handlers, the jobs that it holds."""

from __future__ import annotations

import collections
import os
import signal
import socket
import threading
import time
from typing import Any, Callable, Dict, Generic, List, Optional, Sequence, Set, Tuple, TypeVar

from ._errors import ConnectionLost, ForkedProcess, NotUnderOjsInit, OjsError, ProtocolError
from ._handlers import check_signature
from ._jobs import AnyJob
from ._json import dump, make_frame, typed
from ._limits import CLIENT, DEFAULT_MAX_FRAME, MAX_CONCURRENCY, MAX_NAME_BYTES, MAX_STOP_GRACE, MAX_TYPES
from ._limits import PROTOCOL, REMEMBERED_STEPS, STOP_GRACE
from ._link import Link, Outgoing
from ._log import log
from ._options import checks_options
from ._parent import Limits, Parent
from ._perform import Outcome, given, in_a_place, perform
from ._processes import Processes, check, offered
from ._typed import reader_of_args

J = TypeVar("J", bound=AnyJob)


def _checked_stop_grace(value: Optional[float]) -> Optional[float]:
    """What is no time is an error at once: else a signal would find that out."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_STOP_GRACE:
        raise ValueError(f"stop_grace is a number of seconds up to {MAX_STOP_GRACE:g}, or None to wait, not {value!r}")
    return value


class Base(Generic[J]):
    """What both workers share: the protocol."""

    def __init__(
        self,
        concurrency: Optional[int] = None,
        *,
        socket_path: Optional[str] = None,
        handle_signals: bool = True,
        stop_grace: Optional[float] = STOP_GRACE,
    ) -> None:
        if concurrency is not None and typed(concurrency, int, 0) not in range(1, MAX_CONCURRENCY + 1):
            raise ValueError(f"concurrency is a whole number from 1 to {MAX_CONCURRENCY}, not {concurrency!r}")
        self.concurrency: int = concurrency or 0
        """Most jobs at once. Without a number of its own a worker takes as many as ojs-init allows (OJS_CONCURRENCY),
        which is known once connected; 0 before."""
        self._stop_grace = _checked_stop_grace(stop_grace)
        self.worker_id: Optional[str] = None
        """The name that ojs-init has towards the backend; known once connected."""
        self._socket_path = socket_path
        self._handles_signals = handle_signals
        self._handlers: Dict[str, Callable[[Any], Any]] = {}
        self._middleware: List[Callable[[Any, Callable[[], Any]], Any]] = []
        self._processes: Optional[Processes] = None
        self._parent: Optional[Parent] = None
        self._blocked: Any = None
        self._before_handler: Optional[Callable[[], None]] = None
        self._steps: Dict[Tuple[str, str], float] = {}
        self._link: Optional[Link] = None
        self._state = "running"
        self._deadline: Optional[float] = None
        self._max_frame = DEFAULT_MAX_FRAME
        # Guards `_held`, `_answers` and the jobs' `_is_over`; taken before the link's own lock, never after it.
        self._lock = threading.Lock()
        self._all_over = threading.Condition(self._lock)
        self._held: Set[J] = set()
        self._answers: "collections.OrderedDict[str, str]" = collections.OrderedDict()
        self._is_greeted = False
        self._stop_asked = False
        self._is_stopping = False
        # It makes place for another process, and ojs-init may not know yet that it takes no more jobs.
        self._is_replaced = False
        self._is_signalled = False
        self._was_signalled = False
        self._cut_off_at: Optional[float] = None
        self._is_aborted = False
        self._settled_at: Optional[float] = None
        self._flushing_since: Optional[float] = None
        self._exit: Optional[BaseException] = None
        self._said: Set[str] = set()
        self._owns_process = True

    def _register(self, types: Tuple[str, ...], shape: Any) -> Callable[[Any], Any]:
        if any(not isinstance(name, str) for name in types):
            raise TypeError('use it as @worker.job("some.type")')
        if any(not 1 <= len(name.encode("utf-8")) <= MAX_NAME_BYTES for name in types):
            raise ValueError(f"a job type has 1 to {MAX_NAME_BYTES} bytes")
        if len(self._handlers) + len(types) > MAX_TYPES:
            raise ValueError(f"more than {MAX_TYPES} job types")
        read = None if shape is None else reader_of_args(shape)

        def register(handler: Any) -> Any:
            self._check_function(handler, "a handler")
            check_signature(handler, "a handler", ("job",) if shape is None else ("job", "args"))
            for name in types or ("*",):
                if name in self._handlers:
                    raise ValueError(f"there are two handlers for {name!r}")
                self._handlers[name] = handler if read is None else _with_args(handler, read)
            return handler

        return register

    def _add_middleware(self, function: Any) -> None:
        self._check_function(function, "a middleware")
        check_signature(function, "a middleware", ("job", "call_next"))
        self._middleware.append(function)

    # For the program

    @checks_options("worker.run")
    def run(
        self,
        processes: Optional[int] = None,
        *,
        max_jobs: Optional[int] = None,
        max_age: Optional[float] = None,
        max_memory: Optional[int] = None,
    ) -> None:
        """Take jobs until ojs-init, a signal or `stop` says that it is enough, and what is held is finished.

        With `processes`, so many are forked that share OJS_CONCURRENCY. Those that end are replaced; and so is one that has
        done `max_jobs` jobs, is `max_age` seconds old, or has `max_memory` bytes, which takes jobs until its replacement
        does. Raises SystemExit with the worst status of those that ended badly in the stop.
        """
        limits = Limits(max_jobs, max_age, max_memory)
        check(processes, limits)
        if processes is None:
            return self._run()
        if self._link is not None or self._processes is not None:
            raise OjsError("a worker runs once; when it has ended, let the process end too")
        if not self._handlers:
            raise OjsError('no handler: decorate one with @worker.job("some.type")')
        total = min(offered(), self.concurrency or MAX_CONCURRENCY)
        self._processes = Processes(processes, total, limits, lambda *child: self._run_child(limits, *child))
        if self._stop_asked:
            self._processes.finish()
        status = self._processes.run()
        if status:
            raise SystemExit(status)

    def _run_child(self, limits: Limits, share: int, sock: socket.socket, mask: Any) -> int:
        """In a forked process; its exit status."""
        self._processes = None
        self._parent = Parent(sock, limits)
        self._blocked = mask
        self.concurrency = share
        try:
            if not self._handles_signals:
                self._signals_are_ours()
            self._run()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except (ConnectionLost, NotUnderOjsInit, ProtocolError) as error:
            if not isinstance(error, ConnectionLost) or not self._is_greeted:
                self._parent.lost()
            # Else ojs-init may have ended this connection alone. Should it be gone, the replacement finds that out.
            log.error("%s", error)
            return 1
        except BaseException:
            log.critical("the worker failed", exc_info=True)
            return 1
        return 0

    def _signals_are_ours(self) -> None:
        """The handlers for them are there: what came since the fork may come now."""
        if self._blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
            self._blocked = None

    @checks_options("worker.perform")
    def perform(
        self,
        type: str,
        args: Sequence[Any] = (),
        *,
        id: str = "perform-1",
        queue: str = "default",
        attempt: int = 1,
        meta: Optional[Dict[str, Any]] = None,
        checkpoint: Any = None,
        timeout: Optional[float] = None,
        stopping: Optional[float] = None,
        cancel: Optional[str] = None,
        cancel_after: float = 0.0,
        envelope: Optional[Dict[str, Any]] = None,
        patience: float = 60.0,
    ) -> Outcome:
        """Run the handler of a job in this process, by the code that serves ojs-init, over a socket of its own. For tests.

        Arguments and result go through JSON, middleware is around it, errors become failures. `checkpoint` is what an
        earlier attempt saved; after `timeout` seconds the job is cancelled; `stopping`: the worker is being shut down
        from the beginning of the handler, with so many seconds left; `cancel` is the reason of a cancel, `cancel_after`
        seconds after that. `envelope` are further fields of the job. The handler has to end within `patience` seconds.
        """
        what = given(
            type, args, id=id, queue=queue, attempt=attempt, meta=meta, checkpoint=checkpoint, timeout=timeout,
            stopping=stopping, cancel=cancel, cancel_after=cancel_after, envelope=envelope, patience=patience,
        )  # fmt: skip
        dump(what.job)
        with in_a_place() as place:
            path = os.path.join(place, "s")
            twin = self._twin(path)
            twin._owns_process = False  # it is that of the tests, which go on
            twin._handlers, twin._middleware, twin._steps = self._handlers, self._middleware, self._steps
            return perform(twin, path, twin._run, what)

    @property
    def state(self) -> str:
        """running, quiet or terminate."""
        return self._state

    def remaining(self) -> Optional[float]:
        """Seconds until the stop phase, when what is not finished is cut off; None while nothing shuts down."""
        deadline = self._deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def stop(self) -> None:
        """Take no more jobs, finish those that are held, then let `run` return. From any thread or signal handler."""
        self._stop_asked = True
        processes = self._processes
        if processes is not None and processes.pid == os.getpid():
            processes.finish()
        link = self._link
        if link is not None and link.pid == os.getpid():
            link.wake()

    # For the jobs

    def usual_step(self, kind: str, name: str) -> float:
        """Seconds that a step took when this process last did it; 0 where it did not."""
        return self._steps.get((kind, name), 0.0)

    def note_step(self, kind: str, name: str, seconds: float) -> None:
        """A step took so long."""
        if len(self._steps) < REMEMBERED_STEPS or (kind, name) in self._steps:
            self._steps[kind, name] = seconds

    def tell(self, job: AnyJob, data: bytes, done: Callable[[], None]) -> Tuple[Link, Outgoing]:
        """Send something about a job, if this process may say that about it now."""
        link = self._link
        if link is not None and link.pid != os.getpid():
            raise ForkedProcess(
                f"the connection to ojs-init belongs to process {link.pid}, this is process {os.getpid()}, forked from "
                "it: leave the job's progress to the parent, or make and run a Worker of its own in each process"
            )
        if not self._fits(data):
            raise ValueError(f"{len(data)} bytes are more than ojs-init takes at once ({self._max_frame})")
        with self._lock:
            if link is None or job._is_over:
                raise OjsError(f"job {job.id} was answered already")
            return link, link.send(data, done=done)

    def _fits(self, data: bytes) -> bool:
        return len(data) - 1 <= self._max_frame

    @property
    def _is_ending(self) -> bool:
        return self._is_stopping or self._state == "terminate"

    @property
    def _gives_back(self) -> bool:
        """Whether a job that comes goes back. ojs-init fetches nothing for a while after one: who is replaced takes those that
        were on their way."""
        return self._is_ending and not (self._is_replaced and self._state != "terminate")

    def _ready_frame(self, concurrency: int) -> bytes:
        types = None if "*" in self._handlers else list(self._handlers)
        return make_frame("ready", protocol=PROTOCOL, concurrency=concurrency, types=types, ping=True, ok=False, client=CLIENT)

    # What the two kinds of worker do differently

    def _check_function(self, function: Any, what: str) -> None:
        """Whether it is of the kind that this worker can call."""
        raise NotImplementedError

    def _twin(self, path: str) -> Base[J]:
        """A worker of the same kind at another socket, for one job."""
        raise NotImplementedError

    def _run(self) -> None:
        """Take jobs until the end, in this process."""
        raise NotImplementedError

    def _make_job(self, envelope: Dict[str, Any], raw: str, checkpoint: Any) -> J:
        raise NotImplementedError

    def _start(self, job: J) -> None:
        raise NotImplementedError

    def _abandon_handlers(self) -> None:
        """The connection is gone: end the handlers where that is possible."""


def _with_args(handler: Callable[[Any, Any], Any], read: Callable[[List[Any]], Any]) -> Callable[[Any], Any]:
    return lambda job: handler(job, read(job.args))
