"""Worker: handlers on threads."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import unittest
from typing import Any, Dict, List
from unittest import mock

from .fake_init import PATIENCE, ClientTest, Running, job, wait_until

import ojs_worker
from ojs_worker import (
    AsyncJob,
    Cancelled,
    ConnectionLost,
    Discard,
    Job,
    NotUnderOjsInit,
    OjsError,
    ProtocolError,
    Release,
    Retry,
    Stalled,
    Worker,
)
from ojs_worker._parent import Limits, Parent
from ojs_worker._processes import Child


class Lines(unittest.TestCase):
    def test_lines_are_cut_where_they_end(self) -> None:
        text = '{"a":"é"}\n\n{"b":1}\r\n{"c'.encode()
        for first in range(len(text)):
            for second in (first, first + 1, len(text)):
                ours, theirs = socket.socketpair()
                link = ojs_worker._link.Link(ours)
                ours.setblocking(False)
                lines: List[bytes] = []
                for piece in (text[:first], text[first:second], text[second:]):
                    theirs.sendall(piece)
                    lines += link.round(0)
                self.assertEqual(lines, ['{"a":"é"}'.encode(), b"", b'{"b":1}\r'], (first, second))
                theirs.close()
                self.assertEqual(link.round(0), [])
                self.assertTrue(link.eof)
                link.close()


class Handshake(ClientTest):
    def test_ready_says_what_the_worker_takes(self) -> None:
        worker = self.worker(7)
        worker.job("a", "b")(lambda job: None)
        worker.job("c")(lambda job: None)
        running = Running(worker)
        ready = self.init.hello()
        self.assertEqual(ready["protocol"], 1)
        self.assertEqual(ready["concurrency"], 7)
        self.assertEqual(ready["types"], ["a", "b", "c"])
        self.assertIs(ready["ping"], True)
        self.assertIn("python", ready["client"])
        self.assertEqual(worker.worker_id, "w1")
        self.end(running)

    def test_without_a_number_of_its_own_it_takes_as_many_jobs_as_ojs_init_allows(self) -> None:
        worker = self.worker(None)
        worker.job("a")(lambda job: None)
        self.assertEqual(worker.concurrency, 0)
        running = Running(worker)
        self.assertEqual(self.init.hello()["concurrency"], 100)
        self.assertEqual(worker.concurrency, 100)
        self.end(running)

    def test_it_takes_no_more_jobs_than_ojs_init_allows(self) -> None:
        worker = self.worker(50)
        worker.job("a")(lambda job: None)
        running = Running(worker)
        self.assertEqual(self.init.hello(concurrency=10)["concurrency"], 10)
        self.assertEqual(worker.concurrency, 10)
        self.end(running)

    def test_with_a_default_handler_every_type_is_taken(self) -> None:
        worker = self.worker()
        worker.job()(lambda job: job.type)
        worker.job("a")(lambda job: "mine")
        running = Running(worker)
        self.assertNotIn("types", self.init.hello())
        self.init.send(job("1", "a"), job("2", "b"))
        self.init.expect("ack", "1", result="mine")
        self.init.expect("ack", "2", result="b")
        self.end(running)

    def test_nothing_is_said_before_hello(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: None)
        running = Running(worker)
        self.init.accept()
        self.init.send({"type": "ping", "id": 1})
        self.init.expect("pong")
        self.assertEqual(self.init.frames, [])
        self.init.greet()
        self.init.expect("ready")
        self.end(running)

    def test_hello_in_terminate_is_the_end(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: None)
        running = Running(worker)
        self.init.accept()
        self.init.greet(state="terminate")
        self.assertIsNone(running.join())
        self.init.expect_eof()

    def test_another_protocol_is_refused(self) -> None:
        for first in ({"type": "hello", "protocol": 2}, {"type": "error", "code": "unsupported_protocol", "message": "m"}):
            init = self.fake("p" + first["type"])
            worker = ojs_worker.Worker(1, socket_path=init.path)
            worker.job("t")(lambda job: None)
            running = Running(worker)
            init.accept()
            init.send(first)
            self.assertIsInstance(running.join(), ProtocolError)
            init.expect_eof()

    def test_without_ojs_init_the_error_says_how_to_start_it(self) -> None:
        worker = ojs_worker.Worker()
        worker.job("t")(lambda job: None)
        with mock.patch.dict(os.environ):
            os.environ.pop("OJS_SOCKET", None)
            with self.assertRaisesRegex(NotUnderOjsInit, r"OJS_SOCKET is not set.*ojs-init -- python3"):
                worker.run()
        worker = ojs_worker.Worker(socket_path=self.directory + "/nobody")
        worker.job("t")(lambda job: None)
        with self.assertRaisesRegex(NotUnderOjsInit, "nobody.*No such file"):
            worker.run()

    def test_mistakes_are_found_at_once(self) -> None:
        worker = self.worker()
        with self.assertRaisesRegex(OjsError, "no handler"):
            worker.run()
        worker.job("t")(lambda job: None)
        with self.assertRaisesRegex(ValueError, "two handlers for 't'"):
            worker.job("t")(lambda job: None)
        with self.assertRaises(TypeError):
            worker.job(lambda job: None)  # type: ignore[call-overload]
        with self.assertRaises(ValueError):
            worker.job("")
        with self.assertRaises(ValueError):
            worker.job("é" * 513)

        async def handler(job: Job) -> None: ...

        with self.assertRaisesRegex(TypeError, "AsyncWorker"):
            worker.job("u")(handler)
        for wrong in (0, -1, 10_001, True, 1.5, "2"):
            with self.assertRaises(ValueError):
                ojs_worker.Worker(wrong)  # type: ignore[arg-type]

    def test_a_worker_runs_once(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: None)
        self.end(self.start(worker))
        with self.assertRaisesRegex(OjsError, "runs once"):
            worker.run()

    def test_threads_and_descriptors_are_given_back(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: None)
        before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
        running = self.start(worker)
        self.init.send(job("1"), job("2"))
        self.init.expect("ack", "1")
        self.init.expect("ack", "2")
        self.end(running)
        wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("ojs-")], "no thread left")
        if before is not None:  # the fake's own connection has come
            self.assertEqual(len(os.listdir("/proc/self/fd")), before + 1)


class Jobs(ClientTest):
    def test_what_a_handler_sees(self) -> None:
        seen: List[Job] = []
        worker = self.worker()
        worker.job("t")(seen.append)
        running = self.start(worker)
        raw = '{ "id":"1", "type":"t","queue":"q","attempt":3,"args":[9007199254740993,1e2,"\\u00e9"],"x":{"z":1,"z":2},"meta":{"a":1}}'
        self.init.held["1"] = 1
        self.init.send_raw('{"type":"job" , "job":' + raw + ' ,"checkpoint":{"at":18446744073709551617},"later":[]}\r\n')
        self.assertNotIn("result", self.init.expect("ack", "1"))
        got = seen[0]
        self.assertEqual((got.id, got.type, got.queue, got.attempt), ("1", "t", "q", 3))
        self.assertEqual(got.args, [9007199254740993, 100.0, "é"])
        self.assertEqual(got.meta, {"a": 1})
        self.assertEqual(got.raw, raw)
        self.assertEqual(got.envelope["x"], {"z": 2})
        self.assertEqual(got.last_checkpoint, {"at": 18446744073709551617})
        self.assertIsNone(got.cancel_reason)
        self.assertIsNone(got.remaining())
        self.end(running)

    def test_only_id_and_type_are_certain(self) -> None:
        seen: List[Job] = []
        worker = self.worker()
        worker.job("t")(seen.append)
        running = self.start(worker)
        self.init.send({"type": "job", "job": {"id": "1", "type": "t"}})
        self.init.send({"type": "job", "job": {"id": "2", "type": "t", "args": 1, "meta": [], "queue": 5, "attempt": "x"}})
        self.init.expect("ack", "1")
        self.init.expect("ack", "2")
        for got in seen:
            self.assertEqual((got.queue, got.attempt, got.args, got.meta), ("default", None, [], {}))
            self.assertIsNone(got.last_checkpoint)
        self.end(running)

    def test_results(self) -> None:
        results: Dict[str, Any] = {
            "big": 2**70, "text": "é\n\u2028\u0000😀", "zero": 0, "false": False, "list": [1, [2, (3,)]], "empty": {},
        }
        worker = self.worker()
        worker.job("t")(lambda job: results[job.id])
        running = self.start(worker)
        for name, result in results.items():
            self.init.send(job(name))
            self.assertEqual(self.init.expect("ack", name)["result"], json.loads(json.dumps(result)))
        self.end(running)

    def test_frames_may_be_cut_anywhere(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: job.args)
        running = self.start(worker)
        assert self.init.sock
        self.init.held["1"] = 1
        for byte in (json.dumps(job("1", "t", "é日😀"), ensure_ascii=False) + "\n").encode():
            self.init.sock.sendall(bytes([byte]))
        self.init.expect("ack", "1", result=["é日😀"])
        self.init.send_raw('{"type":"ping","id":1}\n\n{"type":"ping","id":2}\n{"type":"pi')
        self.init.expect("pong", id=1)
        self.init.expect("pong", id=2)
        self.init.send_raw('ng","id":3}\n')
        self.init.expect("pong", id=3)
        self.end(running)

    def test_pongs_keep_their_order(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: None)
        running = self.start(worker)
        self.init.send(*({"type": "ping", "id": number} for number in range(50)))
        for number in range(50):
            self.init.expect("pong", id=number)
        self.end(running)

    def test_garbage_ends_nothing(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: None)
        running = self.start(worker)
        assert self.init.sock
        with self.assertLogs("ojs_worker", "WARNING"):
            self.init.sock.sendall(b'what?\n[1]\n{"type":1}\n{"type":"x_later"}\n{}\n\xff\xfe\n{"type":"job"}\n')
            self.init.sock.sendall(b'{"type":"job","job":7}\n{"type":"job","job":{"id":7}}\n{"type":"cancel"}\n{"a":1}}\n')
            self.init.sock.sendall(b'{"type":"lifecycle","state":"x_later","reason":"r"}\n{"type":"ping"}\n{"type":"ping","id":null}\n')
            self.init.sock.sendall(b'{"type":"job","job":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
            self.init.sock.sendall(b'{"type":"lifecycle","state":"quiet","remaining_ms":"soon"}\n{"type":[],"x":\n')
            self.init.ping()
        self.end(running)

    def test_a_job_that_python_cannot_read_fails(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: None)
        running = self.start(worker)
        envelopes = {"deep": '{"args":' + "[" * 200_000 + "]" * 200_000 + ',"x":{"id":"no"},"id":"deep","type":"t"}'}
        if hasattr(__import__("sys"), "get_int_max_str_digits"):
            envelopes["long"] = '{"id":"long","type":"t","args":[' + "9" * 5000 + "]}"
        for name, envelope in envelopes.items():
            self.init.held[name] = 1
            with self.assertLogs("ojs_worker", "WARNING"):
                self.init.send_raw('{"job":' + envelope + ',"type":"job"}\n')
                error = self.init.expect("fail", name)["error"]
            self.assertEqual((error["code"], error["retryable"]), ("invalid_job", False))
        self.end(running)

    def test_a_job_without_a_handler_fails(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: None)
        running = self.start(worker)
        with self.assertLogs("ojs_worker", "ERROR"):
            self.init.send(job("1", "other"))
            error = self.init.expect("fail", "1")["error"]
        self.assertEqual((error["code"], error["retryable"]), ("handler_not_found", True))
        self.end(running)

    def test_a_job_without_a_type_has_no_handler_even_where_there_is_one_for_every_type(self) -> None:
        worker = self.worker()
        worker.job("*")(lambda job: None)
        running = self.start(worker)
        for number, more in enumerate(({}, {"type": 7}, {"type": None}, {"type": ["t"]})):
            with self.assertLogs("ojs_worker", "ERROR"):
                self.init.send({"type": "job", "job": {"id": str(number), "args": [], **more}})
                error = self.init.expect("fail", str(number))["error"]
            self.assertEqual((error["code"], error["retryable"]), ("handler_not_found", True))
        self.end(running)

    def test_an_id_may_come_again_once_answered_and_not_before(self) -> None:
        go = threading.Event()
        calls: List[Any] = []
        worker = self.worker()

        @worker.job("t")
        def handler(job: Job) -> Any:
            calls.append(job.args)
            if job.args == ["wait"]:
                go.wait(PATIENCE)
            return job.args

        running = self.start(worker)
        self.init.send(job("1", "t", "first"))
        self.init.expect("ack", "1", result=["first"])
        self.init.send(job("1", "t", "wait"))
        wait_until(lambda: len(calls) == 2)
        with self.assertLogs("ojs_worker", "WARNING"):
            self.init.send(job("1", "t", "meanwhile"))
            self.init.ping()
        self.init.held["1"] = 1
        go.set()
        self.init.expect("ack", "1", result=["wait"])
        self.init.send(job("1", "t", "third"))
        self.init.expect("ack", "1", result=["third"])
        self.assertEqual(len(calls), 3)
        self.end(running)

    def test_never_more_handlers_than_concurrency(self) -> None:
        lock = threading.Lock()
        now, most = 0, 0
        barrier = threading.Barrier(3)
        worker = self.worker(3)

        @worker.job("t")
        def handler(job: Job) -> None:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            if int(job.id) < 3:
                barrier.wait(PATIENCE)  # all three are there at once
            time.sleep(0.002)
            with lock:
                now -= 1

        running = self.start(worker)
        for number in range(40):  # far beyond our credit
            self.init.send(job(str(number)))
        for number in range(40):
            self.init.expect("ack", str(number))
        self.assertEqual(most, 3)
        self.end(running)

    def test_a_thousand_jobs_get_one_answer_each(self) -> None:
        worker = self.worker(20)

        @worker.job("t")
        def handler(job: Job) -> Any:
            number = job.args[0]
            if number % 5 == 1:
                raise Retry("no")
            if number % 5 == 2:
                raise Release("no")
            if number % 5 == 3:
                job.progress(0.5)
                job.heartbeat()
            return number

        running = self.start(worker)
        kinds = ["ack", "fail", "release", "ack", "ack"]
        sent = 0
        answers: Dict[str, str] = {}
        while len(answers) < 1000:
            with self.init.changed:
                self.init.changed.wait_for(lambda: bool(self.init.frames), 0.01)
                frames, self.init.frames = self.init.frames, []
            for frame in frames:
                if frame["type"] in ("ack", "fail", "release"):
                    self.assertNotIn(frame["job_id"], answers)
                    answers[frame["job_id"]] = frame["type"]
            while sent < 1000 and sent - len(answers) < 20:
                self.init.send(job(str(sent), "t", sent))
                sent += 1
            self.assertFalse(self.init.is_eof)
        self.assertEqual(answers, {str(number): kinds[number % 5] for number in range(1000)})
        self.end(running)

    def test_a_ping_is_answered_while_all_handlers_are_busy(self) -> None:
        go = threading.Event()
        worker = self.worker(2)
        worker.job("t")(lambda job: go.wait(PATIENCE) and None)
        running = self.start(worker)
        self.init.send(job("1"), job("2"), job("3"))
        self.init.ping()
        go.set()
        for id in "123":
            self.init.expect("ack", id)
        self.end(running)

    def test_no_deadlock_when_neither_side_reads_for_a_while(self) -> None:
        worker = self.worker(100)
        worker.job("t")(lambda job: "r" * 1024 * 1024)
        running = self.start(worker)
        self.init.reading.clear()
        for number in range(100):  # 12 MiB that we write while 100 MiB wait to be read
            self.init.send(job(str(number), "t", "a" * 128 * 1024))
        wait_until(lambda: not worker._held, "all handlers are done")
        self.init.send({"type": "ping", "id": 1})
        self.init.read_pause = 0.001
        self.init.reading.set()
        self.init.expect("pong")
        left = [frame for frame in self.init.frames if frame["type"] == "ack"]
        self.assertLess(len(left), 50, "the pong does not wait behind the results")
        self.init.read_pause = 0.0
        for number in range(100):
            self.assertEqual(len(self.init.expect("ack", str(number))["result"]), 1024 * 1024)
        self.end(running)

    def test_no_thread_to_be_had(self) -> None:
        worker = self.worker(2)
        worker.job("t")(lambda job: None)
        running = self.start(worker)
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            with self.assertLogs("ojs_worker", "ERROR"):
                self.init.send(job("1"))
                self.init.expect("release", "1")
        self.init.send(job("2"))
        self.init.expect("ack", "2")
        self.end(running)


class Failures(ClientTest):
    def failure(self, raise_it: Any, id: str = "1", **hello: Any) -> Dict[str, Any]:
        worker = self.worker()
        worker.job("t")(raise_it)
        worker.job("ok")(lambda job: "fine")
        running = self.start(worker, **hello)
        self.init.send(job(id))
        error: Dict[str, Any] = self.init.expect("fail", id)["error"]
        self.init.send(job("after", "ok"))
        self.init.expect("ack", "after", result="fine")
        self.end(running)
        return error

    def test_an_unexpected_exception(self) -> None:
        def innermost() -> None:
            raise KeyError("no such user")

        def handler(job: Job) -> None:
            innermost()

        error = self.failure(handler)
        self.assertEqual(error["type"], "KeyError")
        self.assertEqual(error["code"], "handler_error")
        self.assertIn("no such user", error["message"])
        self.assertIs(error["retryable"], True)
        self.assertEqual([line.split(" in ")[-1] for line in error["backtrace"]], ["innermost", "handler"])
        self.assertIn("test_worker.py:", error["backtrace"][0])

    def test_a_deep_backtrace_is_cut(self) -> None:
        def handler(job: Job) -> None:
            handler(job)

        error = self.failure(handler)
        self.assertEqual(error["type"], "RecursionError")
        self.assertLessEqual(len(error["backtrace"]), 50)
        self.assertGreater(len(error["backtrace"]), 5)
        self.assertLessEqual(sum(map(len, error["backtrace"])), 10_000)

    def test_texts_that_do_not_fit(self) -> None:
        def handler(job: Job) -> None:
            raise ValueError("caf\udce9 " + "x" * 1_000_000)

        error = self.failure(handler)
        self.assertTrue(error["message"].startswith("caf? xxx"))
        self.assertLessEqual(len(error["message"]), 10_000)

    def test_an_exception_that_cannot_be_shown(self) -> None:
        class Awkward(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no")

        def handler(job: Job) -> None:
            raise Awkward

        error = self.failure(handler)
        self.assertEqual(error["type"], "Awkward")

    def test_an_exception_without_a_message(self) -> None:
        def handler(job: Job) -> None:
            raise ValueError

        self.assertEqual(self.failure(handler)["message"], "ValueError")

    def test_retry_in_own_words(self) -> None:
        def handler(job: Job) -> None:
            try:
                raise TimeoutError("no answer")
            except TimeoutError as error:
                raise Retry("mail server", code="x_mail", details={"host": "h", "n": 2**60}) from error

        error = self.failure(handler)
        self.assertEqual(error.pop("backtrace")[0].split(" in ")[-1], "handler")
        expected = {"message": "mail server", "code": "x_mail", "type": "TimeoutError", "retryable": True}
        self.assertEqual(error, {**expected, "details": {"host": "h", "n": 2**60}})

    def test_discard(self) -> None:
        class NoSuchUser(Discard):
            pass

        def handler(job: Job) -> None:
            raise NoSuchUser("never")

        error = self.failure(handler)
        self.assertEqual(
            error, {"message": "never", "code": "handler_error", "type": "NoSuchUser", "retryable": False}
        )

    def test_details_that_are_no_json_object_are_left_out(self) -> None:
        deep: Any = 1
        for _ in range(98):
            deep = [deep]
        for number, details in enumerate(({"x": object()}, {"x": float("nan")}, [1], {"x": deep}, {"x": "\ud800"})):
            self.init = self.fake(f"d{number}")

            def handler(job: Job) -> None:
                raise Retry("m", details=details)  # type: ignore[arg-type]

            error = self.failure(handler)
            self.assertNotIn("details", error)
            self.assertEqual(error["message"], "m")

    def test_a_report_that_is_too_long_is_shortened(self) -> None:
        def handler(job: Job) -> None:
            raise Retry("m" * 5000, details={"x": "x" * 5000})

        error = self.failure(handler, max_frame=1024)
        self.assertNotIn("details", error)
        self.assertTrue(error["message"].startswith("mmm"))

    def test_results_that_are_no_json(self) -> None:
        circular: List[Any] = []
        circular.append(circular)
        deep: Any = 1
        for _ in range(100):
            deep = {"a": deep}
        very_deep: Any = 1
        for _ in range(100_000):
            very_deep = [very_deep]
        results = [
            object(), float("nan"), float("inf"), {"x": float("-inf")}, "\ud800", {("a",): 1}, b"b", circular, deep,
            very_deep, {1, 2},
        ]
        if hasattr(__import__("sys"), "get_int_max_str_digits"):
            results.append(10**5000)
        worker = self.worker()
        worker.job("t")(lambda job: results[int(job.id)])
        running = self.start(worker)
        for index in range(len(results)):
            self.init.send(job(str(index)))
            error = self.init.expect("fail", str(index))["error"]
            self.assertIn("result is not JSON", error["message"])
            self.assertEqual((error["retryable"], error["type"]), (False, "InvalidResult"))
        self.end(running)

    def test_the_deepest_result_that_is_allowed(self) -> None:
        deep: Any = 1
        for _ in range(99):
            deep = [deep]
        worker = self.worker()
        worker.job("t")(lambda job: deep)
        worker.job("text")(lambda job: '[{"\\' * 1000)
        running = self.start(worker)
        self.init.send(job("1"), job("2", "text"))
        self.init.expect("ack", "1", result=deep)
        self.init.expect("ack", "2", result='[{"\\' * 1000)
        self.end(running)

    def test_a_result_beyond_max_frame_is_dropped(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: "x" * job.args[0])
        running = self.start(worker, max_frame=1024)
        room = 1024 - len('{"type":"ack","job_id":"1","result":""}')
        self.init.send(job("1", "t", room))
        self.init.expect("ack", "1", result="x" * room)
        with self.assertLogs("ojs_worker", "ERROR"):
            self.init.send(job("2", "t", room + 1))
            self.assertNotIn("result", self.init.expect("ack", "2"))
        self.end(running)

    def test_release(self) -> None:
        def handler(job: Job) -> None:
            raise Release(job.args[0])

        worker = self.worker()
        worker.job("t")(handler)
        running = self.start(worker)
        self.init.send(job("1", "t", "not mine"), job("2", "t", None))
        self.init.expect("release", "1", reason="not mine")
        self.assertNotIn("reason", self.init.expect("release", "2"))
        self.end(running)

    def test_sys_exit_in_a_handler_loses_no_job(self) -> None:
        go = threading.Event()
        worker = self.worker()
        worker.job("wait")(lambda job: go.wait(PATIENCE) and "done")

        @worker.job("exit")
        def leave(job: Job) -> None:
            raise SystemExit(3)

        running = self.start(worker)
        self.init.send(job("1", "wait"), job("2", "exit"))
        error = self.init.expect("fail", "2")["error"]
        self.assertEqual((error["type"], error["retryable"]), ("SystemExit", True))
        self.init.expect("ready", concurrency=0)
        self.init.send(job("3", "wait"))
        self.init.expect("release", "3")
        go.set()
        self.init.expect("ack", "1", result="done")
        ended = running.join()
        self.assertIsInstance(ended, SystemExit)
        self.assertEqual(ended.code, 3)  # type: ignore[union-attr]
        self.init.ping()  # the connection stays open

    def test_a_keyboard_interrupt_in_a_handler_ends_the_worker(self) -> None:
        def handler(job: Job) -> None:
            raise KeyboardInterrupt

        worker = self.worker()
        worker.job("t")(handler)
        running = self.start(worker)
        self.init.send(job("1"))
        self.init.expect("fail", "1")
        self.assertIsInstance(running.join(), KeyboardInterrupt)


class Reports(ClientTest):
    def test_progress_checkpoint_heartbeat(self) -> None:
        worker = self.worker()

        @worker.job("t")
        def handler(job: Job) -> None:
            job.progress(0)
            job.progress(0.5, "half", data={"n": 2**60})
            job.checkpoint(None)
            job.checkpoint({"step": 1})
            job.heartbeat()

        running = self.start(worker)
        self.init.send(job("1"))
        self.init.expect("ack", "1")
        said = [{k: v for k, v in frame.items() if k != "job_id"} for frame in self.init.frames]
        self.assertEqual(said, [
            {"type": "progress", "progress": 0},
            {"type": "progress", "progress": 0.5, "message": "half", "data": {"n": 2**60}},
            {"type": "checkpoint", "state": None},
            {"type": "checkpoint", "state": {"step": 1}},
            {"type": "heartbeat"},
        ])
        self.init.frames.clear()
        self.end(running)

    def test_what_cannot_be_reported_is_an_error_of_the_handler(self) -> None:
        problems: List[BaseException] = []
        worker = self.worker()

        @worker.job("t")
        def handler(job: Job) -> None:
            calls = [
                lambda: job.progress(float("nan")),
                lambda: job.progress(True), lambda: job.progress("0.5"),  # type: ignore[arg-type]
                lambda: job.progress(0.5, data=object()), lambda: job.checkpoint(object()),
                lambda: job.checkpoint(float("nan")), lambda: job.checkpoint("x" * 5000),
            ]
            for call in calls:
                try:
                    call()
                except (ValueError, TypeError) as error:
                    problems.append(error)

        running = self.start(worker, max_frame=4096)
        self.init.send(job("1"))
        self.init.expect("ack", "1")
        self.assertEqual(len(problems), 7)
        self.end(running)

    def test_progress_beyond_its_ends_is_at_them(self) -> None:
        def handler(job: Job) -> None:
            for progress in (1.1, -0.1, float("inf"), 2**70):
                job.progress(progress)

        worker = Worker()
        worker.job("t")(handler)
        self.assertEqual([told["progress"] for told in worker.perform("t").progress], [1, 0, 1, 1])

    def test_nothing_about_a_job_after_its_answer(self) -> None:
        jobs: List[Job] = []
        worker = self.worker()
        worker.job("t")(jobs.append)
        running = self.start(worker)
        self.init.send(job("1"))
        self.init.expect("ack", "1")
        with self.assertRaisesRegex(OjsError, "answered already"):
            jobs[0].heartbeat()
        self.end(running)

    def test_errors_from_the_backend(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: "result")
        running = self.start(worker)

        def error(code: str, id: str = "1") -> None:
            self.init.send({"type": "error", "code": code, "message": "m", "job_id": id})

        self.init.send(job("1"))
        self.init.expect("ack", "1")
        with self.assertLogs("ojs_worker", "WARNING") as logs:
            error("refused")
            self.init.ping()
        self.assertIn("refuses its result", logs.output[0])
        for code in ("lost", "not_held", "not_offered", "unavailable", "unknown_type", "x_later"):
            error(code)
            self.init.ping()
        self.end(running)

    def test_an_answer_that_was_not_understood_is_replaced_once(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: "result")
        running = self.start(worker)
        for code in ("invalid_frame", "not_json", "frame_too_long"):
            self.init.send(job(code))
            self.init.expect("ack", code)
            self.init.held[code] = 1
            self.init.send({"type": "error", "code": code, "message": "m", "job_id": code})
            self.init.expect("fail", code)
            self.init.send({"type": "error", "code": code, "message": "m", "job_id": code})
            self.init.ping()
        self.init.send(job("fine"))
        self.init.expect("ack", "fine")
        self.init.send({"type": "ok", "job_id": "fine", "for": "ack"})
        self.init.send({"type": "error", "code": "invalid_frame", "message": "m", "job_id": "fine"})
        self.init.ping()
        self.end(running)

    def test_ojs_init_that_does_not_read(self) -> None:
        outcome: List[Any] = []
        worker = self.worker()

        @worker.job("t")
        def handler(job: Job) -> None:
            for call in (lambda: job.checkpoint("x" * 3_000_000), lambda: job.checkpoint(2), lambda: job.progress(0.5)):
                try:
                    outcome.append(call())
                except Stalled as error:
                    outcome.append(error)

        running = self.start(worker)
        self.init.reading.clear()
        assert self.init.sock
        self.init.sock.setblocking(True)
        with mock.patch.object(ojs_worker._limits, "WRITE_TIMEOUT", 0.1):
            # The fake's thread may sit in one last recv: fill what that and the socket hold.
            self.init.send(job("1"))
            wait_until(lambda: len(outcome) == 3)
        self.assertIsNone(outcome[0], "begun: it will get there")
        self.assertIsInstance(outcome[1], Stalled)
        self.assertIsNone(outcome[2], "a lost progress is no reason to fail")
        self.init.reading.set()
        self.init.expect("checkpoint", "1", state="x" * 3_000_000)
        self.init.expect("ack", "1")
        self.end(running)


class Cancel(ClientTest):
    def waiting(self, **options: Any) -> Running:
        self.jobs: Dict[str, Job] = {}
        worker = self.worker(**options)

        @worker.job("release")
        def release(job: Job) -> None:
            self.jobs[job.id] = job
            job.cancelled.wait(PATIENCE)
            raise Release(job.cancel_reason)

        @worker.job("check")
        def check(job: Job) -> None:
            self.jobs[job.id] = job
            job.raise_if_cancelled()
            job.cancelled.wait(PATIENCE)
            job.raise_if_cancelled()

        @worker.job("finish")
        def finish(job: Job) -> str:
            self.jobs[job.id] = job
            job.cancelled.wait(PATIENCE)
            return "done"

        return self.start(worker)

    def cancel(self, id: str, reason: str) -> None:
        self.init.send({"type": "cancel", "job_id": id, "reason": reason, "grace_ms": 1000})

    def test_it_reaches_the_job_that_it_names(self) -> None:
        running = self.waiting()
        self.init.send(job("1", "release"), job("2", "release"))
        wait_until(lambda: len(self.jobs) == 2)
        self.cancel("2", "timeout")
        self.init.expect("release", "2", reason="timeout")
        self.assertFalse(self.jobs["1"].cancelled.is_set())
        self.cancel("nobody", "lost")
        self.cancel("1", "cancelled")
        self.init.expect("release", "1", reason="cancelled")
        self.end(running)

    def test_the_first_reason_stays(self) -> None:
        running = self.waiting()
        self.init.send(job("1", "release"))
        wait_until(lambda: self.jobs)
        self.cancel("1", "timeout")
        self.cancel("1", "shutdown")
        self.init.expect("release", "1", reason="timeout")
        self.end(running)

    def test_the_library_answers_for_a_handler_that_gives_up(self) -> None:
        running = self.waiting()
        for reason in ("shutdown", "cancelled", "lost", "x_later", "timeout"):
            self.init.send(job(reason, "check"))
            wait_until(lambda reason=reason: reason in self.jobs)
            self.cancel(reason, reason)
            if reason == "timeout":
                error = self.init.expect("fail", reason)["error"]
                self.assertEqual((error["code"], error["retryable"]), ("timeout", True))
            else:
                self.init.expect("release", reason, reason=reason)
        self.end(running)

    def test_a_handler_may_finish_all_the_same(self) -> None:
        running = self.waiting()
        self.init.send(job("1", "finish"))
        wait_until(lambda: self.jobs)
        self.cancel("1", "shutdown")
        self.init.expect("ack", "1", result="done")
        self.end(running)

    def test_an_error_that_says_lost_cancels(self) -> None:
        running = self.waiting()
        for code in ("lost", "not_held"):
            self.init.send(job(code, "release"))
            wait_until(lambda code=code: code in self.jobs)
            with self.assertLogs("ojs_worker", "WARNING"):
                self.init.send({"type": "error", "code": code, "message": "m", "job_id": code})
                self.init.expect("release", code, reason="lost")
        self.end(running)

    def test_other_errors_do_not(self) -> None:
        running = self.waiting()
        self.init.send(job("1", "release"))
        wait_until(lambda: self.jobs)
        for code in ("unavailable", "not_offered", "refused", "invalid_frame", "x_later"):
            self.init.send({"type": "error", "code": code, "message": "m", "job_id": "1"})
        self.init.ping()
        self.assertFalse(self.jobs["1"].cancelled.is_set())
        self.cancel("1", "shutdown")
        self.init.expect("release", "1")
        self.end(running)

    def test_a_job_that_is_cancelled_before_its_turn_is_given_back(self) -> None:
        running = self.waiting(concurrency=1)
        self.init.send(job("1", "release"), job("2", "finish"))
        wait_until(lambda: self.jobs)
        self.cancel("2", "cancelled")
        self.cancel("1", "cancelled")
        self.init.expect("release", "1")
        self.init.expect("release", "2", reason="cancelled")
        self.assertEqual(list(self.jobs), ["1"])
        self.end(running)

    def test_cancelled_without_a_cancel_is_a_failure(self) -> None:
        def handler(job: Job) -> None:
            raise Cancelled("who?")

        worker = self.worker()
        worker.job("t")(handler)
        running = self.start(worker)
        self.init.send(job("1"))
        self.init.expect("fail", "1")
        self.end(running)


class Lifecycle(ClientTest):
    def waiting(self, **options: Any) -> Running:
        self.go = threading.Event()
        self.addCleanup(self.go.set)
        self.jobs: List[Job] = []
        self.handled = self.worker(**options)

        @self.handled.job("t")
        def handler(job: Job) -> str:
            self.jobs.append(job)
            self.go.wait(PATIENCE)
            return "done"

        return self.start(self.handled)

    def test_quiet_and_running(self) -> None:
        running = self.waiting()
        self.assertEqual(self.handled.state, "running")
        self.init.send({"type": "lifecycle", "state": "quiet", "reason": "sigtstp"})
        self.init.send(job("1"))  # one that was on its way
        wait_until(lambda: self.jobs)
        self.assertEqual(self.handled.state, "quiet")
        self.assertIsNone(self.jobs[0].remaining())
        self.go.set()
        self.init.expect("ack", "1")
        self.init.ping()
        self.init.send({"type": "lifecycle", "state": "running", "reason": "sigcont"}, job("2"))
        self.init.expect("ack", "2")
        self.assertEqual(self.handled.state, "running")
        self.end(running)

    def test_terminate_lets_jobs_finish(self) -> None:
        running = self.waiting()
        self.init.send(job("1"))
        wait_until(lambda: self.jobs)
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 60000})
        self.init.ping()
        self.assertEqual(self.handled.state, "terminate")
        remaining = self.jobs[0].remaining()
        assert remaining is not None
        self.assertTrue(60 - PATIENCE < remaining <= 60, remaining)
        self.assertFalse(self.jobs[0].cancelled.is_set())
        self.init.send({"type": "lifecycle", "state": "running", "reason": "sigcont"})
        self.init.send(job("2"))  # never from ojs-init
        self.init.expect("release", "2")
        self.assertEqual(self.handled.state, "terminate")
        self.assertTrue(running.thread.is_alive())
        self.go.set()
        self.init.expect("ack", "1", result="done")
        self.assertIsNone(running.join())
        self.init.expect_eof()

    def test_stop_lets_jobs_finish(self) -> None:
        running = self.waiting()
        self.init.send(job("1"))
        wait_until(lambda: self.jobs)
        self.handled.stop()
        self.handled.stop()
        self.init.expect("ready", concurrency=0)
        self.init.send(job("2"))
        self.init.expect("release", "2")
        self.assertFalse(self.jobs[0].cancelled.is_set())
        self.go.set()
        self.init.expect("ack", "1")
        self.assertIsNone(running.join())

    def test_a_job_on_its_way_while_we_stop_is_given_back_however_slow_ojs_init_is(self) -> None:
        with mock.patch.object(ojs_worker._limits, "SETTLE_TIME", 10 * PATIENCE):
            running = self.waiting()
            self.init.answers_asks = False
            self.handled.stop()
            self.init.expect("ready", concurrency=0)
            wait_until(lambda: self.init.asks == 1, "the question how far it has read")
            self.init.send(job("1"))
            self.init.expect("release", "1")
            self.assertTrue(running.thread.is_alive())
            self.init.say_not_held()
            self.assertIsNone(running.join())

    def test_who_makes_place_for_another_process_takes_what_still_comes_until_ojs_init_knows(self) -> None:
        for make in (self.worker, self.async_worker):
            with self.subTest(make.__name__):
                self.init = self.fake(make.__name__)
                worker = make(2)

                async def on_asyncio(job: AsyncJob) -> str:
                    return "done"

                handler: Any = (lambda job: "done") if isinstance(worker, Worker) else on_asyncio
                worker.job("t")(handler)
                ours, theirs = socket.socketpair()
                self.addCleanup(ours.close)
                worker._parent = Parent(theirs, Limits(max_jobs=1))
                self.init.answers_asks = False
                running = self.start(worker)
                self.assertEqual(ours.recv(100), b"ready\n")
                Child(0, ours).may_go()
                self.init.expect("ready", concurrency=0)
                wait_until(lambda: self.init.asks)
                self.init.send(job("1"), job("2"))
                self.init.expect("ack", "1", result="done")
                self.init.expect("ack", "2", result="done")
                self.init.send(job("3"))
                self.init.say_not_held()
                self.init.send(job("4"))
                self.init.expect("ack", "3")
                self.init.expect("release", "4")
                self.assertIsNone(running.join())
                theirs.close()

    def test_a_stop_of_all_processes_gives_back_what_still_comes(self) -> None:
        worker = self.worker(2)
        worker.job("t")(lambda job: "done")
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        worker._parent = Parent(theirs, Limits())
        self.init.answers_asks = False
        running = self.start(worker)
        Child(0, ours).may_stop()
        self.init.expect("ready", concurrency=0)
        self.init.send(job("1"))
        self.init.expect("release", "1")
        self.init.say_not_held()
        self.assertIsNone(running.join())

    def test_a_stop_does_not_wait_for_ever_for_what_ojs_init_says(self) -> None:
        with mock.patch.object(ojs_worker._limits, "SETTLE_TIME", 0.05):
            running = self.waiting()
            self.init.answers_asks = False
            self.handled.stop()
            self.assertIsNone(running.join())

    def test_the_connection_stays_open_after_a_stop_and_a_late_job_is_given_back(self) -> None:
        running = self.waiting()
        self.handled.stop()
        self.init.expect("ready", concurrency=0)
        self.assertIsNone(running.join())
        self.init.send(job("1"))
        self.init.expect("release", "1")
        self.init.ping()
        self.assertFalse(self.init.is_eof)

    def test_terminate_ends_a_stop_that_waits(self) -> None:
        with mock.patch.object(ojs_worker._limits, "SETTLE_TIME", 10 * PATIENCE):
            running = self.waiting()
            self.init.answers_asks = False
            self.handled.stop()
            self.init.expect("ready", concurrency=0)
            self.end(running)

    def test_stop_before_run(self) -> None:
        worker = self.worker()
        worker.job("t")(lambda job: None)
        worker.stop()
        running = Running(worker)
        self.assertIsNone(running.join())

    def test_the_end_of_the_connection(self) -> None:
        running = self.waiting()
        self.init.ping()
        self.init.hang_up()
        self.assertIsInstance(running.join(), ConnectionLost)

    def test_an_ojs_init_that_reads_no_more(self) -> None:
        running = self.waiting()
        assert self.init.sock
        self.init.reading.clear()
        self.init.sock.shutdown(socket.SHUT_RD)
        self.init.send({"type": "ping", "id": 1}, {"type": "ping", "id": 2})
        self.assertIsInstance(running.join(), ConnectionLost)

    def test_the_end_of_the_connection_while_terminating(self) -> None:
        running = self.waiting()
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 60000})
        self.init.hang_up()
        self.assertIsNone(running.join())

    def test_the_end_of_the_connection_stops_handlers(self) -> None:
        told: List[Any] = []
        worker = self.worker()

        @worker.job("t")
        def handler(job: Job) -> None:
            told.append("began")
            try:
                job.cancelled.wait(PATIENCE)
                told.append(job.cancel_reason)
                job.heartbeat()
            except BaseException as error:
                told.append(type(error))
                raise

        running = self.start(worker)
        self.init.send(job("1"))
        wait_until(lambda: told)
        with self.assertLogs("ojs_worker", "ERROR"):
            self.init.hang_up()
            self.assertIsInstance(running.join(), ConnectionLost)
        self.assertEqual(told, ["began", "lost", ConnectionLost])

    def test_what_ojs_init_wrote_before_it_closed_is_read(self) -> None:
        running = self.waiting()
        self.go.set()
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 60000})
        assert self.init.sock
        self.init.sock.shutdown(socket.SHUT_WR)
        self.assertIsNone(running.join())


class Processes(ClientTest):
    WORKER = """
worker = Worker(4, **options)

@worker.job("wait")
def wait(job):
    job.heartbeat()
    job.cancelled.wait()
    raise Release(job.cancel_reason)

@worker.job("stuck")
def stuck(job):
    job.heartbeat()
    time.sleep(600)

@worker.job("short")
def short(job):
    job.heartbeat()
    job.cancelled.wait()
    time.sleep(0.3)
    return "done"

worker.run()
print("after run", flush=True)
"""

    def ran(self, process: Any) -> bool:
        return "after run" in process.stdout.read()

    def test_sigterm_while_idle(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self.init = self.fake(f"s{number}")
            process = self.script("options = {}" + self.WORKER)
            self.init.hello()
            process.send_signal(number)
            self.assertEqual(self.exit_status(process), 0)
            self.assertTrue(self.ran(process))
            self.init.expect_eof()

    def test_sigterm_after_terminate(self) -> None:
        process = self.script("options = {}" + self.WORKER)
        self.init.hello()
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 9000})
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.exit_status(process), 0)

    def test_a_sigterm_between_the_last_word_and_the_end_says_nothing(self) -> None:
        at_the_end = """
import ojs_worker
close = ojs_worker._link.Link.close
def close_and_be_signalled(link):
    close(link)
    os.kill(os.getpid(), signal.SIGTERM)
ojs_worker._link.Link.close = close_and_be_signalled
"""
        process = self.script(at_the_end + "options = {}" + self.WORKER)
        self.init.hello()
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 9000})
        self.assertEqual(self.exit_status(process), 0)
        assert process.stderr
        self.assertEqual(process.stderr.read(), "")

    def test_sigterm_cancels_what_is_held(self) -> None:
        process = self.script("options = {'stop_grace': 60}" + self.WORKER)
        self.init.hello()
        self.init.send(job("1", "wait"), job("2", "short"))
        self.init.expect("heartbeat", "1")
        self.init.expect("heartbeat", "2")
        process.send_signal(signal.SIGTERM)
        self.init.expect("release", "1", reason="shutdown")
        self.init.expect("ack", "2", result="done")
        self.assertEqual(self.exit_status(process), 0)
        self.assertTrue(self.ran(process))

    def test_sigterm_does_not_wait_for_stuck_handlers(self) -> None:
        process = self.script("options = {}" + self.WORKER)
        self.init.hello()
        self.init.send(job("1", "wait"), job("2", "stuck"))
        self.init.expect("heartbeat", "1")
        self.init.expect("heartbeat", "2")
        process.send_signal(signal.SIGTERM)
        self.init.expect("release", "1", reason="shutdown")
        self.assertEqual(self.exit_status(process), 143)
        self.assertFalse(self.ran(process))

    def test_sigterm_with_all_the_time_there_is(self) -> None:
        process = self.script("options = {'stop_grace': None}" + self.WORKER)
        self.init.hello()
        self.init.send(job("1", "short"))
        self.init.expect("heartbeat", "1")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        self.init.expect("ack", "1", result="done")
        self.assertEqual(self.exit_status(process), 0)

    def test_a_sigterm_after_run_does_no_harm(self) -> None:
        process = self.script("options = {}" + self.WORKER + "time.sleep(0.3); print('well', flush=True)")
        self.init.hello()
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 9000})
        assert process.stdout
        self.assertEqual(process.stdout.readline(), "after run\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "well\n")
        self.assertEqual(self.exit_status(process), 0)

    def test_signals_left_to_the_program(self) -> None:
        source = """
signal.signal(signal.SIGTERM, lambda *_: worker.stop())
worker = Worker(handle_signals=False)
worker.job("t")(lambda job: None)
worker.run()
"""
        process = self.script(source)
        self.init.hello()
        process.send_signal(signal.SIGTERM)
        self.init.expect("ready", concurrency=0)
        self.assertEqual(self.exit_status(process), 0)

    def test_signal_handlers_are_given_back(self) -> None:
        source = """
mine = lambda *_: None
signal.signal(signal.SIGTERM, mine)
worker = Worker()
worker.job("t")(lambda job: None)
worker.run()
assert signal.getsignal(signal.SIGTERM) is mine
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.set_wakeup_fd(-1) == -1
print("after run")
"""
        process = self.script(source)
        self.init.hello()
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 9000})
        self.assertEqual(self.exit_status(process), 0)
        self.assertTrue(self.ran(process))

    def test_a_stuck_handler_does_not_outlive_the_connection(self) -> None:
        process = self.script("options = {}" + self.WORKER)
        self.init.hello()
        self.init.send(job("1", "stuck"))
        self.init.expect("heartbeat", "1")
        self.init.hang_up()
        self.assertEqual(self.exit_status(process), 1)

    def test_a_lost_connection_is_no_success(self) -> None:
        process = self.script("options = {}" + self.WORKER)
        self.init.hello()
        self.init.hang_up()
        self.assertEqual(self.exit_status(process), 1)
        assert process.stderr
        self.assertIn("ConnectionLost", process.stderr.read())

    def test_sys_exit_is_the_exit_status(self) -> None:
        process = self.script("""
worker = Worker()
@worker.job("t")
def leave(job):
    sys.exit(7)
worker.run()
""")
        self.init.hello()
        self.init.send(job("1"))
        self.init.expect("fail", "1")
        self.assertEqual(self.exit_status(process), 7)

    def test_a_forked_child_cannot_speak_for_its_parent(self) -> None:
        process = self.script("""
worker = Worker()
@worker.job("fork")
def fork(job):
    pid = os.fork()
    if pid == 0:
        for call in (job.heartbeat, lambda: job.progress(0.5), lambda: job.checkpoint(1)):
            try:
                call()
                os._exit(1)
            except ForkedProcess:
                pass
        return "the child comes back from the handler: no answer"
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

@worker.job("exit")
def leave(job):
    pid = os.fork()
    if pid == 0:
        sys.exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

@worker.job("raise")
def fail(job):
    pid = os.fork()
    if pid == 0:
        raise ValueError("in the child")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

@worker.job("term")
def terminate(job):
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    os.kill(pid, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
worker.run()
""")
        self.init.hello()
        self.init.send(job("1", "fork"), job("2", "exit"), job("3", "raise"), job("4", "term"))
        self.init.expect("ack", "1", result=0)
        self.init.expect("ack", "2", result=9)
        self.init.expect("ack", "3", result=1)
        self.init.expect("ack", "4", result=-signal.SIGTERM)
        self.init.ping()
        self.assertEqual(self.init.frames, [])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.exit_status(process), 0)

    def test_neither_a_fork_nor_a_program_keeps_the_connection_open(self) -> None:
        process = self.script("""
import subprocess
worker = Worker()
@worker.job("t")
def start(job):
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    return [pid, subprocess.Popen(["sleep", "600"]).pid]
worker.run()
""")
        self.init.hello()
        self.init.send(job("1"))
        pids = self.init.expect("ack", "1")["result"]
        try:
            process.kill()
            self.init.expect_eof()
            for pid in pids:
                os.kill(pid, 0)  # both are there
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    def test_prefork(self) -> None:
        process = self.script("""
import multiprocessing
worker = Worker(1)
worker.job("t")(lambda job: os.getpid())
if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=worker.run) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    sys.exit(sum(child.exitcode for child in children))
""")
        first = self.init
        second = self.fake("unused")
        second.listener.close()
        second.listener = first.listener.dup()
        second.listener.settimeout(PATIENCE)
        first.hello()
        second.hello()
        first.send(job("1"))
        second.send(job("2"))
        pids = {first.expect("ack", "1")["result"], second.expect("ack", "2")["result"]}
        self.assertEqual(len(pids), 2)
        self.assertNotIn(process.pid, pids)
        for init in (first, second):
            init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 9000})
        self.assertEqual(self.exit_status(process), 0)


if __name__ == "__main__":
    unittest.main()
