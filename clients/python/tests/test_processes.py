"""Several processes of one worker."""

import os
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

from ojs_worker import Worker
from ojs_worker._processes import shares

from .many_init import PATIENCE, ManyInit, children_of, resolved

HERE = Path(__file__).resolve().parent.parent

PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, {here!r})
from ojs_worker import AsyncWorker, Worker
worker = {kind}()

@worker.job("t")
{async_}def handle(job):
    {body}

if __name__ == "__main__":
    worker.run({options})
"""


class Running:
    """A program that runs a worker in several processes, and an ojs-init for it."""

    def __init__(self, jobs: int, options: str, body: str = "return os.getpid()", kind: str = "Worker", concurrency: int = 10) -> None:
        self.init = ManyInit(jobs)
        async_ = "async " if kind == "AsyncWorker" else ""
        program = PROGRAM.format(here=str(HERE), kind=kind, async_=async_, body=body, options=options)
        environment = {**os.environ, "OJS_SOCKET": self.init.path, "OJS_CONCURRENCY": str(concurrency)}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program],
            env=environment,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def go_on(self) -> None:
        """For a handler that waits for the end of its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> int:
        """SIGTERM as ojs-init sends it, to who is idle; the status."""
        self.init.terminate()
        self.process.send_signal(signal.SIGTERM)
        self.init.work_until("the end of all processes", lambda: self.process.poll() is not None)
        return resolved(self.process.returncode)

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def close(self) -> None:
        if self.process.poll() is None:
            for pid in [*children_of(self.process.pid), self.process.pid]:
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
        self.go_on()
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.init.close()


class Processes(unittest.TestCase):
    def start(self, jobs: int, options: str, **more: object) -> Running:
        running = Running(jobs, options, **more)  # type: ignore[arg-type]
        self.addCleanup(running.close)
        return running

    def test_shares_differ_by_one_at_most_and_none_is_nothing(self) -> None:
        self.assertEqual(shares(10, 4), [3, 3, 2, 2])
        self.assertEqual(shares(3, 8), [1, 1, 1])
        for total in range(1, 40):
            for count in range(1, 20):
                of_each = shares(total, count)
                self.assertEqual(sum(of_each), total)
                self.assertTrue(min(of_each) >= 1 and max(of_each) - min(of_each) <= 1)

    def test_all_processes_share_the_concurrency_and_end_with_0(self) -> None:
        for kind in ("Worker", "AsyncWorker"):
            with self.subTest(kind):
                running = self.start(200, "processes=4", kind=kind)
                running.init.work_until("all processes", lambda: len(running.init.connections) == 4 and running.init.capacity == 10)
                running.init.work_until("all jobs", lambda: running.init.is_idle)
                self.assertEqual((running.end(), running.errors()), (0, ""))
                self.assertEqual(len(running.init.acked), 200)

    def test_a_process_that_dies_is_replaced_and_there_is_never_more_than_one_too_many(self) -> None:
        running = self.start(400, "processes=3", body="time.sleep(0.005)")
        init = running.init
        for killed in range(3):
            init.work_until("capacity", lambda: init.capacity == 10)
            victim = init.connections[killed % 3].pid
            os.kill(victim, signal.SIGKILL)
            init.work_until("its end", lambda: all(c.pid != victim for c in init.connections))
        init.work_until("all jobs", lambda: init.is_idle and len(init.acked) == 400)
        init.work_until("capacity again", lambda: init.capacity == 10)
        self.assertLessEqual(init.most_processes, 4)
        self.assertEqual(running.end(), 0)
        self.assertIn("killed by signal 9", running.errors())

    def test_with_one_job_a_process_none_is_lost_and_none_done_twice(self) -> None:
        running = self.start(1500, "processes=2, max_jobs=1")
        init = running.init
        init.work_until("all jobs", lambda: init.is_idle and len(init.acked) == 1500)
        init.work_until("replacements", lambda: len(init.pids) >= 5)
        self.assertEqual((set(init.acked.values()), init.lost), ({1}, []))
        # ojs-init fetches nothing for a second after a job that was given back.
        self.assertEqual(init.given_back, [])
        self.assertLessEqual(init.most_processes, 3)
        self.assertEqual(running.end(), 0)

    def test_with_one_job_a_process_no_job_is_given_back_however_late_ojs_init_reads(self) -> None:
        for kind in ("Worker", "AsyncWorker"):
            with self.subTest(kind):
                running = self.start(600, "processes=3, max_jobs=1", kind=kind, body="time.sleep(0.001); return os.getpid()")
                init = running.init
                init.read_pause = 0.003
                init.work_until("all jobs", lambda: init.is_idle and len(init.acked) == 600)
                init.work_until("replacements", lambda: len(init.pids) >= 6)
                self.assertEqual((set(init.acked.values()), init.lost, init.given_back), ({1}, [], []))
                self.assertEqual(running.end(), 0)

    def test_a_process_that_is_old_enough_is_replaced_and_capacity_stays(self) -> None:
        running = self.start(0, "processes=2, max_age=0.3")
        init = running.init
        init.work_until("all processes", lambda: init.capacity == 10)
        least = [10]

        def has_turned_over() -> bool:
            least.append(init.capacity)
            return len(init.pids) >= 5

        init.work_until("replacements", has_turned_over)
        self.assertGreaterEqual(min(least), 5)
        self.assertEqual(running.end(), 0)

    def test_a_limit_of_memory_below_what_a_fresh_process_has_is_one_warning(self) -> None:
        running = self.start(100, "processes=2, max_memory=1000")
        init = running.init
        init.work_until("all jobs", lambda: init.is_idle and len(init.acked) == 100)
        deadline = time.monotonic() + 2.5
        init.work_until("some looks at the memory", lambda: time.monotonic() > deadline)
        self.assertEqual(len(init.pids), 2)
        self.assertEqual(running.end(), 0)
        self.assertEqual(running.errors().count("max_memory is 1000"), 1)

    def test_the_worst_status_of_the_stop_counts(self) -> None:
        running = self.start(1, "processes=2", body="job.progress(0); time.sleep(600)")
        init = running.init
        init.work_until("the job", lambda: bool(init.begun))
        running.process.send_signal(signal.SIGTERM)
        init.work_until("the end", lambda: running.process.poll() is not None)
        self.assertEqual(resolved(running.process.returncode), 143)

    def test_the_end_of_ojs_init_ends_all_of_them(self) -> None:
        running = self.start(0, "processes=2")
        running.init.work_until("all processes", lambda: running.init.capacity == 10)
        running.init.close()
        # The others are told by SIGTERM; one that has just begun does not know yet what to do with it.
        self.assertIn(running.process.wait(PATIENCE), (1, 143))

    def test_a_connection_that_is_closed_ends_its_own_process_alone(self) -> None:
        running = self.start(1, "processes=2", body="job.progress(0); sys.stdin.read()")
        init = running.init
        init.work_until("all processes and the job", lambda: init.capacity == 10 and bool(init.begun))
        idle = next(connection for connection in init.connections if not connection.held)
        idle.sock.shutdown(socket.SHUT_RDWR)
        init.work_until("another one", lambda: len(init.pids) == 3 and init.capacity == 10)
        self.assertEqual([len(connection.held) for connection in init.connections], [1, 0])
        running.go_on()
        init.work_until("the job's end", lambda: init.is_idle)
        self.assertEqual((dict(init.acked), init.lost), ({"j0": 1}, []))
        self.assertEqual(running.end(), 0)

    def test_a_thread_that_a_handler_gave_up_does_not_keep_its_process(self) -> None:
        body = "import asyncio; await asyncio.wait({asyncio.ensure_future(asyncio.to_thread(time.sleep, 600))}, timeout=0.01)"
        running = self.start(40, "processes=2, max_jobs=1", body=body, kind="AsyncWorker")
        init = running.init
        init.work_until("all jobs", lambda: init.is_idle and len(init.acked) == 40)
        first = list(init.pids[:2])
        init.work_until("the end of the first ones", lambda: not set(first) & set(children_of(running.process.pid)))
        self.assertEqual((running.end(), init.lost), (0, []))

    def test_stop_in_a_handler_ends_its_own_process_alone(self) -> None:
        running = self.start(1, "processes=2", body="worker.stop()")
        init = running.init
        init.work_until("another one", lambda: len(init.pids) == 3 and init.capacity == 10)
        self.assertEqual(running.end(), 0)

    def test_options_that_make_no_sense_are_refused(self) -> None:
        worker = Worker()
        for options in ({"processes": 0}, {"processes": True}, {"max_jobs": 5}, {"processes": 2, "max_age": -1}):
            with self.assertRaises(ValueError):
                worker.run(**options)


if __name__ == "__main__":
    unittest.main()
