"""The threads of `asyncio.to_thread` under an :class:`AsyncWorker`."""

from __future__ import annotations

import concurrent.futures
import os
import threading
from typing import Any, Callable

from . import _limits
from ._threads import Pool

_MOST_THREADS = min(32, (os.cpu_count() or 1) + 4)  # as many as Python's own


class Executor(concurrent.futures.ThreadPoolExecutor):
    """Runs what `asyncio.to_thread` and `run_in_executor(None, ...)` are given.

    Python waits for the threads of its own one before a loop, and before a process, ends. One of them may hang, or be left
    by a handler that gave it up, and the worker has to end all the same. An event loop takes only a ThreadPoolExecutor.
    """

    def __init__(self) -> None:
        super().__init__(_MOST_THREADS)
        self._pool = Pool(lambda: _MOST_THREADS, "ojs-async")
        self._is_shut = False
        self._unfinished = 0
        self._changed = threading.Condition()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "concurrent.futures.Future[Any]":
        """Call the function on a thread."""
        future: "concurrent.futures.Future[Any]" = concurrent.futures.Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result = fn(*args, **kwargs)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            with self._changed:
                self._unfinished -= 1
                self._changed.notify_all()

        with self._changed:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._unfinished += 1
            if not self._pool.submit(work):
                self._unfinished -= 1
                raise RuntimeError("can't start new thread")
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What runs may finish, but not for long."""
        with self._changed:
            if not self._is_shut:
                self._is_shut = True
                self._pool.close()
            if wait:
                self._changed.wait_for(lambda: not self._unfinished, _limits.STOP_GRACE)
