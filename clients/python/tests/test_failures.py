"""Worker: jobs that fail, and what their handlers report meanwhile."""

from __future__ import annotations

import logging
import threading
import unittest
from typing import Any, Dict, List
from unittest import mock

from .fake_init import PATIENCE, ClientTest, job, wait_until

import ojs_worker
from ojs_worker import Discard, Job, OjsError, Release, Retry, Stalled, StepsChanged, Worker


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
        self.assertIn("test_failures.py:", error["backtrace"][0])

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

    def test_a_failure_in_the_handlers_own_words_is_not_logged_and_one_with_a_cause_or_of_the_library_is(self) -> None:
        def raises(job: Job) -> None:
            if job.args[0] == "plain":
                raise Discard("no such user")
            if job.args[0] == "cancelled":
                job.cancelled.wait()
                job.raise_if_cancelled()
            if job.args[0] == "of the library":
                raise StepsChanged("other steps")
            try:
                raise KeyError("why")
            except KeyError as error:
                if job.args[0] == "from":
                    raise Retry("later") from error
                if job.args[0] == "from none":
                    raise Retry("later") from None
                raise Retry("later")

        worker = Worker()
        worker.job("t")(raises)
        for case in ("from", "within", "of the library"):
            with self.assertLogs("ojs_worker", "ERROR"):
                worker.perform("t", [case])
        for case in ("plain", "from none", "cancelled"):
            with self.assertLogs("ojs_worker", "ERROR") as logs:
                logging.getLogger("ojs_worker").error("the only one")
                self.assertEqual("fail", worker.perform("t", [case], timeout=0.01 if case == "cancelled" else None).outcome)
            self.assertEqual(["ERROR:ojs_worker:the only one"], logs.output, case)

    def test_a_subclass_that_leaves_out_our_init_keeps_its_meaning(self) -> None:
        class NoUser(Discard):
            def __init__(self, user: str) -> None:
                self.user = user

        class NotMine(Release):
            def __init__(self) -> None:
                pass

        worker = Worker()

        @worker.job("t")
        def handler(job: Job) -> None:
            raise NoUser("ann") if job.args else NotMine()

        outcome = worker.perform("t", [1])
        assert outcome.error is not None
        self.assertEqual((outcome.error["retryable"], outcome.error["type"], outcome.error["message"]), (False, "NoUser", "ann"))
        self.assertEqual(worker.perform("t", []).outcome, "release")

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


if __name__ == "__main__":
    unittest.main()
