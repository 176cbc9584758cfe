"""The development server of ojs-init, for tests that want a backend.

    from ojs_worker.testing import devserver

    with devserver() as server:
        id = server.enqueue("email.send", ["a@b.c", "hello"])
        ...                                 # an ojs-init with your worker, at server.url
        assert server.job(id)["state"] == "completed"
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, Optional, Sequence, Type

from ._errors import OjsError

__all__ = ["DevServer", "NoDevserver", "devserver"]

ENV_DEVSERVER = "OJS_DEVSERVER"
START_SECONDS = 20.0
END_SECONDS = 5.0
REQUEST_SECONDS = 10.0
LOOK_EVERY = 0.01


class NoDevserver(OjsError):
    """There is no ojs-devserver here."""


class DevServer:
    """A running development server. A context manager: it ends with its block."""

    url: str
    """Where it is; OJS_URL for an ojs-init, and for whoever enqueues."""

    def __init__(self, *options: str) -> None:
        command = os.environ.get(ENV_DEVSERVER) or shutil.which("ojs-devserver")
        if not command:
            raise NoDevserver(
                f"there is no ojs-devserver: put it on PATH, or name it in {ENV_DEVSERVER} "
                "(in the sources of ojs-init: cargo build -p ojs-devserver)"
            )
        self._place = tempfile.TemporaryDirectory(prefix="ojs-devserver-")
        port_file = Path(self._place.name) / "url"
        self._output = tempfile.TemporaryFile()
        words = [command, "serve", "--listen", "127.0.0.1:0", "--port-file", str(port_file), *options]
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output)
        except OSError as error:
            self._place.cleanup()
            raise NoDevserver(f"{command} cannot be started: {error}") from error
        deadline = time.monotonic() + START_SECONDS
        while not port_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._said()
                self.close()
                raise OjsError(f"{command} does not start: {said}")
            time.sleep(LOOK_EVERY)
        self.url = port_file.read_text().strip()

    def enqueue(self, type: str, args: Sequence[Any] = (), **options: Any) -> str:
        """Make a job available; its id. `options` are those of the job: queue, retry, timeout_ms ..."""
        body = {"type": type, "args": list(args), "options": options}
        return str(self._ask("/ojs/v1/jobs", body)["job"]["id"])

    def job(self, id: str) -> Dict[str, Any]:
        """All that is known of a job: `state`, `attempt`, `result`, `errors` ..."""
        job: Dict[str, Any] = self._ask(f"/ojs/v1/jobs/{id}")["job"]
        return job

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._output.close()
        self._place.cleanup()

    def __enter__(self) -> DevServer:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _said(self) -> str:
        self._output.seek(0)
        return self._output.read().decode("utf-8", "replace").strip()[-1000:]

    def _ask(self, path: str, body: Any = None) -> Dict[str, Any]:
        data = None if body is None else json.dumps(body).encode("utf-8")
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
                answered: Dict[str, Any] = json.load(answer)
                return answered
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")
            raise OjsError(f"{path}: {error.code} {text[:500]}") from error


def devserver(*options: str) -> DevServer:
    """Start one, with these options of ``ojs-devserver serve`` besides. Raises :class:`NoDevserver` where there is none."""
    return DevServer(*options)
