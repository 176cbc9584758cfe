"""Ends of a process that wait for nobody."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import NoReturn, Optional


def end_forked_child(error: Optional[BaseException]) -> NoReturn:
    """A handler forked, and its child came back from it. The job is the parent's."""
    status = 0 if error is None else 1
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    end_now(status & 0xFF)


def end_now(status: int) -> NoReturn:
    """Without waiting for handlers, exit hooks or threads of anybody."""
    flusher = threading.Thread(target=flush, daemon=True)
    with contextlib.suppress(RuntimeError):
        flusher.start()
        flusher.join(0.2)
    os._exit(status)


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
