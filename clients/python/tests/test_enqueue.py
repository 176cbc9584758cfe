"""Enqueueing, against an HTTP server that answers as it is told."""

import asyncio
import datetime
import http.server
import json
import os
import socket
import threading
import unittest
from typing import Any, Dict, List, Tuple
from unittest import mock

from .fake import CLIENT  # noqa: F401
from ojs_worker import AsyncWorker, Client, Duplicate, EnqueueError, Job, Worker, _client

Answer = Tuple[int, Any, Dict[str, str]]
CREATED: Answer = (201, {"job": {"id": "new"}}, {})


def refused(status: int, code: str = "c", **details: Any) -> Answer:
    return status, {"error": {"code": code, "message": "why\n", "details": details}}, {}


class EnqueueTest(unittest.TestCase):
    def setUp(self) -> None:
        self.asked: List[Tuple[str, Dict[str, str], Any]] = []
        self.answers: List[Any] = []
        test = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                test.asked.append((self.path, dict(self.headers), body))
                answer = test.answers.pop(0) if test.answers else CREATED
                answer = answer(body) if callable(answer) else answer
                if answer is None:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, value, headers = answer
                text = json.dumps(value).encode()
                self.send_response(status)
                for name, header in {**headers, "Content-Length": str(len(text))}.items():
                    self.send_header(name, header)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None: ...

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        for patch in (
            mock.patch.dict(os.environ, {"OJS_URL": self.url}),
            mock.patch.object(_client, "FIRST_PAUSE", 0.001),
            mock.patch.object(_client, "MOST_PAUSE", 0.01),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def body(self) -> Any:
        (body,) = [body for _, _, body in self.asked]
        self.asked.clear()
        body.pop("id")
        return body

    def test_beside_the_handler(self) -> None:
        worker = Worker()

        @worker.job("email.send", queue="mail")
        def send(job: Job, to: str, body: str = "hi", *more: str, copy: bool = False) -> str:
            return to

        self.assertEqual(send.enqueue("a@b.c"), "new")
        self.assertEqual(self.body(), {"type": "email.send", "args": ["a@b.c"], "options": {"queue": "mail"}})
        send.options(priority=5, queue="urgent").enqueue("a", "b", "c")
        self.assertEqual(self.body()["args"], ["a", "b", "c"])
        self.assertRaises(TypeError, send.enqueue)
        self.assertRaises(TypeError, send.enqueue, "a", boddy="x")
        self.assertEqual(send(mock.Mock(), "called as a function"), "called as a function")

    def test_named_arguments_take_their_places(self) -> None:
        worker = Worker()

        @worker.job("t")
        def t(a: int, b: int = 2, c: int = 3) -> None: ...

        t.enqueue(1, c=4)
        self.assertEqual(self.body()["args"], [1, 2, 4])

        @worker.job("u")
        def u(job: Job) -> None: ...

        u.enqueue(1, "x")  # type: ignore[call-arg]
        self.assertEqual(self.body()["args"], [1, "x"])

    def test_from_asyncio(self) -> None:
        worker = AsyncWorker()

        @worker.job("t")
        async def t(n: int) -> None: ...

        self.assertEqual(asyncio.run(t.enqueue_async(1)), "new")
        self.assertEqual(asyncio.run(Client().enqueue_async("t", [1])), "new")

    def test_options_are_those_of_the_http_api(self) -> None:
        moment = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)
        Client().enqueue("t", [], queue="q", delay=moment, retry=5, unique=60, timeout=1.5, tags=["x"], meta={"a": 1})
        unique = {"keys": ["type", "queue", "args"], "period": "PT60S", "on_conflict": "reject"}
        options = {"queue": "q", "delay_until": "2026-01-02T03:04:00.000Z", "retry": {"max_attempts": 5}, "unique": unique}
        more = {"timeout_ms": 1500, "tags": ["x"]}
        self.assertEqual(self.body(), {"type": "t", "args": [], "options": {**options, **more}, "meta": {"a": 1}})
        Client().enqueue("t", delay=10, expires=datetime.timedelta(minutes=1), unique=True, retry={"max_attempts": 2})
        found = self.body()["options"]
        self.assertLess(found["delay_until"], found["expires_at"])
        self.assertNotIn("period", found["unique"])
        self.assertRaises(TypeError, Client().enqueue, "t", delay=datetime.datetime.now())
        self.assertRaises(TypeError, Client().enqueue, "t", "not a list")
        with self.assertRaisesRegex(TypeError, "enqueue: unknown option que; there are queue, delay"):
            Client().enqueue("t", que="q")

    def test_the_token(self) -> None:
        def shown(**env: str) -> Any:
            with mock.patch.dict(os.environ, env):
                Client(token=env.get("argument")).enqueue("t")
            return self.asked.pop()[1].get("Authorization")

        self.assertIsNone(shown())
        self.assertEqual(shown(OJS_AUTH_TOKEN="a"), "Bearer a")
        self.assertEqual(shown(OJS_AUTH_TOKEN="a", OJS_ENQUEUE_TOKEN="e"), "Bearer e")
        self.assertEqual(shown(OJS_ENQUEUE_TOKEN="e", argument="x"), "Bearer x")

    def test_a_request_that_is_tried_again_enqueues_one_job(self) -> None:
        self.answers += [None, refused(503), (429, {}, {"Retry-After": "1"})]
        self.answers.append(lambda body: refused(409, "duplicate", existing_job_id=body["id"]))
        id = Client().enqueue("t")
        self.assertEqual({body["id"] for _, _, body in self.asked}, {id})
        self.assertEqual(len(self.asked), 4)
        self.assertRegex(id, r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")

    def test_it_gives_up_after_some_tries(self) -> None:
        self.answers += [refused(500)] * 9
        with self.assertRaises(EnqueueError):
            Client(tries=3).enqueue("t")
        self.assertEqual(len(self.asked), 3)
        with self.assertRaisesRegex(EnqueueError, "the backend cannot be reached"):
            Client("http://127.0.0.1:1").enqueue("t")
        with self.assertRaisesRegex(EnqueueError, "set OJS_URL"), mock.patch.dict(os.environ, {"OJS_URL": ""}):
            Client().enqueue("t")

    def test_refusals_are_clear_and_not_repeated(self) -> None:
        self.answers += [refused(401, "unauthorized"), refused(409, "duplicate", existing_job_id="old")]
        with self.assertRaisesRegex(EnqueueError, "the backend answered 401 unauthorized: why") as caught:
            Client().enqueue("t", ["secret"])
        self.assertEqual((caught.exception.status, caught.exception.code), (401, "unauthorized"))
        with self.assertRaises(Duplicate) as twice:
            Client().enqueue("t", unique=True)
        self.assertEqual((twice.exception.existing_id, len(self.asked)), ("old", 2))

    def test_no_redirect_carries_the_token_elsewhere(self) -> None:
        self.answers.append((307, {}, {"Location": self.url + "/elsewhere"}))
        with self.assertRaisesRegex(EnqueueError, "307"):
            Client(token="t").enqueue("t")
        self.assertEqual(len(self.asked), 1)

    def test_json_default_and_models(self) -> None:
        Worker(json_default=str).client.enqueue("t", [datetime.date(2026, 1, 2)])
        self.assertEqual(self.body()["args"], ["2026-01-02"])
