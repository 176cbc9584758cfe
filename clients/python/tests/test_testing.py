"""The development server for tests, and the names of the SDK."""

import logging
import os
import unittest
from typing import Any, List

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
            return [ctx.job_id, ctx.args, ctx.meta, ctx.attempt, ctx.is_cancelled, ctx.job["queue"], ctx.parent_results]

        worker.handler("plain", lambda ctx: "plain")
        outcome = worker.perform("email.send", ["a"], id="j1", meta={"m": 1}, attempt=2)
        self.assertEqual(outcome.result, ["j1", ["a"], {"m": 1}, 2, False, "default", {}])
        self.assertEqual(worker.perform("plain").result, "plain")
        self.assertEqual(told, ["email.send", "plain"])

    def test_what_ojs_init_decides_is_told(self) -> None:
        with self.assertLogs("ojs_worker", logging.WARNING) as logs:
            ojs.Worker("http://elsewhere:1", queues=["a", "b"], poll_interval=1)
        self.assertEqual(len(logs.output), 3, logs.output)
        self.assertIn("OJS_URL", logs.output[0])


if __name__ == "__main__":
    unittest.main()
