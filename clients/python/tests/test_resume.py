"""Steps and loops that go on where an earlier attempt stopped. The shared sessions show the usual cases."""

import asyncio
import json
import unittest
from typing import Any, AsyncIterator, Iterator, List

from .fake import PATIENCE, SocketTest, job
from ojs_worker import AsyncJob, AsyncWorker, Job, Outcome, Worker


def perform(function: Any, **options: Any) -> Outcome:
    worker = AsyncWorker() if asyncio.iscoroutinefunction(function) else Worker()
    worker.job("t")(function)
    return worker.perform("t", **{"patience": PATIENCE, **options})


def saved(steps: Any = (), cursors: Any = None, state: Any = None) -> Any:
    return {"ojs_resume": 1, "steps": [list(step) for step in steps], "cursors": cursors or {}, "state": state}


class Depth(unittest.TestCase):
    def test_what_ojs_init_would_refuse_as_nested_too_deep_is_an_error_of_the_handler(self) -> None:
        def nested(levels: int) -> Any:
            return json.loads('{"[":' * levels + '"[[["' + "}" * levels)

        def progress(job: Job) -> None:
            job.progress(0.5, data=nested(99))
            job.progress(0.5, data=nested(100))

        def checkpoint(job: Job) -> None:
            job.checkpoint(nested(99))
            job.checkpoint(nested(100))

        def step(job: Job) -> None:
            job.step("one", lambda: nested(100))

        for handler, sent in ((progress, "progress"), (checkpoint, "checkpoints"), (step, "")):
            outcome = perform(handler)
            self.assertEqual(len(getattr(outcome, sent, [])), 1 if sent else 0, handler)
            assert outcome.error is not None
            self.assertEqual(outcome.error["type"], "ValueError")
            self.assertIn("nested deeper than 100 levels", outcome.error["message"])


class Loops(unittest.TestCase):
    def test_rows_may_be_a_function_of_the_position(self) -> None:
        def rows(after: Any) -> Iterator[int]:
            return iter(range(0 if after is None else after + 1, 4))

        def t(job: Job) -> List[int]:
            return list(job.iterate(rows))

        self.assertEqual(perform(t).result, [0, 1, 2, 3])
        self.assertEqual(perform(t, checkpoint=saved(cursors={"": 1})).result, [2, 3])

    def test_the_position_is_saved_when_the_handler_fails(self) -> None:
        def t(job: Job) -> None:
            for row in job.iterate("abc", key=lambda row: row):
                if row == "c":
                    raise ValueError(row)

        outcome = perform(t)
        self.assertEqual((outcome.outcome, outcome.checkpoints), ("fail", [saved(cursors={"": "b"})]))

    def test_a_cancel_for_another_reason_than_a_shutdown_ends_the_loop_too(self) -> None:
        def t(job: Job) -> None:
            for _ in job.iterate(iter(int, 1)):
                job.cancelled.wait(0.005)

        self.assertEqual(perform(t, cancel="cancelled", cancel_after=0.02).reason, "cancelled")
        self.assertEqual((perform(t, timeout=0.02).error or {})["code"], "timeout")
        self.assertEqual(perform(t, cancel="lost", cancel_after=0.02).checkpoints, [])

    def test_positions_are_json(self) -> None:
        def keyed(job: Job) -> Any:
            return list(job.iterate([1, True, (2, "x"), {"a": 1.0}], key=lambda row: row))

        self.assertEqual(perform(keyed, checkpoint=saved(cursors={"": [2, "x"]})).result, [{"a": 1.0}])
        self.assertEqual(perform(keyed, checkpoint=saved(cursors={"": 1})).result[0], True)

        def counted(job: Job) -> None:
            list(job.iterate([1]))

        self.assertEqual((perform(counted, checkpoint=saved(cursors={"": "k"})).error or {})["type"], "StepsChanged")

        def twice(job: Job) -> None:
            list(job.iterate([1]))
            list(job.iterate([1]))

        self.assertIn("two loops", (perform(twice).error or {})["message"])

    def test_async_rows(self) -> None:
        async def rows() -> AsyncIterator[int]:
            for row in range(3):
                yield row

        async def t(job: AsyncJob) -> List[int]:
            return [row async for row in job.iterate(rows())]

        self.assertEqual(perform(t, checkpoint=saved(cursors={"": 0})).result, [1, 2])


class Steps(unittest.TestCase):
    def test_results_are_those_that_a_later_attempt_gets(self) -> None:
        def t(job: Job) -> Any:
            first = job.step("first", lambda: (1, 2))
            first.append(3)
            return [first, job.step("second", lambda n: n, n=4)]

        outcome = perform(t)
        self.assertEqual(outcome.result, [[1, 2, 3], 4])
        self.assertEqual(outcome.checkpoints[-1], saved([("first", [1, 2]), ("second", 4)]))
        self.assertEqual(perform(t, checkpoint=saved([("first", [9])])).result, [[9, 3], 4])

    def test_a_loop_in_a_step_has_its_own_position(self) -> None:
        def t(job: Job) -> Any:
            return job.step("load", lambda: list(job.iterate(range(3))))

        self.assertEqual(perform(t, checkpoint=saved(cursors={"load": 0})).result, [1, 2])

    def test_mistakes_are_named(self) -> None:
        def nested(job: Job) -> None:
            job.step("a", lambda: job.step("b", int))

        def nameless(job: Job) -> None:
            job.step("", int)

        def no_json(job: Job) -> None:
            job.step("a", lambda: {1})

        for handler, words in ((nested, "'b' begins within step 'a'"), (nameless, "not empty"), (no_json, "'a' is not JSON")):
            self.assertIn(words, (perform(handler).error or {})["message"])

    def test_a_step_that_failed_can_be_left_out(self) -> None:
        def t(job: Job) -> Any:
            try:
                job.step("optional", lambda: 1 // 0)
            except ZeroDivisionError:
                pass
            return job.step("rest", lambda: "done")

        outcome = perform(t)
        self.assertEqual((outcome.result, outcome.checkpoints), ("done", [saved([("rest", "done")])]))

    def test_the_handler_s_own_state_is_kept_beside(self) -> None:
        def t(job: Job) -> Any:
            before = job.last_checkpoint
            job.checkpoint({"n": 1})
            job.step("a", int)
            return before

        outcome = perform(t, checkpoint=saved(state="mine"))
        self.assertEqual(outcome.result, "mine")
        self.assertEqual(outcome.checkpoints, [saved(state={"n": 1}), saved([("a", 0)], state={"n": 1})])
        self.assertEqual(perform(lambda job: job.last_checkpoint, checkpoint={"steps": 1}).result, {"steps": 1})

    def test_async_steps(self) -> None:
        async def t(job: AsyncJob) -> Any:
            return [await job.step("a", asyncio.sleep, 0, "A"), await job.step("b", lambda: "B")]

        self.assertEqual(perform(t).result, ["A", "B"])


class AsyncCancel(SocketTest):
    def test_a_step_whose_checkpoint_waits_for_a_thread_is_saved_at_a_cancel(self) -> None:
        process = self.start("""
import concurrent.futures
worker = AsyncWorker()
@worker.job("t")
async def t(job: AsyncJob):
    loop, is_over = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
    loop.run_in_executor(None, is_over.wait)  # Its only thread is busy.
    def charge():
        loop.call_soon(job._session.on_frame, {"type": "cancel", "job_id": job.id, "reason": "shutdown"})
        return "x" * 30_000  # Too long to be written without a thread.
    try:
        await job.step("charge", charge)
    finally:
        is_over.set()
worker.run()
""")
        connection = self.accept()
        connection.send(job("j1"))
        connection.terminate(60_000)
        checkpoint, release = map(json.loads, connection.lines.readlines())
        self.assertEqual(checkpoint["state"]["steps"], [["charge", "x" * 30_000]])
        self.assertEqual((release["type"], release["reason"]), ("release", "shutdown"))
        self.ends(process, 0)
