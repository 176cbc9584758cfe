"""Numbers that do not change while a worker runs."""

from __future__ import annotations

import platform
import signal

__version__ = "0.2.0"

PROTOCOL = 1
ENV_SOCKET = "OJS_SOCKET"
ENV_MODE = "OJS_MODE"
# The modes of ojs-init in which it gives no socket to the worker.
MODES_WITHOUT_SOCKET = ("gateway", "exec", "none")

MAX_BACKTRACE_FRAMES = 50
MAX_BACKTRACE_CHARS = 10_000
MAX_MESSAGE_CHARS = 10_000
DEFAULT_MAX_FRAME = 4 * 1024 * 1024

EOF_GRACE = 1.0
"""Seconds that handlers get to end when ojs-init has closed the connection."""
WRITE_TIMEOUT = 10.0
"""Seconds that a frame may wait for ojs-init to read."""
NOBODYS_JOB = "ojs-worker-nobody"
"""A job that nobody has: what ojs-init says about it tells how far it has read."""
SETTLE_TIME = 2.0
"""Seconds that it has to say so, after we said on our own that we take no more jobs: one may be on its way."""
SIGNAL_SETTLE_TIME = 0.25
"""The same after a signal, when there is less time."""
STOP_GRACE = 0.5
"""Seconds that handlers get, by default, to end after SIGTERM; ojs-init kills soon after that."""
MAX_STOP_GRACE = 86400.0
"""Longest that can be asked for, in seconds."""
LONGEST_WAIT = 86400.0
"""Seconds; the system takes no more than 24 days."""
MAX_DEPTH = 100
"""How deep a frame may be nested, itself included."""
MAX_CONCURRENCY = 10_000
MAX_TYPES = 10_000
MAX_NAME_BYTES = 1024

MAX_TIMEOUT_MS = 100 * 366 * 86_400_000
"""A job that may take longer has no deadline."""

READ_SIZE = 256 * 1024
WRITE_BUDGET = 1024 * 1024
REMEMBERED_ANSWERS = 1024
REMEMBERED_STEPS = 10_000
CUT_OFF_STATUS = 128 + signal.SIGTERM
CLIENT = f"ojs-worker-python/{__version__} ({platform.python_implementation()} {platform.python_version()})"
