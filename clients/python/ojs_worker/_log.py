"""The logger of this package."""

from __future__ import annotations

import logging

log = logging.getLogger("ojs_worker")
