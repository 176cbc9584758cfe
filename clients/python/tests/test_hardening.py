"""Errors in error paths, hooks that leave, odd values, and a pool whose children end with 0."""

import enum
import json
import logging
import os
import signal
import socket
import threading
import unittest
from pathlib import Path
from typing import Any, Literal, NewType
from unittest import mock

from .fake import SocketTest, job
from ojs_worker import Client, Discard, EnqueueError, Job, LogFormatter, Release, Retry, Worker
from ojs_worker import _client

UserId = NewType("UserId", int)


class Level(enum.IntEnum):
    LOW = 1


def outcome_of(function: Any, *args: Any) -> Any:
    worker = Worker()
    worker.job("t")(function)
    return worker.perform("t", args, patience=5)


class ErrorPaths(unittest.TestCase):
    def test_an_error_that_cannot_be_described_is_an_answer_all_the_same(self) -> None:
        def odd(error: Any, **fields: Any) -> None:
            vars(error).update(fields)
            raise error

        def empty() -> None:
            next(iter([]))

        for function, kind in (
            (lambda: odd(Retry("x"), after="soon"), "fail"),
            (lambda: odd(Release("x"), after="soon"), "fail"),
            (lambda: odd(Retry("x", after=1), details=[1]), "fail"),
            (lambda: odd(Discard("x"), code=float("nan")), "fail"),
        ):
            self.assertEqual(outcome_of(function).outcome, kind)
        self.assertFalse(outcome_of(lambda: odd(Discard("x"), code=float("nan"))).error["retryable"])
        error = outcome_of(empty).error
        self.assertEqual(error["type"], "StopIteration")
        self.assertIn("in empty", error["backtrace"][0])

    def test_a_hook_that_leaves_loses_no_answer(self) -> None:
        worker = Worker()
        worker.job("t")(lambda: 1)

        @worker.on_completed
        def leaves(job: Job, result: Any) -> None:
            job._cancel("shutdown")
            job.sleep(60)

        @worker.on_completed
        def exits(job: Job, result: Any) -> None:
            raise SystemExit(3)

        self.assertEqual(worker.perform("t", patience=5).result, 1)

    def test_progress_with_a_broken_message_or_a_subclass_of_float(self) -> None:
        class Real(float):
            """As numpy's float64 is one."""

        outcome = outcome_of(lambda job: job.progress(Real(0.5), "a\udcff"))
        self.assertEqual(outcome.progress, [{"progress": 0.5, "message": "a?"}])

    def test_the_message_of_a_progress_is_a_string(self) -> None:
        def t(job: Job) -> None:
            for message in (0, Path("/a"), ValueError("x"), None):
                job.progress(0.5, message)  # type: ignore[arg-type]

        messages = [report.get("message") for report in outcome_of(t).progress]
        self.assertEqual(messages, ["0", "/a", "x", None])

    def test_a_log_line_is_json_whatever_its_extras_are(self) -> None:
        cyclic: Any = []
        cyclic.append(cyclic)
        for extra in (float("nan"), cyclic, {(1, 2): 3}):
            record = logging.makeLogRecord({"msg": "m", "levelno": 20, "extra_value": extra})
            line = json.loads(LogFormatter().format(record), parse_constant=self.fail)
            self.assertEqual(line["attributes"]["extra_value"], str(extra))

    def test_the_row_s_key_is_in_no_message(self) -> None:
        checkpoint = {"ojs_resume": 1, "steps": [], "cursors": {"": "secret"}, "state": None}
        worker = Worker()
        worker.job("keyed")(lambda job: list(job.iterate(["a"], key=str)))
        worker.job("counted")(lambda job: list(job.iterate(["a"])))
        for type in ("keyed", "counted"):
            error = worker.perform(type, checkpoint=checkpoint).error
            assert error is not None
            self.assertEqual(error["type"], "StepsChanged")
            self.assertNotIn("secret", error["message"])

    def test_numbers_at_their_limits(self) -> None:
        cases: Any = (
            (float, 10**400, "too large for a float"), (Level, 1.0, 1), (Literal[2], 2.0, 2), (Level, True, "expected one of"),
            (UserId, 7, 7), (UserId, "x", "expected an integer"), (int, 10**30, 10**30),
        )  # fmt: skip
        for hint, given, expected in cases:

            def take(value: Any) -> Any:
                return value

            take.__annotations__["value"] = hint
            outcome = outcome_of(take, given)
            if isinstance(expected, str):
                self.assertEqual(outcome.error["type"], "InvalidArgs")
                self.assertIn(expected, outcome.error["message"])
            else:
                self.assertEqual(outcome.result, expected)


class Requests(unittest.TestCase):
    def test_neither_a_token_nor_a_password_is_in_an_error(self) -> None:
        for url, token in (
            ("http://127.0.0.1:1", "sec\nret"), ("http://127.0.0.1:1", "sec\u20acret"), ("http://me:secret@127.0.0.1:1", "t"),
            ("http://me:secret@host:port", "t"), ("nonsense secret", "t"), ("http://[::secret", "t"),
        ):  # fmt: skip
            with self.assertRaises(EnqueueError) as caught:
                Client(url, token, tries=1).enqueue("t")
            self.assertNotIn("sec", str(caught.exception), url)

    def test_a_token_from_a_file_has_a_line_break_behind_it(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            asked = []

            def answer() -> None:
                connection = server.accept()[0]
                asked.append(connection.recv(100_000))
                connection.sendall(b'HTTP/1.1 201 Created\r\nContent-Length: 18\r\n\r\n{"job":{"id":"x"}}')
                connection.close()

            thread = threading.Thread(target=answer)
            thread.start()
            self.assertEqual(Client(f"http://127.0.0.1:{server.getsockname()[1]}", "token\n").enqueue("t"), "x")
            thread.join()
        self.assertIn(b"Authorization: Bearer token\r\n", asked[0])

    def test_options_at_their_limits(self) -> None:
        def options(**given: Any) -> Any:
            return _client._fields(given)["options"]

        self.assertEqual(options(unique=2_592_000)["unique"]["period"], "PT2592000S")
        self.assertEqual(options(unique=0.5)["unique"]["period"], "PT0.5S")
        self.assertEqual(options(retry=0, priority=0), {"retry": {"max_attempts": 0}, "priority": 0})
        self.assertRaises(ValueError, Client, tries=0)

    def test_a_retry_after_that_is_no_number_is_no_error(self) -> None:
        client = Client("http://127.0.0.1:1", tries=1)
        for text in ("\u00b2", "Wed, 21 Oct 2026 07:28:00 GMT", ""):
            answer = mock.Mock(status=429, headers={"Retry-After": text}, read=lambda: b"{}")
            with mock.patch("http.client.HTTPConnection") as kind:
                kind.return_value.getresponse.return_value = answer
                self.assertEqual(client._request(b"")[::2], (429, 0.0))


class Pool(SocketTest):
    SOURCE = """
worker = Worker(handle_signals=False)
@worker.job("t")
def t(job, what):
    job.progress(0.5)
    if what == "stop": worker.stop()
    if what == "exit": os._exit(0)
    if what == "wait": job.cancelled.wait(0.3)
    return "done"
worker.run(processes=2)
print("over", file=sys.stderr)
"""

    def begin(self) -> Any:
        process = self.start(self.SOURCE)
        self.parent = self.accept(2, is_parents=True)
        return process, self.accept(2), self.accept(2)

    def test_a_child_that_ends_with_0_is_replaced(self) -> None:
        process, first, second = self.begin()
        first.send(job("j", "t", "exit"))
        third = self.accept()
        os.kill(second.pid, signal.SIGTERM)  # As ojs-init does with one process that it gives up.
        self.assertEqual([frame["type"] for frame in second.rest()], ["ready"])
        fourth = self.accept()
        for connection in (self.parent, third, fourth):
            connection.terminate()
        self.assertEqual(self.ends(process, 0).count("ended with status 0: another one takes its place"), 2)
        self.assertFalse(self.has_connection())

    def test_stop_in_a_handler_ends_all_processes_and_finishes_their_jobs(self) -> None:
        process, first, second = self.begin()
        second.send(job("k", "t", "wait"))
        second.expect("progress", "k")
        first.send(job("j", "t", "stop"))
        for connection, id in ((first, "j"), (second, "k")):
            results = [frame["result"] for frame in connection.rest() if frame["type"] == "ack"]
            self.assertEqual(results, ["done"], id)
        self.assertIn("over", self.ends(process, 0))

    def test_a_child_that_hangs_when_ojs_init_ends_is_killed(self) -> None:
        process, first, second = self.begin()
        os.kill(first.pid, signal.SIGSTOP)
        for connection in (self.parent, first, second):
            connection.lines.close()
            connection.sock.close()
        self.ends(process, 128 + signal.SIGKILL)

    def test_a_fork_that_fails_is_tried_again(self) -> None:
        source = self.SOURCE.replace("worker.run(", """
from ojs_worker import _processes
_processes.MOST_PAUSE, fork, tries = 0.1, os.fork, []
def failing():
    tries.append(1)
    if len(tries) == 2: raise BlockingIOError("no more processes")
    return fork()
os.fork = failing
worker.run(""")
        process = self.start(source)
        connections = [self.accept(2, is_parents=True), self.accept(2), self.accept(2)]
        for connection in connections:
            connection.terminate()
        self.assertIn("cannot be started", self.ends(process, 0))


if __name__ == "__main__":
    unittest.main()
