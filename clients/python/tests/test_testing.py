"""The development server for tests, and the names of the SDK."""

import asyncio
import logging
import os
import sys
import unittest
from typing import Any, List
from unittest import mock

from .fake_init import ClientTest

import ojs_worker.compat as ojs
from ojs_worker.testing import NoDevserver, devserver


class WithTheDevelopmentServer(unittest.TestCase):
    def test_it_has_the_jobs_that_are_enqueued(self) -> None:
        try:
            server = devserver()
        except NoDevserver as error:
            self.skipTest(str(error))
        with server:
            id = server.enqueue("email.send", ["a@b.c"], queue="mail")
            job = server.job(id)
            self.assertEqual((job["state"], job["queue"], job["args"]), ("available", "mail", ["a@b.c"]))

    def test_it_says_clearly_that_it_is_not_there(self) -> None:
        before = dict(os.environ)
        self.addCleanup(os.environ.update, before)
        os.environ.pop("OJS_DEVSERVER", None)
        os.environ["PATH"] = "/nowhere"
        with self.assertRaisesRegex(NoDevserver, "put it on PATH, or name it in OJS_DEVSERVER"):
            devserver()


class HandlersThatHang(ClientTest):
    def test_the_tests_go_on_after_one(self) -> None:
        for kind, async_ in (("Worker", ""), ("AsyncWorker", "async ")):
            with self.subTest(kind):
                process = self.script(
                    f"""
                    import ojs_worker
                    ojs_worker._limits.EOF_GRACE = 0.05
                    worker = {kind}()

                    @worker.job("t")
                    {async_}def handler(job):
                        time.sleep(600)

                    try:
                        worker.perform("t", patience=0.1)
                    except OjsError as error:
                        print(error, flush=True)
                    def at_work():
                        return [thread for thread in threading.enumerate() if thread.name in ("ojs-perform", "ojs-socket")]
                    while len(at_work()) > (1 if worker.__class__ is AsyncWorker else 0):  # its loop hangs with it
                        time.sleep(0.01)
                    print("the next test", flush=True)
                    """.replace("\n" + " " * 20, "\n")
                )
                self.assertEqual(self.exit_status(process), 0)
                assert process.stdout is not None
                self.assertRegex(process.stdout.read(), "(?s)has not ended within 0.1 s.*the next test")


class NamesOfTheSdk(unittest.TestCase):
    def test_a_worker_of_the_sdk_runs(self) -> None:
        worker = ojs.Worker(concurrency=2)
        told: List[str] = []

        @worker.middleware
        async def log_it(ctx: ojs.JobContext, next: Any) -> Any:
            told.append(ctx.job_type)
            return await next()

        @worker.register("email.send")
        async def send(ctx: ojs.JobContext) -> Any:
            return [ctx.job_id, ctx.args, ctx.meta, ctx.attempt, ctx.is_cancelled, ctx.job.queue, ctx.parent_results]

        worker.handler("plain", lambda ctx: "plain")
        outcome = worker.perform("email.send", ["a"], id="j1", meta={"m": 1}, attempt=2)
        self.assertEqual(outcome.result, ["j1", ["a"], {"m": 1}, 2, False, "default", []])
        self.assertEqual(worker.perform("plain").result, "plain")
        self.assertEqual(told, ["email.send", "plain"])

    def test_the_job_of_the_context_is_as_the_sdk_has_it(self) -> None:
        worker = ojs.Worker()

        @worker.register("t")
        async def look(ctx: ojs.JobContext) -> Any:
            job = ctx.job
            assert job.state is ojs.JobState.ACTIVE and job.created_at is not None
            ctx.cancel()
            return [job.id, job.type, job.args, job.meta, job.attempt, ctx.attempt, job.max_attempts, job.timeout_ms, job.tags,
                    job.retry, job.created_at.isoformat(), job.started_at, ctx.is_cancelled]  # fmt: skip

        envelope = {"state": "active", "attempt": 0, "tags": ["x"], "retry": {"max_attempts": 5}, "created_at": "2026-01-02T03:04:05Z"}
        outcome = worker.perform("t", [1], id="j", meta={"m": 1}, envelope={**envelope, "max_attempts": 5, "started_at": "soon"})
        expected = ["j", "t", [1], {"m": 1}, 0, 1, 5, None, ["x"], {"max_attempts": 5}, "2026-01-02T03:04:05+00:00", None, True]
        self.assertEqual(outcome.result, expected)

    def test_the_last_handler_of_a_type_counts(self) -> None:
        worker = ojs.Worker()
        worker.handler("t", lambda ctx: "first")
        worker.handler("t", lambda ctx: "second")
        self.assertEqual(worker.perform("t").result, "second")

    def test_stop_can_be_awaited_and_need_not_be(self) -> None:
        async def stop(worker: ojs.Worker) -> Any:
            return await worker.stop()

        for awaited in (True, False):
            worker = ojs.Worker()
            self.assertIsNone(asyncio.run(stop(worker)) if awaited else worker.stop() and None)
            self.assertTrue(worker._stop_asked)

    def test_the_other_side_of_the_sdk_is_the_sdk_itself_or_an_error_that_says_so(self) -> None:
        with mock.patch.dict(sys.modules, {"ojs": None}):
            with self.assertRaisesRegex(ImportError, "Client is of the SDK's other side: install the Open Job Spec's SDK"):
                from ojs_worker.compat import Client  # noqa: F401
            with self.assertRaisesRegex(ImportError, "goes on working beside"):
                ojs.RetryPolicy
        with mock.patch.dict(sys.modules, {"ojs": mock.Mock(Client="the client")}):
            self.assertEqual(ojs.Client, "the client")
        self.assertFalse(hasattr(ojs, "Nonsense"))

    def test_what_ojs_init_decides_is_told(self) -> None:
        with self.assertLogs("ojs_worker", logging.WARNING) as logs:
            ojs.Worker("http://elsewhere:1", queues=["a", "b"], poll_interval=1)
        self.assertEqual(len(logs.output), 3, logs.output)
        self.assertIn("OJS_URL", logs.output[0])


if __name__ == "__main__":
    unittest.main()
