"""What becomes of a job, and who is told."""

import asyncio
import dataclasses
import datetime
import json
import logging
import unittest
import uuid
from typing import Any, List, Tuple

from .fake import CLIENT, PATIENCE  # noqa: F401
from ojs_worker import AsyncJob, AsyncWorker, Discard, Job, Outcome, Release, Retry, Worker, current_job, install_logging


def perform(function: Any, *args: Any, **options: Any) -> Outcome:
    worker = AsyncWorker() if asyncio.iscoroutinefunction(function) else Worker()
    worker.job("t")(function)
    return worker.perform("t", args, **{"patience": PATIENCE, **options})


class Results(unittest.TestCase):
    def test_a_dataclass_is_an_object(self) -> None:
        @dataclasses.dataclass
        class Sent:
            id: int

        self.assertEqual(perform(lambda: [Sent(1)]).result, [{"id": 1}])

    def test_what_is_no_json_is_left_out_and_logged_without_the_value(self) -> None:
        cycle: List[Any] = []
        cycle.append(cycle)
        for value in (float("nan"), {"secret"}, cycle, "\ud800", {uuid.UUID(int=0): 1}):
            with self.assertLogs("ojs_worker", "ERROR") as logs:
                outcome = perform(lambda value=value: value)
            self.assertEqual((outcome.outcome, outcome.result), ("ack", None))
            self.assertIn(f"job perform-1 is done without its result: a {type(value).__name__}", logs.output[0])
            self.assertNotIn("secret", logs.output[0])

    def test_json_default_is_for_results_and_checkpoints(self) -> None:
        worker = Worker(json_default=str)

        @worker.job("t")
        def t(job: Job) -> Any:
            job.checkpoint({"day": datetime.date(2026, 1, 2)})
            return job.step("one", lambda: uuid.UUID(int=1))

        outcome = worker.perform("t")
        self.assertEqual(outcome.result, str(uuid.UUID(int=1)))
        self.assertEqual(outcome.checkpoints[0], {"day": "2026-01-02"})

    def test_perform_takes_a_long_answer_of_an_async_handler(self) -> None:
        async def t() -> str:
            return "x" * 30_000

        self.assertEqual(len(perform(t, patience=5).result), 30_000)


class Failures(unittest.TestCase):
    def setUp(self) -> None:
        logging.getLogger("ojs_worker").addFilter(self.note)
        self.addCleanup(logging.getLogger("ojs_worker").removeFilter, self.note)
        self.records: List[logging.LogRecord] = []

    def note(self, record: logging.LogRecord) -> bool:
        self.records.append(record)
        return False

    def test_an_error_has_its_class_message_and_backtrace(self) -> None:
        def crash() -> None:
            json.loads("{")

        error = perform(crash).error or {}
        self.assertEqual((error["type"], error["code"], error["retryable"]), ("JSONDecodeError", "handler_error", True))
        self.assertRegex(error["backtrace"][-1], r"test_outcomes.py:\d+ in crash$")
        self.assertIs(self.records[0].levelno, logging.ERROR)

    def test_the_log_warns_while_attempts_are_left(self) -> None:
        def crash() -> None:
            raise ValueError("x")

        perform(crash, attempt=1, envelope={"max_attempts": 2})
        perform(crash, attempt=2, envelope={"max_attempts": 2})
        self.assertEqual([record.levelno for record in self.records], [logging.WARNING, logging.ERROR])

    def test_own_words(self) -> None:
        def retry() -> None:
            raise Retry("busy", after=1.5, code="x_busy", details={"n": 1})

        def discard() -> None:
            try:
                raise KeyError("k")
            except KeyError as error:
                raise Discard(details={"bad": object()}) from error

        details = {"n": 1, "retry_after_ms": 1500}
        fields = {"code": "x_busy", "retryable": True, "details": details, "type": "Retry", "message": "busy"}
        self.assertEqual(perform(retry).error, fields)
        self.assertEqual(self.records, [])
        error = perform(discard).error or {}
        self.assertEqual((error["type"], error["message"], error["retryable"]), ("KeyError", "'k'", False))
        self.assertNotIn("details", error)
        with self.assertRaisesRegex(TypeError, "Retry: unknown option afer; there are message, after"):
            Retry("x", afer=1)  # type: ignore[call-arg]

    def test_everything_that_can_be_raised_is_one_answer(self) -> None:
        class Silent(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        def deep() -> None:
            deep()

        def raises(error: BaseException) -> Any:
            def handler() -> None:
                raise error

            return handler

        errors = (SystemExit(3), KeyboardInterrupt(), Silent(), Exception("\ud800"), asyncio.CancelledError(), GeneratorExit())
        for handler in (deep, *map(raises, errors)):
            outcome = perform(handler)
            self.assertEqual((outcome.outcome, (outcome.error or {})["retryable"]), ("fail", True))
            self.assertTrue((outcome.error or {})["message"])

    def test_hooks_see_every_end_once(self) -> None:
        seen: List[Tuple[str, str, bool]] = []
        worker = Worker()

        @worker.job("t")
        def t(job: Job, n: int) -> int:
            if n == 0:
                raise Release("later")
            if n == 1:
                raise Retry("busy")
            if n == 2:
                job.sleep(20)
            return 100 // (n - 3)

        @worker.on_failed
        def failed(job: Job, error: Exception) -> None:
            seen.append((type(error).__name__, str(error), job.is_last_attempt))
            raise RuntimeError("a hook's own mistake")

        @worker.on_completed
        def completed(job: Job, result: Any) -> None:
            seen.append(("completed", result, job.is_last_attempt))

        for n in (0, 1, 3, "x", 4):
            worker.perform("t", [n], envelope={"max_attempts": 1})
        worker.perform("t", [2], timeout=0.01)
        worker.perform("other")
        kinds = [kind for kind, *_ in seen]
        self.assertEqual(kinds, ["Retry", "ZeroDivisionError", "InvalidArgs", "completed", "Retry", "HandlerNotFound"])
        self.assertTrue(all(is_last for *_, is_last in seen[:4]))

    def test_async_hooks(self) -> None:
        worker, seen = AsyncWorker(), []

        @worker.job("t")
        async def t() -> None:
            raise ValueError("x")

        @worker.on_failed
        async def failed(job: AsyncJob, error: Exception) -> None:
            await asyncio.sleep(0)
            seen.append(str(error))

        worker.perform("t")
        self.assertEqual(seen, ["x"])


class Cancels(unittest.TestCase):
    def test_sleep_ends_with_the_cancel(self) -> None:
        def t(job: Job) -> str:
            job.sleep(30)
            return "slept"

        async def looks(job: AsyncJob) -> str:
            _ = job.cancelled
            await job.sleep(30)
            return "slept"

        async def waits() -> str:
            await asyncio.sleep(30)
            return "slept"

        async def looks_later(job: AsyncJob) -> None:
            async def look() -> None:
                await asyncio.sleep(0.001)
                _ = job.cancelled

            await asyncio.gather(job.sleep(30), look())

        for handler in (t, looks, waits, looks_later):
            for reason in ("shutdown", "cancelled", "lost", "a new one"):
                outcome = perform(handler, cancel=reason, cancel_after=0.01)
                self.assertEqual((outcome.outcome, outcome.reason), ("release", reason))
            outcome = perform(handler, timeout=0.01)
            self.assertEqual((outcome.outcome, (outcome.error or {})["code"]), ("fail", "timeout"))

    def test_except_exception_does_not_swallow_it(self) -> None:
        def t(job: Job) -> None:
            try:
                job.sleep(30)
            except Exception:
                pass

        self.assertEqual(perform(t, cancel="shutdown", cancel_after=0.01).reason, "shutdown")

    def test_a_handler_may_finish_all_the_same(self) -> None:
        def t(job: Job) -> Any:
            job.cancelled.wait()
            return [job.is_cancelled, job.cancel_reason]

        self.assertEqual(perform(t, cancel="shutdown").result, [True, "shutdown"])

    def test_stopping_comes_before_the_cancel(self) -> None:
        def t(job: Job) -> Any:
            return [bool(job.stopping), job.is_cancelled, (job.remaining() or 0) > 4]

        self.assertEqual(perform(t, stopping=5).result, [True, False, True])


class Surroundings(unittest.TestCase):
    def test_middleware_is_around_the_handler_the_first_one_outermost(self) -> None:
        worker = Worker()

        @worker.middleware
        def outer(job: Job, call_next: Any) -> Any:
            job.context["names"] = ["outer"]
            return [*call_next(), "back"]

        @worker.middleware
        def inner(job: Job, call_next: Any) -> Any:
            job.context["names"].append("inner")
            return call_next()

        @worker.job("t")
        def t(job: Job) -> Any:
            assert current_job() is job
            return job.context["names"]

        self.assertEqual(worker.perform("t").result, ["outer", "inner", "back"])
        self.assertIsNone(current_job())

    def test_the_formatter_says_whose_line_it_is(self) -> None:
        lines: List[str] = []
        root = logging.getLogger()
        before = (list(root.handlers), root.level)

        class Keep(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                lines.append(self.format(record))

        handler = install_logging("info", handler=Keep())
        logging.getLogger("ojs_worker").propagate = True
        try:
            worker = Worker()

            @worker.job("t")
            def t(text: str) -> None:
                logging.getLogger("a.library").debug("%s", text, extra={"n": 1, "id": uuid.UUID(int=0)})
                raise ValueError("two\nlines \ud800")

            trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
            worker.perform("t", ["hidden"])
            worker.perform("t", ["shown\n"], meta={"log_level": "debug", **trace})
        finally:
            logging.getLogger("ojs_worker").propagate = False
            root.removeHandler(handler)
            root.handlers[:], root.level = before
        records = [json.loads(line) for line in lines]
        self.assertEqual([record["severity"] for record in records], ["ERROR", "DEBUG", "ERROR"])
        self.assertEqual(records[1]["message"], "shown\n")
        self.assertEqual(records[1]["attributes"], {"logger": "a.library", "n": 1, "id": str(uuid.UUID(int=0))})
        self.assertEqual(records[1]["ojs"], {"job_id": "perform-1", "job_type": "t", "queue": "default", "attempt": 1})
        self.assertEqual(records[1]["trace"], {"trace_id": "a" * 32, "span_id": "b" * 16})
        self.assertTrue(all("\n" not in line for line in lines))
        self.assertIn("ValueError: two", records[2]["error"]["stack"])
        self.assertNotIn("_session.py", records[2]["error"]["stack"])

    def test_a_handler_that_hangs_is_given_up(self) -> None:
        with self.assertRaisesRegex(Exception, "has not ended within 0.05 s"):
            perform(lambda job: job.cancelled.wait(), patience=0.05)
