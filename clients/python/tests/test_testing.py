"""The development server for tests, and the names of the SDK."""

import logging
import os
import unittest
from typing import Any, List

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
