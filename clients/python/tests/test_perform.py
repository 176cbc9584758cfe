"""Middleware, context variables, and tests of handlers."""

import contextlib
import contextvars
import logging
import sys
import time
import unittest
from typing import Any, Callable, List

from .fake_init import ClientTest, job as job_frame
from .test_resume import worker_of

from ojs_worker import Discard, Job, OjsError, Release, Retry, Worker


class Middleware(unittest.TestCase):
    def test_the_first_one_is_the_outermost_and_what_it_raises_counts(self) -> None:
        told: List[str] = []
        worker = worker_of(lambda job: told.append("handler"))

        @worker.middleware
        def outer(job: Job, call_next: Callable[[], Any]) -> Any:
            told.append("outer")
            call_next()
            raise Discard("not today")

        @worker.middleware
        def inner(job: Job, call_next: Callable[[], Any]) -> Any:
            told.append("inner")
            return call_next()

        outcome = worker.perform("t")
        self.assertEqual(told, ["outer", "inner", "handler"])
        assert outcome.error is not None
        self.assertEqual((outcome.error["message"], outcome.error["retryable"]), ("not today", False))

    def test_one_that_calls_the_handler_again_repeats_neither_finished_steps_nor_rows(self) -> None:
        ran: List[Any] = []

        def run(name: str) -> str:
            ran.append(name)
            return name.upper()

        def handler(job: Job) -> Any:
            results = [job.step("pack", run, "pack")]
            for row in job.iterate(range(3)):
                if row == 1 and row not in ran:
                    ran.append(row)
                    raise RuntimeError("not yet")
                ran.append(row)
            if "send" not in ran:
                job.step("send", lambda: ran.append("send") or 1 / 0)
            return [*results, job.step("send", run, "send")]

        worker = worker_of(handler)

        @worker.middleware
        def again(job: Job, call_next: Callable[[], Any]) -> Any:
            for _ in range(2):
                try:
                    return call_next()
                except Exception:
                    pass
            return call_next()

        @worker.middleware
        def with_a_step(job: Job, call_next: Callable[[], Any]) -> Any:
            job.step("first", run, "first")
            return call_next()

        self.assertEqual(worker.perform("t").result, ["PACK", "SEND"])
        self.assertEqual(ran, ["first", "pack", 0, 1, 1, 2, "send", "send"])

    def test_nothing_of_one_job_is_seen_by_the_next(self) -> None:
        worker = worker_of(lambda job: dict(job.context))

        @worker.middleware
        def note(job: Job, call_next: Callable[[], Any]) -> Any:
            self.assertEqual(job.context, {})
            job.context[job.id] = 1
            return call_next()

        self.assertEqual(worker.perform("t", id="a").result, {"a": 1})
        self.assertEqual(worker.perform("t", id="b").result, {"b": 1})

    def test_an_async_function_is_refused_by_the_threaded_worker(self) -> None:
        async def middleware(job: Job, call_next: Callable[[], Any]) -> Any:
            return call_next()

        with self.assertRaisesRegex(TypeError, "AsyncWorker"):
            Worker().middleware(middleware)


class ContextVariables(ClientTest):
    def test_what_one_job_sets_is_not_seen_by_the_next_one_on_the_same_thread(self) -> None:
        tenant: "contextvars.ContextVar[str]" = contextvars.ContextVar("tenant", default="nobody")
        worker = self.worker(1)

        @worker.middleware
        def of_tenant(job: Job, call_next: Callable[[], Any]) -> Any:
            if "tenant" in job.meta:
                tenant.set(job.meta["tenant"])
            return call_next()

        worker.job("t")(lambda job: tenant.get())
        running = self.start(worker)
        self.init.send(job_frame("1", meta={"tenant": "acme"}))
        self.init.expect("ack", "1", result="acme")
        self.init.send(job_frame("2"))
        self.init.expect("ack", "2", result="nobody")
        self.end(running)


class Perform(unittest.TestCase):
    def test_it_is_quiet_where_nothing_is_wrong(self) -> None:
        worker = worker_of(lambda job: job.cancelled.wait(0.01))
        with self.assertNoLogs("ojs_worker", logging.INFO) if sys.version_info >= (3, 10) else contextlib.nullcontext():
            worker.perform("t")
            worker.perform("t", stopping=5, cancel="cancelled")

    def test_arguments_and_result_go_through_json(self) -> None:
        outcome = worker_of(lambda job: (job.args, {1: "one"})).perform("t", [("a", 1)])
        self.assertEqual((outcome.outcome, outcome.result), ("ack", [[["a", 1]], {"1": "one"}]))
        with self.assertRaises(TypeError):
            worker_of(lambda job: None).perform("t", [object()])

    def test_what_a_handler_raises_is_what_the_backend_would_be_told(self) -> None:
        def handler(job: Job) -> Any:
            raise {"retry": Retry("busy", after=1.5), "release": Release("not mine")}[job.args[0]]

        worker = worker_of(handler)
        failed = worker.perform("t", ["retry"])
        assert failed.error is not None
        self.assertEqual((failed.outcome, failed.error["details"]), ("fail", {"retry_after_ms": 1500}))
        self.assertEqual(worker.perform("t", ["release"]).reason, "not mine")

    def test_a_type_without_a_handler_fails(self) -> None:
        outcome = worker_of(lambda job: None).perform("u")
        assert outcome.error is not None
        self.assertEqual(outcome.error["code"], "handler_not_found")

    def test_a_timeout_a_cancel_and_a_shutdown_reach_the_handler(self) -> None:
        def handler(job: Job) -> Any:
            job.progress(0.5, "half")
            if job.stopping.wait(0):
                return ["stopping", job.remaining() is not None]
            job.cancelled.wait()
            job.raise_if_cancelled()

        worker = worker_of(handler)
        # Long enough for the handler to have begun by then.
        late = worker.perform("t", timeout=0.5)
        assert late.error is not None
        self.assertEqual((late.error["code"], late.progress), ("timeout", [{"progress": 0.5, "message": "half"}]))
        self.assertEqual(worker.perform("t", cancel="cancelled", cancel_after=0.05).reason, "cancelled")
        self.assertEqual(worker.perform("t", cancel="shutdown").reason, "shutdown")
        self.assertEqual(worker.perform("t", stopping=5).result, ["stopping", True])

    def test_a_handler_that_does_not_end_is_given_up(self) -> None:
        with self.assertRaisesRegex(OjsError, "has not ended within 0.1 s"):
            worker_of(lambda job: time.sleep(1)).perform("t", patience=0.1)

    def test_the_deadline_is_the_timeout_of_the_job(self) -> None:
        worker = worker_of(lambda job: None if job.deadline is None else job.deadline.isoformat())
        self.assertIsNone(worker.perform("t").result)
        self.assertTrue(worker.perform("t", timeout=30).result.endswith("+00:00"))


if __name__ == "__main__":
    unittest.main()
