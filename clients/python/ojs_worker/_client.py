"""Enqueues jobs over the backend's HTTP API."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import json
import os
import random
import secrets
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from ._basics import Default, check_names, checks_options, dump, jsonable, shown, typed
from ._errors import Duplicate, EnqueueError

Moment = Union[int, float, datetime.timedelta, datetime.datetime]
"""A time from now, in seconds or as a timedelta, or a moment with its time zone."""

OPTIONS = ("queue", "delay", "retry", "unique", "timeout", "expires", "priority", "tags", "meta", "id")
FIRST_PAUSE = 0.2
MOST_PAUSE = 5.0
"""Seconds between two tries: the first pause, and the longest."""


class Client:
    """Enqueues jobs: ``Client("http://backend:8080").enqueue("email.send", ["a@b.c"],
    queue="mail")``.

    `url` is else ``OJS_URL``; `token` is else ``OJS_ENQUEUE_TOKEN`` or ``OJS_AUTH_TOKEN``. A
    request has `timeout` seconds, and is tried `tries` times in all where it fails on the way, or
    is answered with 429 or 5xx.
    """

    sends_id = True
    """Whether each job gets its id here, so that a request that is tried again enqueues one job.
    False for a backend that takes no ids."""

    @checks_options()
    def __init__(
        self, url: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 10.0, tries: int = 5,
        json_default: Optional[Default] = None,
    ) -> None:  # fmt: skip
        self._url, self._token, self._timeout, self._tries = url, token, timeout, tries
        self._default = functools.partial(jsonable, own=json_default)
        self.before_enqueue: List[Callable[[Dict[str, Any]], None]] = []
        """Functions that may change the body of a request; for tracing."""

    def enqueue(self, type: str, args: Sequence[Any] = (), **options: Any) -> str:
        """Enqueue a job, and return its id.

        | option | meaning |
        |---|---|
        | `queue` | the queue's name |
        | `delay` | not before: seconds or a timedelta from now, or a datetime with a time zone |
        | `retry` | the most attempts, or the retry policy as the Open Job Spec has it, a dict |
        | `unique` | True: no second one with this type, queue and arguments. Seconds: for so long. Or the policy, a dict |
        | `timeout` | seconds that the handler may take |
        | `expires` | not after: like `delay` |
        | `priority` | from -100 to 100; higher ones come first |
        | `tags`, `meta` | a list of strings; a dict |
        | `id` | a UUIDv7 of your own |

        Raises `Duplicate`, or `EnqueueError`.
        """
        if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
            raise TypeError(f"the arguments of a job are a list, not a {args.__class__.__name__}")
        body: Dict[str, Any] = {"type": type, "args": list(args), **_fields(options)}
        if self.sends_id or "id" in options:
            body["id"] = options.get("id") or _new_id()
        for function in self.before_enqueue:
            function(body)
        return self._post(body.get("id"), dump(body, self._default).encode("utf-8"))

    async def enqueue_async(self, type: str, args: Sequence[Any] = (), **options: Any) -> str:
        """`enqueue`, without blocking the event loop."""
        return await asyncio.to_thread(self.enqueue, type, args, **options)

    def _post(self, own_id: Optional[str], body: bytes) -> str:
        pause, has_tried = FIRST_PAUSE, False
        for tries_left in reversed(range(self._tries)):
            status, answer, retry_after = self._request(body)
            job = answer.get("job")
            if 200 <= status < 300 and isinstance(job, dict) and isinstance(job.get("id"), str):
                return str(job["id"])
            error = _error(status, answer)
            if has_tried and isinstance(error, Duplicate) and own_id is not None and error.existing_id == own_id:
                return own_id  # The try before arrived, and its answer got lost.
            has_tried = True
            if not tries_left or not (status in (0, 429) or status >= 500):
                break
            time.sleep(max(retry_after, pause * random.uniform(0.5, 1.0)))
            pause = min(2 * pause, MOST_PAUSE)
        raise error

    def _request(self, body: bytes) -> Tuple[int, Dict[str, Any], float]:
        """Status, JSON and Retry-After of the answer; status 0 if there is none."""
        # Imported here: a worker that enqueues nothing does not need the memory.
        import http.client
        import urllib.error
        import urllib.request

        class NoRedirect(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *args: Any, **kwargs: Any) -> None:
                """A redirect would carry the token elsewhere."""

        url = self._url or os.environ.get("OJS_URL")
        if not url:
            raise EnqueueError('no backend to enqueue at: set OJS_URL, or use Client("http://...")')
        token = self._token or os.environ.get("OJS_ENQUEUE_TOKEN") or os.environ.get("OJS_AUTH_TOKEN")
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        request = urllib.request.Request(url.rstrip("/") + "/ojs/v1/jobs", body, headers, method="POST")
        try:
            with urllib.request.build_opener(NoRedirect).open(request, timeout=self._timeout) as answer:
                return answer.status, _object(answer.read()), 0.0
        except urllib.error.HTTPError as refused:
            after = refused.headers.get("Retry-After", "")
            with refused, contextlib.suppress(OSError, http.client.HTTPException):
                return refused.code, _object(refused.read()), min(float(after), MOST_PAUSE) if after.isdigit() else 0.0
            return refused.code, {}, 0.0
        except (OSError, http.client.HTTPException) as error:
            return 0, {"error": {"message": f"{type(error).__name__}: {getattr(error, 'reason', error)}"}}, 0.0


def _fields(options: Dict[str, Any]) -> Dict[str, Any]:
    """The options as the HTTP API has them."""
    check_names("enqueue", options, OPTIONS)
    fields = {name: value for name, value in options.items() if name not in ("id", "meta") and value not in (None, False)}
    for name, new_name in (("delay", "delay_until"), ("expires", "expires_at")):
        if name in fields:
            fields[new_name] = _moment(name, fields.pop(name))
    if "timeout" in fields:
        fields["timeout_ms"] = round(fields.pop("timeout") * 1000)
    if isinstance(fields.get("retry"), int):
        fields["retry"] = {"max_attempts": fields["retry"]}
    unique = fields.get("unique")
    if isinstance(unique, (bool, int, float)):
        period = {} if unique is True else {"period": f"PT{unique:g}S"}
        fields["unique"] = {"keys": ["type", "queue", "args"], **period, "on_conflict": "reject"}
    named = {"options": fields, "meta": options.get("meta")}
    return {name: value for name, value in named.items() if value}


def _moment(name: str, value: Moment) -> str:
    if isinstance(value, (int, float)):
        value = datetime.timedelta(seconds=value)
    if isinstance(value, datetime.timedelta):
        value = datetime.datetime.now(datetime.timezone.utc) + value
    if value.tzinfo is None:
        raise TypeError(f"{name} is a number of seconds, a timedelta or a datetime with a time zone")
    return value.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _new_id() -> str:
    """A UUIDv7: the milliseconds since 1970, and 74 random bits."""
    number = time.time_ns() // 1_000_000 << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _object(text: bytes) -> Dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        return typed(json.loads(text), dict, {})
    return {}


def _error(status: int, answer: Dict[str, Any]) -> EnqueueError:
    """What went wrong, for a person."""
    error: Dict[str, Any] = typed(answer.get("error"), dict, {})
    code, message = shown(error.get("code", ""), 100), shown(error.get("message", ""), 1000)
    if status == 0:
        return EnqueueError(f"the job is not enqueued, the backend cannot be reached: {message}")
    text = f"the job is not enqueued, the backend answered {status} {code}: {message}"
    if status != 409:
        return EnqueueError(text, status=status, code=code)
    duplicate = Duplicate(text, status=status, code=code)
    details: Dict[str, Any] = typed(error.get("details"), dict, {})
    duplicate.existing_id = details.get("existing_job_id")
    return duplicate
