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
import uuid
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from ._basics import Default, Duplicate, EnqueueError, check_count, check_names, checks_options, dump, jsonable, shown, typed

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

    @checks_options()
    def __init__(
        self, url: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 10.0, tries: int = 5,
        json_default: Optional[Default] = None,
    ) -> None:  # fmt: skip
        check_count("tries", tries)
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
        # With an id from here a request that is tried again enqueues one job.
        job_id = options.get("id") or _new_id()
        body = {"type": type, "args": list(args), **_fields(options), "id": job_id}
        for function in self.before_enqueue:
            function(body)
        return self._post(job_id, dump(body, self._default).encode("utf-8"))

    async def enqueue_async(self, type: str, args: Sequence[Any] = (), **options: Any) -> str:
        """`enqueue`, without blocking the event loop."""
        return await asyncio.to_thread(self.enqueue, type, args, **options)

    def _post(self, own_id: str, body: bytes) -> str:
        pause, has_tried = FIRST_PAUSE, False
        for tries_left in reversed(range(self._tries)):
            status, answer, retry_after = self._request(body)
            job = answer.get("job")
            if 200 <= status < 300 and isinstance(job, dict) and isinstance(job.get("id"), str):
                return str(job["id"])
            error = _error(status, answer)
            if has_tried and isinstance(error, Duplicate) and error.existing_id == own_id:
                return own_id  # The try before arrived, and its answer got lost.
            has_tried = True
            if not tries_left or not (status in (0, 429) or status >= 500):
                break
            time.sleep(max(retry_after, pause * random.uniform(0.5, 1.0)))
            pause = min(2 * pause, MOST_PAUSE)
        raise error

    def _request(self, body: bytes) -> Tuple[int, Dict[str, Any], float]:
        """Status, JSON and Retry-After of the answer; status 0 if there is none."""
        import http.client  # Here, because a worker that enqueues nothing does not need the memory.
        import urllib.parse

        url = self._url or os.environ.get("OJS_URL")
        if not url:
            raise EnqueueError('no backend to enqueue at: set OJS_URL, or use Client("http://...")')
        token = (self._token or os.environ.get("OJS_ENQUEUE_TOKEN") or os.environ.get("OJS_AUTH_TOKEN") or "").strip()
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        try:
            parts = urllib.parse.urlsplit(url.rstrip("/").removesuffix("/ojs/v1").rstrip("/") + "/ojs/v1/jobs")
            connection = kinds[parts.scheme](str(parts.hostname), parts.port, timeout=self._timeout)
            with contextlib.closing(connection):
                connection.request("POST", parts.path, body, headers)
                answer = connection.getresponse()
                after = answer.headers.get("Retry-After", "")
                pause = min(float(after), MOST_PAUSE) if after.isascii() and after.isdigit() else 0.0
                return answer.status, _object(answer.read()), pause
        except (OSError, http.client.HTTPException) as error:
            return 0, {"error": {"message": f"{type(error).__name__}: {error}"}}, 0.0
        except (KeyError, ValueError) as error:  # Its text may have the token, or a password in the URL.
            why = f"{type(error).__name__}, from the URL (http:// or https://) or the token"
            raise EnqueueError(f"the job is not enqueued, no request can be made: {why}") from None


def _fields(options: Dict[str, Any]) -> Dict[str, Any]:
    """The options as the HTTP API has them."""
    check_names("enqueue", options, OPTIONS)
    fields = {name: value for name, value in options.items() if not (value is None or value is False or name == "id")}
    meta = {"meta": fields.pop("meta")} if "meta" in fields else {}
    for name, new_name in (("delay", "delay_until"), ("expires", "expires_at")):
        if name in fields:
            fields[new_name] = _moment(name, fields.pop(name))
    if "timeout" in fields:
        fields["timeout_ms"] = round(fields.pop("timeout") * 1000)
    if isinstance(fields.get("retry"), int):
        fields["retry"] = {"max_attempts": fields["retry"]}
    unique = fields.get("unique")
    if isinstance(unique, (bool, int, float)):
        period = {} if unique is True else {"period": f"PT{unique:.3f}".rstrip("0").rstrip(".") + "S"}
        fields["unique"] = {"keys": ["type", "queue", "args"], **period, "on_conflict": "reject"}
    return {**({"options": fields} if fields else {}), **meta}


def _moment(name: str, value: Union[int, float, datetime.timedelta, datetime.datetime]) -> str:
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
    return str(uuid.UUID(int=number))


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
    details: Dict[str, Any] = typed(error.get("details"), dict, {})
    return Duplicate(text, status=status, code=code, existing_id=details.get("existing_job_id"))
