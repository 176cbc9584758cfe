"""The connection from its beginning to its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from typing import Any, Dict, Optional, Tuple

from . import _ending, _limits
from ._base import J
from ._errors import ConnectionLost, NotUnderOjsInit, OjsError, Stalled
from ._incoming import Incoming
from ._json import clean, make_frame
from ._limits import CUT_OFF_STATUS, ENV_MODE, ENV_SOCKET, MODES_WITHOUT_SOCKET
from ._link import Link, signals_wait
from ._log import log
from ._parent import REPLACED


class Core(Incoming[J]):
    # The connection

    def _prepare(self) -> Tuple[Link, str]:
        """The connection that will be, and where to."""
        if self._link is not None:
            raise OjsError("a worker runs once; when it has ended, let the process end too")
        if not self._handlers:
            raise OjsError('no handler: decorate one with @worker.job("some.type")')
        path = self._socket_path or os.environ.get(ENV_SOCKET)
        if not path:
            mode = os.environ.get(ENV_MODE)
            if mode in MODES_WITHOUT_SOCKET:
                raise NotUnderOjsInit(
                    f"{ENV_SOCKET} is not set, because ojs-init runs in mode {mode}: leave {ENV_MODE} out, or set it to socket"
                )
            raise NotUnderOjsInit(
                f"{ENV_SOCKET} is not set: this is a worker for ojs-init, which starts it and gives it jobs. "
                f"Run it as: ojs-init -- python3 {clean(sys.argv[0] or 'worker.py', 200)}"
            )
        self._link = Link(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        return self._link, path

    def _serve_connection(self, link: Link, path: str) -> None:
        """Until there is nothing left to do. The thread that is in here never waits for a handler."""
        stays_open = False
        try:
            try:
                link.connect(path)
            except OSError as error:
                raise NotUnderOjsInit(f"cannot connect to ojs-init at {path} ({ENV_SOCKET}): {error}") from error
            while True:
                self._look_at_parent(link)
                self._stop_if_asked(link)
                if self._is_aborted:
                    return
                if self._may_end(link):
                    stays_open = self._is_greeted and self._state != "terminate"
                    return
                for line in link.round(self._patience()):
                    self._on_line(link, line)
                if link.eof:
                    break
        finally:
            self._is_replaced = False
            if link.before_close is not None:
                link.before_close()
            if not stays_open or not self._linger(link):
                link.close()
        self._on_eof()

    def _linger(self, link: Link) -> bool:
        """ojs-init judges a process by its connection, which stays open until the process ends. A job that comes all the same
        is given back."""

        def serve() -> None:
            with contextlib.suppress(OjsError):
                while not link.eof:
                    for line in link.round(None):
                        self._on_line(link, line)
            link.close()

        link.watch(None)
        try:
            threading.Thread(target=serve, name="ojs-linger", daemon=True).start()
        except RuntimeError:  # no thread is to be had
            return False
        return True

    def _look_at_parent(self, link: Link) -> None:
        parent = self._parent
        if parent is None:
            return
        parent.look()
        word = parent.says()
        if word:
            self._is_replaced = word == REPLACED and not self._stop_asked
            self._stop_asked = True
        link.watch(parent.fileno())

    def _stop_if_asked(self, link: Link) -> None:
        if self._is_signalled:
            # ojs-init sends SIGTERM to those that are idle, and to those that it gives up on.
            self._is_signalled = False
            self._was_signalled = self._stop_asked = True
            self._is_replaced = False
            if self._settled_at is not None:
                self._settled_at = min(self._settled_at, time.monotonic() + _limits.SIGNAL_SETTLE_TIME)
            if self._cut_off_at is None and self._stop_grace is not None:
                self._cut_off_at = time.monotonic() + self._stop_grace
            self._cancel_all("shutdown")
        if self._stop_asked and not self._is_stopping:
            self._begin_stop(link)
        if self._cut_off_at is not None and time.monotonic() >= self._cut_off_at and self._held:
            log.error("%d handlers have not ended within %s s of a signal", len(self._held), self._stop_grace)
            _ending.end_now(CUT_OFF_STATUS)

    def _begin_stop(self, link: Link) -> None:
        self._is_stopping = True
        if not self._is_greeted or self._state == "terminate":
            return

        def settle() -> None:
            seconds = _limits.SIGNAL_SETTLE_TIME if self._was_signalled else _limits.SETTLE_TIME
            self._settled_at = time.monotonic() + seconds

        ready = self._ready_frame(0)
        if not self._was_signalled:
            # ojs-init answers this behind the last job that it sends us.
            ready += make_frame("heartbeat", _limits.NOBODYS_JOB)
        link.send(ready, done=settle)

    def _may_end(self, link: Link) -> bool:
        if not self._is_ending:
            return False
        with self._lock:
            if self._held:
                self._flushing_since = None
                return False
            if link.is_flushed:
                self._flushing_since = None
                return self._state == "terminate" or self._settled_at is None or time.monotonic() >= self._settled_at
            if self._flushing_since is None:
                self._flushing_since = time.monotonic()
            if time.monotonic() < self._flushing_since + _limits.WRITE_TIMEOUT:
                return False
        raise Stalled(f"ojs-init has not read for {_limits.WRITE_TIMEOUT:g} s; ending with answers that it has not got")

    def _patience(self) -> Optional[float]:
        """How long nothing needs to happen by itself."""
        if not self._is_ending:
            return None if self._parent is None else self._parent.patience()
        if self._held:
            return None if self._cut_off_at is None else self._cut_off_at - time.monotonic()
        if self._flushing_since is not None:
            return self._flushing_since + _limits.WRITE_TIMEOUT - time.monotonic()
        return 0 if self._settled_at is None else self._settled_at - time.monotonic()

    def _on_eof(self) -> None:
        held = self._cancel_all("lost")
        if held:
            log.error("ojs-init has closed the connection: %d jobs are abandoned", held)
            self._abandon_handlers()
            with self._all_over:
                is_over = self._all_over.wait_for(lambda: not self._held, _limits.EOF_GRACE)
            if not is_over and self._owns_process:
                log.error("handlers have not ended within %g s of that: the process ends now", _limits.EOF_GRACE)
                _ending.end_now(1)
        elif self._is_ending:
            return
        raise ConnectionLost("ojs-init has closed the connection")

    def _restore_signals(self, before: Dict[signal.Signals, Any], in_child: bool = False) -> None:
        if in_child:
            signal.set_wakeup_fd(-1)
        with signals_wait():
            for number, handler in before.items():
                if number == signal.SIGTERM and handler == signal.SIG_DFL and self._is_ending and not in_child:
                    # The one that ojs-init sends when all is done may still come: the program ends well without it.
                    handler = signal.SIG_IGN
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
