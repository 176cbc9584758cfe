"""AsyncWorker: handlers on an event loop. What it shares with Worker is tested there."""

from __future__ import annotations

import asyncio
import signal
import threading
import unittest
from typing import Any, Dict, List
from unittest import mock

from .fake_init import PATIENCE, ClientTest, Running, job, wait_until

import ojs_worker
from ojs_worker import AsyncJob, ConnectionLost, NotUnderOjsInit, Release, Stalled
from ojs_worker._executor import Executor


class Async(ClientTest):
    def test_jobs_and_results(self) -> None:
        worker = self.async_worker()

        @worker.job("t")
        async def handler(job: AsyncJob) -> Any:
            await job.progress(0.5, "half")
            await job.checkpoint({"n": 2**60})
            await job.heartbeat()
            return [job.args, job.last_checkpoint]

        @worker.job("plain")
        async def plain(job: AsyncJob) -> str:
            return "plain"

        running = self.start(worker)
        self.init.send({**job("1", "t", 2**70), "checkpoint": "c"}, job("2", "plain"))
        self.init.expect("ack", "1", result=[[2**70], "c"])
        self.init.expect("ack", "2", result="plain")
        self.init.expect("progress", "1", progress=0.5, message="half")
        self.init.expect("checkpoint", "1", state={"n": 2**60})
        self.init.expect("heartbeat", "1")
        self.end(running)

    def test_never_more_handlers_than_concurrency(self) -> None:
        now, most = 0, 0
        worker = self.async_worker(3)

        @worker.job("t")
        async def handler(job: AsyncJob) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.002)
            now -= 1

        running = self.start(worker)
        for number in range(40):
            self.init.send(job(str(number)))
        for number in range(40):
            self.init.expect("ack", str(number))
        self.assertEqual(most, 3)
        self.end(running)

    def test_without_a_number_of_its_own_it_runs_as_many_handlers_as_ojs_init_allows(self) -> None:
        worker = self.async_worker(None)
        gate = None
        now = 0

        @worker.job("t")
        async def handler(job: AsyncJob) -> None:
            nonlocal gate, now
            gate = gate or asyncio.Event()  # in Python 3.9 it belongs to the loop in which it is made
            now += 1
            if now == 100:
                gate.set()
            await gate.wait()

        running = self.start(worker)
        for number in range(100):
            self.init.send(job(str(number)))
        for _ in range(100):
            self.init.expect("ack")
        self.end(running)

    def test_a_thousand_jobs_get_one_answer_each(self) -> None:
        worker = self.async_worker(50)

        @worker.job("t")
        async def handler(job: AsyncJob) -> Any:
            await asyncio.sleep(0)
            return job.args[0]

        running = self.start(worker)
        answers: Dict[str, Any] = {}
        sent = 0
        while len(answers) < 1000:
            with self.init.changed:
                self.init.changed.wait_for(lambda: bool(self.init.frames), 0.01)
                frames, self.init.frames = self.init.frames, []
            for frame in frames:
                self.assertEqual(frame["type"], "ack")
                self.assertNotIn(frame["job_id"], answers)
                answers[frame["job_id"]] = frame["result"]
            while sent < 1000 and sent - len(answers) < 50:
                self.init.send(job(str(sent), "t", sent))
                sent += 1
            self.assertFalse(self.init.is_eof)
        self.assertEqual(answers, {str(number): number for number in range(1000)})
        self.end(running)

    def test_failures(self) -> None:
        worker = self.async_worker()

        @worker.job("t")
        async def handler(job: AsyncJob) -> Any:
            if job.args[0] == "crash":
                raise KeyError("boom")
            if job.args[0] == "cancelled":
                raise asyncio.CancelledError
            if job.args[0] == "release":
                raise Release("not mine")
            return object()

        running = self.start(worker)
        self.init.send(job("1", "t", "crash"), job("2", "t", "cancelled"), job("3", "t", "release"), job("4", "t", "x"))
        error = self.init.expect("fail", "1")["error"]
        self.assertEqual((error["type"], error["retryable"]), ("KeyError", True))
        self.assertEqual([line.split(" in ")[-1] for line in error["backtrace"]], ["handler"])
        self.assertEqual(self.init.expect("fail", "2")["error"]["type"], "CancelledError")
        self.init.expect("release", "3", reason="not mine")
        self.assertEqual(self.init.expect("fail", "4")["error"]["type"], "InvalidResult")
        self.end(running)

    def test_cancel(self) -> None:
        jobs: List[AsyncJob] = []
        worker = self.async_worker()

        @worker.job("t")
        async def handler(job: AsyncJob) -> None:
            jobs.append(job)
            await job.cancelled.wait()
            job.raise_if_cancelled()

        running = self.start(worker)
        self.init.send(job("1"), job("2"))
        wait_until(lambda: len(jobs) == 2)
        self.init.send({"type": "cancel", "job_id": "2", "reason": "timeout", "grace_ms": 1})
        self.assertEqual(self.init.expect("fail", "2")["error"]["code"], "timeout")
        self.init.send({"type": "cancel", "job_id": "1", "reason": "lost", "grace_ms": 1})
        self.init.expect("release", "1", reason="lost")
        # Both at once: the event exists before its job's first step.
        self.init.send(job("3"), {"type": "cancel", "job_id": "3", "reason": "shutdown", "grace_ms": 1})
        self.init.expect("release", "3", reason="shutdown")
        self.end(running)

    def test_terminate_lets_jobs_finish(self) -> None:
        go = threading.Event()
        jobs: List[AsyncJob] = []
        worker = self.async_worker()

        @worker.job("t")
        async def handler(job: AsyncJob) -> str:
            jobs.append(job)
            while not go.is_set():
                await asyncio.sleep(0.005)
            return "done"

        running = self.start(worker)
        self.init.send(job("1"))
        wait_until(lambda: jobs)
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 60000})
        self.init.ping()
        remaining = jobs[0].remaining()
        assert remaining is not None
        self.assertTrue(60 - PATIENCE < remaining <= 60)
        go.set()
        self.init.expect("ack", "1", result="done")
        self.assertIsNone(running.join())
        self.init.expect_eof()

    def test_a_ping_is_answered_while_the_loop_is_blocked(self) -> None:
        go, began = threading.Event(), threading.Event()
        worker = self.async_worker()

        @worker.job("t")
        async def handler(job: AsyncJob) -> None:
            began.set()
            go.wait(PATIENCE)

        running = self.start(worker)
        self.init.send(job("1"))
        began.wait(PATIENCE)
        self.init.ping()
        go.set()
        self.init.expect("ack", "1")
        self.end(running)

    def test_sys_exit_in_a_handler_loses_no_job(self) -> None:
        go = threading.Event()
        worker = self.async_worker()

        @worker.job("wait")
        async def wait(job: AsyncJob) -> str:
            while not go.is_set():
                await asyncio.sleep(0.005)
            return "done"

        @worker.job("exit")
        async def leave(job: AsyncJob) -> None:
            raise SystemExit(3)

        running = self.start(worker)
        self.init.send(job("1", "wait"), job("2", "exit"))
        self.assertEqual(self.init.expect("fail", "2")["error"]["type"], "SystemExit")
        self.init.expect("ready", concurrency=0)
        go.set()
        self.init.expect("ack", "1", result="done")
        ended = running.join()
        self.assertIsInstance(ended, SystemExit)
        self.assertEqual(ended.code, 3)  # type: ignore[union-attr]

    def test_the_end_of_the_connection_stops_handlers(self) -> None:
        told: List[Any] = []
        worker = self.async_worker(1)

        @worker.job("t")
        async def handler(job: AsyncJob) -> None:
            told.append(job)
            await asyncio.sleep(PATIENCE)

        running = self.start(worker)
        self.init.send(job("1"), job("2"))
        wait_until(lambda: told)
        with mock.patch.object(ojs_worker._ending, "end_now", side_effect=AssertionError("they have ended by themselves")):
            self.init.hang_up()
            self.assertIsInstance(running.join(), ConnectionLost)
        self.assertTrue(told[0].cancelled.is_set())
        self.assertEqual(told[0].cancel_reason, "lost")

    def test_ojs_init_that_does_not_read(self) -> None:
        outcome: List[Any] = []
        worker = self.async_worker()

        @worker.job("t")
        async def handler(job: AsyncJob) -> None:
            for state in ("x" * 3_000_000, 2):
                try:
                    outcome.append(await job.checkpoint(state))  # type: ignore[func-returns-value]
                except Stalled as error:
                    outcome.append(error)

        running = self.start(worker)
        self.init.reading.clear()
        with mock.patch.object(ojs_worker._limits, "WRITE_TIMEOUT", 0.1):
            self.init.send(job("1"))
            wait_until(lambda: len(outcome) == 2)
        self.assertIsInstance(outcome[1], Stalled)
        self.init.reading.set()
        self.init.expect("ack", "1")
        self.init.expect("checkpoint", "1")
        self.end(running)

    def test_serve_in_a_loop_of_the_program_and_cancelled(self) -> None:
        began = threading.Event()
        worker = self.async_worker()

        @worker.job("t")
        async def handler(job: AsyncJob) -> None:
            began.set()
            await asyncio.sleep(PATIENCE)

        async def program() -> str:
            task = asyncio.ensure_future(worker.serve())
            while not began.is_set():
                await asyncio.sleep(0.005)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return "cancelled"
            return "returned"

        class Program:
            def run(self) -> None:
                self.outcome = asyncio.run(program())

        running = self.start(Program())
        self.init.send(job("1"))
        self.init.expect("fail", "1")
        self.assertIsNone(running.join())
        self.assertEqual(running.worker.outcome, "cancelled")
        self.init.ping()  # the connection stays open

    def test_nobody_to_connect_to(self) -> None:
        worker = ojs_worker.AsyncWorker(socket_path=self.directory + "/nobody")

        @worker.job("t")
        async def handler(job: AsyncJob) -> None: ...

        self.assertIsInstance(Running(worker).join(), NotUnderOjsInit)


class Threads(unittest.TestCase):
    def test_what_runs_has_some_time_to_finish_and_nothing_new_begins(self) -> None:
        executor = Executor()
        go = threading.Event()
        results = [executor.submit(go.wait, PATIENCE), executor.submit(int, "7"), executor.submit(int, "x")]
        timer = threading.Timer(0.05, go.set)
        timer.start()
        self.addCleanup(timer.join)
        with mock.patch.object(ojs_worker._limits, "STOP_GRACE", PATIENCE):
            executor.shutdown()
        self.assertTrue(all(result.done() for result in results))
        self.assertEqual((results[0].result(), results[1].result()), (True, 7))
        self.assertIsInstance(results[2].exception(), ValueError)
        with self.assertRaises(RuntimeError):
            executor.submit(int)

    def test_what_does_not_finish_is_left(self) -> None:
        executor = Executor()
        go = threading.Event()
        self.addCleanup(go.set)
        result = executor.submit(go.wait, PATIENCE)
        with mock.patch.object(ojs_worker._limits, "STOP_GRACE", 0.01):
            executor.shutdown()
        self.assertFalse(result.done())


class AsyncProcesses(ClientTest):
    WORKER = """
import asyncio
worker = AsyncWorker(4)

@worker.job("wait")
async def wait(job):
    await job.heartbeat()
    await job.cancelled.wait()
    raise Release(job.cancel_reason)

@worker.job("stuck")
async def stuck(job):
    await job.heartbeat()
    time.sleep(600)

worker.run()
print("after run", flush=True)
"""

    def test_sigterm(self) -> None:
        process = self.script(self.WORKER)
        self.init.hello()
        self.init.send(job("1", "wait"))
        self.init.expect("heartbeat", "1")
        process.send_signal(signal.SIGTERM)
        self.init.expect("release", "1", reason="shutdown")
        self.assertEqual(self.exit_status(process), 0)
        assert process.stdout
        self.assertIn("after run", process.stdout.read())

    HANGING = """
import asyncio
worker = AsyncWorker(4)

@worker.job("hang")
async def hang(job):
    await job.heartbeat()
    await asyncio.to_thread(time.sleep, 600)

@worker.job("leave")
async def leave(job):
    thread = asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
    await asyncio.wait({thread}, timeout=0.01)
    return "gave up"

try:
    worker.run()
finally:
    print("after run", flush=True)
"""

    def test_a_thread_that_a_handler_waits_for_does_not_outlive_the_connection(self) -> None:
        process = self.script(self.HANGING)
        self.init.hello()
        self.init.send(job("1", "hang"))
        self.init.expect("heartbeat", "1")
        self.init.hang_up()
        self.assertEqual(self.exit_status(process), 1)

    def test_a_thread_that_a_handler_gave_up_does_not_keep_the_process(self) -> None:
        process = self.script(self.HANGING)
        self.init.hello()
        self.init.send(job("1", "leave"))
        self.init.expect("ack", "1", result="gave up")
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 60000})
        self.assertEqual(self.exit_status(process), 0)
        assert process.stdout
        self.assertIn("after run", process.stdout.read())

    def test_nor_does_such_a_thread_keep_it_after_a_sigterm(self) -> None:
        process = self.script(self.HANGING)
        self.init.hello()
        self.init.send(job("1", "leave"))
        self.init.expect("ack", "1", result="gave up")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.exit_status(process), 0)

    def test_sigterm_of_a_forked_child_is_none_of_ours(self) -> None:
        process = self.script("""
worker = AsyncWorker(4)
@worker.job("t")
async def terminate(job):
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    os.kill(pid, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
worker.run()
""")
        self.init.hello()
        for number in range(20):
            self.init.send(job(str(number)))
            self.init.expect("ack", str(number), result=-signal.SIGTERM)
        self.init.ping()
        self.assertEqual(self.init.frames, [])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.exit_status(process), 0)

    def test_a_blocked_loop_does_not_outlive_the_connection(self) -> None:
        process = self.script(self.WORKER)
        self.init.hello()
        self.init.send(job("1", "stuck"))
        self.init.expect("heartbeat", "1")
        self.init.hang_up()
        self.assertEqual(self.exit_status(process), 1)


if __name__ == "__main__":
    unittest.main()
