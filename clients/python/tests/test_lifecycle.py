"""Worker: jobs that are cancelled, and how a worker ends."""

from __future__ import annotations

import socket
import threading
import unittest
from typing import Any, Dict, List
from unittest import mock

from .fake_init import PATIENCE, ClientTest, Running, job, wait_until

import ojs_worker
from ojs_worker import AsyncJob, Cancelled, ConnectionLost, Job, Release, Worker
from ojs_worker._parent import Limits, Parent
from ojs_worker._processes import Child


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


if __name__ == "__main__":
    unittest.main()
