"""The beginning and the end of a worker's process. The shared sessions show the usual ends."""

import os
import signal
import subprocess
import sys
import time
import unittest
from typing import Any

from .fake import CLIENT, Connection, SocketTest, job, wait_until

QUICK = """
worker = Worker(2)
@worker.job("t")
def t(job): return job.args
"""
BUSY = """
worker = Worker(2, handle_signals="ignores" not in sys.argv)
@worker.job("t")
def t(job: Job, what: str):
    job.progress(0.0)
    if what == "hangs":
        threading.Event().wait()
    job.cancelled.wait(0.5)
    return what
worker.run()
print("returned", file=sys.stderr)
"""


class Ends(SocketTest):
    def begin(self, source: str, *args: Any) -> Any:
        process = self.start(source)
        connection = self.accept()
        if args:
            connection.send(job("j1", "t", *args))
            connection.expect("progress", "j1")
        return process, connection

    def test_who_works_is_checked_on_only_if_the_program_asks_for_it(self) -> None:
        for options, asks in (("2", False), ("2, ping=True", True)):
            process, connection = self.begin(QUICK.replace("Worker(2)", f"Worker({options})") + "worker.run()")
            self.assertIs(connection.ready["ping"], asks)
            connection.terminate()
            self.ends(process, 0)

    def test_sigterm_finishes_what_is_held(self) -> None:
        process, connection = self.begin(BUSY, "x")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(connection.expect("ready"), {**connection.ready, "concurrency": 0})
        connection.send(job("j2", "t", "on its way"))
        connection.expect("progress", "j2")
        self.assertEqual(sorted(frame["result"] for frame in connection.rest()), ["on its way", "x"])
        self.assertIn("returned", self.ends(process, 0))

    def test_a_late_sigterm_changes_nothing(self) -> None:
        process, connection = self.begin(QUICK + "worker.run()\nprint('over', file=sys.stderr, flush=True)\ntime.sleep(0.2)")
        connection.terminate()
        assert process.stderr is not None
        self.assertEqual(process.stderr.readline(), "over\n")
        process.send_signal(signal.SIGTERM)
        self.ends(process, 0)

    def test_a_closed_connection_ends_handlers_and_the_process(self) -> None:
        for what, words in (("x", "1 jobs are abandoned"), ("hangs", "1 jobs are abandoned")):
            process, connection = self.begin(BUSY, what)
            connection.close()
            text = self.ends(process, 1)
            self.assertIn(words, text)
            self.assertNotIn("returned", text)
        process, connection = self.begin(BUSY)
        connection.close()
        self.assertIn("returned", self.ends(process, 0))

    def test_asyncio_handlers_are_cancelled_when_the_connection_closes(self) -> None:
        source = """
from ojs_worker import _session
_session.LOST_GRACE = 2.0  # For busy machines.
worker = AsyncWorker()
@worker.job("t")
async def t(job: AsyncJob, what: str):
    try:
        # Within the try: the connection closes as soon as the test has read this.
        await job.progress(0.0)
        await asyncio.sleep(30)
    finally:
        print("cleaned up", job.cancel_reason, file=sys.stderr)
        if what == "hangs":
            time.sleep(30)
worker.run()
"""
        for what in ("x", "hangs"):
            process, connection = self.begin(source, what)
            connection.close()
            self.assertIn("cleaned up lost", self.ends(process, 1))

    def test_a_blocked_loop_keeps_neither_ping_nor_sigterm_waiting(self) -> None:
        process, connection = self.begin("""
worker = AsyncWorker()
@worker.job("t")
async def t(job: AsyncJob):
    await job.progress(0.0)
    time.sleep(1)
    return "done"
worker.run()
""")
        connection.send(job("j1"))
        connection.expect("progress", "j1")
        connection.send({"type": "ping", "id": 1})
        connection.expect("pong")
        process.send_signal(signal.SIGTERM)
        frames = {frame["type"]: frame for frame in connection.rest()}
        self.assertEqual(frames["ack"]["result"], "done")
        self.ends(process, 0)

    def test_stop_from_a_handler(self) -> None:
        source = QUICK + "@worker.job('stop')\ndef stop(job): worker.stop()\nworker.run()\nprint('over', file=sys.stderr)"
        process, connection = self.begin(source)
        connection.send(job("j1", "stop"))
        # The answer comes before or behind `ready`, by the thread that is faster.
        self.assertIn(("ack", "j1"), [(frame["type"], frame.get("job_id")) for frame in connection.rest()])
        self.assertIn("over", self.ends(process, 0))

    def test_serve_in_a_loop_that_is_there_and_its_cancel(self) -> None:
        process, connection = self.begin("""
worker = AsyncWorker()
@worker.job("t")
async def t(job: AsyncJob):
    await job.progress(0.0)
    await asyncio.sleep(30)
async def main():
    serving = asyncio.create_task(worker.serve())
    while worker._session is None or not worker._session._unanswered:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    serving.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        print("cancelled", file=sys.stderr)
asyncio.run(main())
""")
        connection.send(job("j1"))
        connection.expect("progress", "j1")
        frames = {frame["type"]: frame for frame in connection.rest()}
        self.assertEqual((frames.get("fail"), frames["release"]["reason"]), (None, "shutdown"))
        self.assertIn("cancelled", self.ends(process, 0))

    def test_the_end_of_the_loop_gives_jobs_back_and_fails_only_what_the_handler_cancelled_itself(self) -> None:
        process, connection = self.begin("""
worker, begun = AsyncWorker(), []
@worker.job("own")
async def own(job):
    task = asyncio.ensure_future(asyncio.sleep(30))
    task.cancel()
    await task
@worker.job("long")
async def long(job):
    begun.append(job)
    await asyncio.sleep(30)
async def main():
    serving = asyncio.create_task(worker.serve())
    while len(begun) < 4:
        await asyncio.sleep(0.01)
asyncio.run(main())
""")
        connection.send(job("j0", "own"))
        self.assertEqual(connection.expect("fail", "j0")["error"]["type"], "CancelledError")
        # The loop cancels its tasks in no certain order.
        connection.send(*(job(f"j{number}", "long") for number in range(1, 5)))
        answers = [(frame["type"], frame.get("reason")) for frame in connection.rest()]
        self.assertEqual([answer for answer in answers if answer[0] != "ready"], [("release", "shutdown")] * 4)
        self.ends(process, 0)

    def test_a_log_that_nobody_reads(self) -> None:
        process = self.start(QUICK + "install_logging()\n@worker.job('x')\ndef x(job): 1 / 0\nworker.run()")
        assert process.stderr is not None
        process.stderr.close()
        connection = self.accept()
        for id in ("j1", "j2"):
            connection.send(job(id, "x"))
            connection.expect("fail", id)
        connection.terminate()
        self.assertEqual(process.wait(20), 0)

    def test_frames_that_cannot_be_read_are_no_end(self) -> None:
        process, connection = self.begin(QUICK + "worker.run()")
        digits = b'{"type":"job","job_id":"j1","job":{"id":"j1","type":"t","args":[' + b"9" * 5000 + b"]}}\n"
        connection.sock.sendall(b'nonsense\n[]\n{"type":"job"}\n{"type":"new"}\n')
        connection.sock.sendall(digits if sys.version_info > (3, 11) else b"")
        if sys.version_info > (3, 11):
            self.assertEqual(connection.expect("fail", "j1")["error"]["code"], "invalid_job")
        connection.send(job("j2", "t", 1))
        self.assertEqual(connection.expect("ack", "j2")["result"], [1])
        connection.terminate()
        self.ends(process, 0)

    def test_a_log_that_is_full_stops_no_pong_and_no_cancel(self) -> None:
        process, connection = self.begin("""
worker = Worker(2)
@worker.job("t")
def t(job):
    job.progress(0.0)
    job.cancelled.wait()
install_logging()
worker.run()
""")
        connection.send(job("j1"))
        connection.expect("progress", "j1")
        states = ({"type": "lifecycle", "state": state, "reason": "server"} for state in ("quiet", "running") * 1000)
        connection.send(*states, {"type": "ping", "id": 1})
        connection.expect("pong")
        connection.send({"type": "cancel", "job_id": "j1", "reason": "cancelled"})
        connection.expect("ack", "j1")
        process.kill()

    def test_a_socket_that_is_full_stops_no_pong(self) -> None:
        process, connection = self.begin("""
worker = Worker(2)
@worker.job("t")
def t(job): return "x" * 3_000_000
worker.run()
""")
        connection.send(job("j1"), job("j2"))
        wait_until(lambda: b"x" in connection.lines.peek(1000), "an answer has begun")
        connection.send(*({"type": "ping", "id": n} for n in range(2000)))
        found = [connection.lines.readline()[:30] for _ in range(2002)]
        self.assertEqual(sum(b"pong" in line for line in found), 2000)
        connection.terminate()
        self.ends(process, 0)


class Forks(SocketTest):
    def test_a_child_of_a_handler_leaves_the_connection_alone(self) -> None:
        process = self.start("""
worker = Worker(2)
@worker.job("t")
def t(job):
    pid = os.fork()
    if pid == 0:
        try:
            job.progress(0.5)
        except ForkedProcess:
            return "the child's"  # must not be an answer
        os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
@worker.job("killed")
def killed(job):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, b"lives")
        time.sleep(30)
    os.read(read, 5)
    os.kill(pid, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
worker.run()
""")
        connection = self.accept()
        connection.send(job("j1", "t"))
        self.assertEqual(connection.expect("ack", "j1")["result"], 0)
        connection.send(job("j2", "killed"))
        self.assertEqual(connection.expect("ack", "j2")["result"], -signal.SIGTERM)
        connection.terminate()
        self.ends(process, 0)


class Beginnings(SocketTest):
    def test_without_ojs_init_one_sentence_says_what_to_do(self) -> None:
        for code, env, words in (
            ("", {"OJS_SOCKET": ""}, "Run it as: ojs-init -- python3 -c"),
            ("", {"OJS_SOCKET": "", "OJS_MODE": "gateway"}, "ojs-init runs in mode gateway: leave OJS_MODE out"),
            ("", {"OJS_SOCKET": "/nowhere"}, "cannot connect to ojs-init at /nowhere"),
            ("worker = Worker()", {}, "no handler: decorate one"),
        ):
            source = f"{QUICK}\n{code}\ntry: worker.run()\nexcept OjsError as error: sys.exit(error)"
            self.assertIn(words, self.ends(self.start(source, **env), 1))

    def test_the_import_is_quick_and_brings_no_http(self) -> None:
        code = "import sys, ojs_worker; print([m for m in ('http.client', 'urllib.request', 'email') if m in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], cwd=CLIENT, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "[]")


class Processes(SocketTest):
    SOURCE = QUICK.replace("Worker(2)", "Worker()") + """
@worker.job("die")
def die(job): os._exit(7)
@worker.job("slow")
def slow(job): job.progress(0.0); time.sleep(0.4); return os.getpid()
print("imported", file=sys.stderr)
worker.run(processes=2)
print("parent returns", file=sys.stderr)
"""

    def begin(self) -> Any:
        process = self.start(self.SOURCE)
        self.parent = self.accept(3, is_parents=True)
        return process, [self.accept(3), self.accept(3)]

    def test_they_share_the_concurrency_and_end_when_told(self) -> None:
        process, connections = self.begin()
        self.assertEqual(sorted(each.ready["concurrency"] for each in connections), [1, 2])
        self.assertEqual(self.parent.pid, process.pid)
        self.assertEqual(len({process.pid, *(each.pid for each in connections)}), 3)
        self.parent.send({"type": "ping", "id": 7})
        self.parent.expect("pong")
        for connection in connections:
            connection.send(job("j", "t", 1))
            connection.expect("ack", "j")
        for connection in (self.parent, *connections):
            connection.terminate()
        text = self.ends(process, 0)
        self.assertEqual((text.count("imported"), text.count("parent returns")), (1, 1))

    def test_one_that_dies_is_replaced(self) -> None:
        process, (first, second) = self.begin()
        first.send(job("j", "die"))
        third = self.accept()
        self.assertEqual(third.ready["concurrency"], first.ready["concurrency"])
        for connection in (self.parent, second, third):
            connection.terminate()
        self.assertIn(f"process {first.pid} ended with status 7: another one takes its place in 0.2 s", self.ends(process, 0))

    def test_sigterm_is_passed_on_and_the_parent_ends_last(self) -> None:
        process, connections = self.begin()
        for connection in connections:
            connection.send(job("j", "slow"))
            connection.expect("progress", "j")
        process.send_signal(signal.SIGTERM)
        for connection in connections:
            self.assertEqual(connection.expect("ready")["concurrency"], 0)
            self.assertEqual(connection.expect("ack", "j")["result"], connection.pid)
            self.assertEqual(connection.rest(), [])
        self.assertIn("parent returns", self.ends(process, 0))

    def test_without_ojs_init_nothing_is_tried_again(self) -> None:
        began = time.monotonic()
        self.assertIn("cannot connect", self.ends(self.start(self.SOURCE, OJS_SOCKET="/nowhere"), 1))
        self.assertLess(time.monotonic() - began, 10)
        self.assertFalse(self.has_connection())

    def test_the_end_of_ojs_init_ends_all_and_starts_no_other(self) -> None:
        process, connections = self.begin()
        connections[0].send(job("j", "slow"))
        connections[0].expect("progress", "j")
        for connection in (self.parent, *connections):
            connection.close()
        self.assertNotIn("another one", self.ends(process, 1))
        self.assertFalse(self.has_connection())

    def test_options(self) -> None:
        for code, words in (
            ("worker.run(processes=0)", "processes is a whole number from 1"),
            ("worker.run(max_jobs=1)", "worker.run: unknown option max_jobs; there are processes"),
            ("threading.Thread(target=worker.run, args=(2,)).start()", "belongs into the main thread"),
        ):
            process = self.start(QUICK + code)
            self.assertIn(words, process.communicate(timeout=20)[1])


if __name__ == "__main__":
    unittest.main()
    assert Connection and os
