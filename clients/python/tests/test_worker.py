"""Worker: what is said at the start, and jobs that are done."""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
import time
import unittest
from typing import Any, Dict, List
from unittest import mock

from .fake_init import PATIENCE, ClientTest, Running, job, wait_until

import ojs_worker
from ojs_worker import Job, NotUnderOjsInit, OjsError, ProtocolError, Release, Retry


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
        for function, options in (
            (ojs_worker.Worker, "concurrency, socket_path, handle_signals, stop_grace"),
            (ojs_worker.AsyncWorker, "concurrency, socket_path, handle_signals, stop_grace"),
            (ojs_worker.AsyncWorker().job, "args"),
            (functools.partial(worker.job, "t"), "args"),
            (Retry, "message, after, code, type, details"),
            (ojs_worker.Discard, "message, code, type, details"),
            (Release, "reason, after"),
            (worker.run, "processes, max_jobs, max_age, max_memory"),
            (functools.partial(worker.perform, "t", []), "type, args, id, .*, patience"),
        ):
            with self.assertRaisesRegex(TypeError, f"unknown option concurency; there are {options}$"):
                function(concurency=2)  # type: ignore[operator]
        for grace in (-1, True, "2", float("nan"), float("inf"), 30 * 86400, 10**400):
            with self.assertRaisesRegex(ValueError, "stop_grace is a number of seconds up to 86400, or None to wait"):
                ojs_worker.Worker(stop_grace=grace)  # type: ignore[arg-type]

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


if __name__ == "__main__":
    unittest.main()
