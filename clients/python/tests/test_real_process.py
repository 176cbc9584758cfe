"""Worker: a program of its own, with real signals, forks and exit statuses."""

from __future__ import annotations

import os
import signal
import unittest
from typing import Any

from .fake_init import PATIENCE, ClientTest, job


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
