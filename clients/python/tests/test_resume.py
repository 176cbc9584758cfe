"""Work that goes on where an earlier attempt ended."""

import asyncio
import json
import logging
import random
import time
import unittest
from typing import Any, Callable, Dict, List, Optional, Tuple

from .fake_init import ClientTest  # noqa: F401  (it finds the package)

from ojs_worker import AsyncJob, AsyncWorker, CheckpointTooLarge, Discard, Job, Release, Worker


def saved(steps: Tuple[Tuple[str, Any], ...] = (), cursors: Optional[Dict[str, Any]] = None, state: Any = None) -> Any:
    return {"ojs_resume": 1, "steps": [list(step) for step in steps], "cursors": cursors or {}, "state": state}


def worker_of(handler: Callable[[Job], Any]) -> Worker:
    worker = Worker()
    worker.job("t")(handler)
    return worker


class Rows(unittest.TestCase):
    def test_a_job_of_many_rows_lives_through_many_shutdowns_and_each_row_is_done_once(self) -> None:
        done: List[int] = []

        def handler(job: Job) -> None:
            for row in job.iterate(range(150)):
                time.sleep(random.uniform(0.001, 0.01))
                done.append(row)

        worker = worker_of(handler)
        checkpoint = None
        for shutdown in range(200):
            outcome = worker.perform("t", checkpoint=checkpoint, stopping=0.3)
            if outcome.outcome == "ack":
                break
            self.assertEqual((outcome.outcome, outcome.reason), ("release", "resumes at its checkpoint"))
            checkpoint = outcome.checkpoints[-1] if outcome.checkpoints else checkpoint
        self.assertEqual(done, list(range(150)))
        self.assertGreater(shutdown, 3)

    def test_a_handler_that_fails_keeps_its_position(self) -> None:
        def handler(job: Job) -> None:
            for row in job.iterate("abc", key=str.upper):
                if row == "c":
                    raise RuntimeError("kaputt")

        outcome = worker_of(handler).perform("t")
        self.assertEqual((outcome.outcome, outcome.checkpoints), ("fail", [saved(cursors={"": "B"})]))

    def test_a_row_that_is_changed_by_who_gets_it_has_the_key_that_it_came_with(self) -> None:
        rows = [{"id": 1}, {"id": 2}, {"id": 3}]

        def handler(job: Job) -> None:
            for row in job.iterate(iter(map(dict, rows)), key=lambda row: row["id"]):
                if row.pop("id") == 3:
                    raise RuntimeError("kaputt")

        outcome = worker_of(handler).perform("t")
        assert outcome.error is not None
        self.assertEqual((outcome.error["message"], outcome.checkpoints), ("kaputt", [saved(cursors={"": 2})]))

    def test_a_key_that_cannot_be_had_fails_before_its_row_is_done(self) -> None:
        done: List[str] = []
        worker = worker_of(lambda job: [done.append(row) for row in job.iterate("abc", key={"a": 1, "b": 2}.__getitem__)])
        outcome = worker.perform("t")
        self.assertEqual((outcome.outcome, done, outcome.checkpoints), ("fail", ["a", "b"], [saved(cursors={"": 2})]))

    def test_an_index_that_a_backend_spells_with_a_point_is_an_index(self) -> None:
        worker = worker_of(lambda job: list(job.iterate("abc")))
        self.assertEqual(worker.perform("t", checkpoint=saved(cursors={"": 1.0})).result, ["c"])

    def test_a_key_is_compared_by_its_value_however_a_backend_spells_it(self) -> None:
        keys: Dict[str, Any] = {"a": 1, "b": 10, "c": 1e3, "d": 2**60, "e": [7, {"z": 1.5, "y": 0}], "f": "10"}
        worker = worker_of(lambda job: list(job.iterate(keys, key=keys.__getitem__)))
        rest = list(keys)
        for key, spellings in (
            ("b", "10 10.0 1e1 100e-1"),
            ("c", "1000 1E+3 1000.00"),
            ("d", "1152921504606846976 1152921504606846976.0"),
            ("e", '[7.0,{"y":0,"z":15e-1}]'),
        ):
            for spelling in spellings.split(" "):
                position = json.loads(spelling)
                result = worker.perform("t", checkpoint=saved(cursors={"": position})).result
                self.assertEqual(result, rest[rest.index(key) + 1 :], spelling)
        for other in (10.5, "1e1", 2**60 + 1):
            outcome = worker.perform("t", checkpoint=saved(cursors={"": other}))
            assert outcome.error is not None
            self.assertEqual(outcome.error["type"], "StepsChanged", other)

    def test_true_and_false_are_no_numbers_among_keys(self) -> None:
        worker = worker_of(lambda job: list(job.iterate([1, 0, True, False], key=lambda row: row)))
        self.assertEqual(worker.perform("t", checkpoint=saved(cursors={"": True})).result, [False])
        worker = worker_of(lambda job: list(job.iterate([[1], [True], {"a": 0}, {"a": False}], key=lambda row: row)))
        self.assertEqual(worker.perform("t", checkpoint=saved(cursors={"": [True]})).result, [{"a": 0}, {"a": False}])
        self.assertEqual(worker.perform("t", checkpoint=saved(cursors={"": {"a": False}})).result, [])

    def test_a_checkpoint_that_is_too_large_does_not_keep_the_position_from_being_saved(self) -> None:
        def handler(job: Job) -> None:
            for row in job.iterate("abc"):
                if row == "b":
                    self.assertRaises(CheckpointTooLarge, job.checkpoint, "x" * 70_000)
                if row == "c":
                    raise RuntimeError("kaputt")

        outcome = worker_of(handler).perform("t")
        self.assertEqual((outcome.outcome, outcome.checkpoints), ("fail", [saved(cursors={"": 1})]))

    def test_rows_may_be_asked_for_from_the_position_on(self) -> None:
        asked: List[Any] = []

        def rows_behind(position: Any) -> List[int]:
            asked.append(position)
            return [row for row in range(5) if position is None or row > position]

        worker = worker_of(lambda job: list(job.iterate(rows_behind, key=lambda row: row)))
        self.assertEqual(worker.perform("t").result, [0, 1, 2, 3, 4])
        self.assertEqual(worker.perform("t", checkpoint=saved(cursors={"": 2})).result, [3, 4])
        self.assertEqual(asked, [None, 2])

    def test_a_row_that_does_not_come_any_more_is_an_error(self) -> None:
        worker = worker_of(lambda job: list(job.iterate([1, 2], key=lambda row: row)))
        outcome = worker.perform("t", checkpoint=saved(cursors={"": 7}))
        assert outcome.error is not None
        self.assertEqual((outcome.error["type"], outcome.error["retryable"]), ("StepsChanged", False))

    def test_who_catches_the_end_of_its_loop_does_not_lose_the_rest(self) -> None:
        def handler(job: Job) -> str:
            try:
                for _ in job.iterate(range(1000)):
                    time.sleep(0.01)
            except Exception:
                pass
            return "all done"

        self.assertEqual(worker_of(handler).perform("t", stopping=0.35).outcome, "release")

    def test_who_makes_another_error_of_the_end_of_its_loop_is_released_all_the_same(self) -> None:
        def handler(job: Job) -> None:
            try:
                for row in job.iterate(range(1000)):
                    time.sleep(0.01)
            except Exception as error:
                if job.args:
                    raise {"discard": Discard("no more"), "release": Release("mine"), "exit": SystemExit(3)}[job.args[0]] from error
                raise RuntimeError("the import broke off") from error

        worker = worker_of(handler)
        wrapped = worker.perform("t", stopping=0.35)
        self.assertEqual((wrapped.outcome, wrapped.reason), ("release", "resumes at its checkpoint"))
        self.assertEqual(len(wrapped.checkpoints), 1)
        self.assertEqual(worker.perform("t", ["discard"], stopping=0.35).outcome, "fail")
        self.assertEqual(worker.perform("t", ["release"], stopping=0.35).reason, "mine")
        with self.assertRaises(SystemExit):
            worker.perform("t", ["exit"], stopping=0.35)

    def test_who_makes_another_error_of_the_end_before_a_step_is_released_all_the_same(self) -> None:
        def handler(job: Job) -> None:
            try:
                job.step("a", str, 1)
            except Exception as error:
                raise RuntimeError("the step broke off") from error

        outcome = worker_of(handler).perform("t", stopping=0.1)
        self.assertEqual((outcome.outcome, outcome.reason), ("release", "resumes at its checkpoint"))

    def test_a_handler_ends_as_it_was_ended_and_what_it_made_of_that_is_in_the_log(self) -> None:
        def handler(job: Job) -> Any:
            try:
                list(job.iterate(range(3)))
            except Exception as error:
                if job.args[0] == "raises":
                    raise RuntimeError("a bug of a shutdown") from error
                if job.args[0] == "looks":
                    job.raise_if_cancelled()
                if job.args[0] == "step":
                    job.step("a", str, 1)
                if job.args[0] == "loop":
                    list(job.iterate(range(3)))
            return {"rows": 0}

        worker = worker_of(handler)
        for what, told in (("raises", "a bug of a shutdown"), ("returns", "its result is dropped"), ("looks", ""), ("step", ""), ("loop", "")):
            with self.assertLogs("ojs_worker", logging.WARNING) as logs:
                logging.getLogger("ojs_worker").warning("there is one line")
                outcome = worker.perform("t", [what], stopping=0.1, cancel="shutdown" if what == "looks" else None)
            self.assertEqual((outcome.outcome, outcome.reason), ("release", "resumes at its checkpoint"), what)
            self.assertEqual(len(logs.output), 2 if told else 1, logs.output)
            self.assertIn(told, logs.output[-1])
            self.assertEqual(what == "raises", "Traceback" in logs.output[-1])

    def test_a_cancel_that_ends_a_loop_ends_the_job_whatever_the_handler_returns(self) -> None:
        def handler(job: Job) -> Any:
            try:
                for _ in job.iterate(range(1000)):
                    job.cancelled.wait()
            except Exception:
                pass
            return "all done"

        worker = worker_of(handler)
        late = worker.perform("t", timeout=0.2)
        assert late.error is not None
        self.assertEqual((late.error["code"], late.error["type"], late.error["retryable"]), ("timeout", "Timeout", True))
        self.assertEqual(worker.perform("t", cancel="cancelled").reason, "cancelled")

    def test_an_index_beyond_the_rows_means_that_none_is_left(self) -> None:
        worker = worker_of(lambda job: list(job.iterate("abc")))
        self.assertEqual(worker.perform("t", checkpoint=saved(cursors={"": 7})).result, [])

    def test_two_loops_in_one_place_are_an_error(self) -> None:
        outcome = worker_of(lambda job: [list(job.iterate([1])), list(job.iterate([2]))]).perform("t")
        assert outcome.error is not None
        self.assertIn("two loops", outcome.error["message"])


class Steps(unittest.TestCase):
    def test_each_step_is_done_once_over_all_attempts(self) -> None:
        ran: List[str] = []

        def step(name: str) -> Tuple[str, int]:
            ran.append(name)
            return name, 1

        def handler(job: Job) -> Any:
            results = [job.step(name, step, name) for name in ("a", "b")]
            if job.attempt == 1:
                raise RuntimeError("kaputt")
            return results

        worker = worker_of(handler)
        first = worker.perform("t")
        second = worker.perform("t", attempt=2, checkpoint=first.checkpoints[-1])
        self.assertEqual((ran, second.result), (["a", "b"], [["a", 1], ["b", 1]]))

    def test_another_order_is_an_error_that_names_both(self) -> None:
        worker = worker_of(lambda job: [job.step(name, str, 1) for name in job.args])
        outcome = worker.perform("t", ["b", "a"], checkpoint=saved((("a", "1"), ("b", "1"))))
        assert outcome.error is not None
        self.assertEqual((outcome.error["type"], outcome.error["retryable"]), ("StepsChanged", False))
        self.assertIn("a, b", outcome.error["message"])

    def test_a_step_that_had_begun_comes_next(self) -> None:
        ran: List[str] = []
        worker = worker_of(lambda job: [job.step(name, ran.append, name) for name in job.args])
        for args, checkpoint in (
            (["transform"], saved(cursors={"load": 5})),
            (["a", "b"], saved((("a", None),), {"": 3, "load": 5})),
        ):
            outcome = worker.perform("t", args, checkpoint=checkpoint)
            assert outcome.error is not None
            self.assertEqual((outcome.error["type"], outcome.error["retryable"], ran), ("StepsChanged", False, []))
            self.assertIn("load", outcome.error["message"])
        self.assertEqual(worker.perform("t", ["load", "b"], checkpoint=saved(cursors={"load": 5})).outcome, "ack")

    def test_that_steps_have_changed_ends_the_job_whatever_the_handler_makes_of_it(self) -> None:
        def handler(job: Job) -> str:
            for name in job.args:
                try:
                    job.step(name, ran.append, name)
                except Exception:
                    pass
            return "fine"

        ran: List[str] = []
        outcome = worker_of(handler).perform("t", ["other", "pay"], checkpoint=saved((("thumbnail", 1),)))
        assert outcome.error is not None
        self.assertEqual((outcome.error["type"], ran), ("StepsChanged", []))

    def test_a_step_that_failed_is_the_last_one_but_may_be_called_again(self) -> None:
        ran: List[str] = []

        def run(name: str, *errors: Exception) -> str:
            ran.append(name)
            if len(ran) <= len(errors):
                raise errors[len(ran) - 1]
            return name

        def handler(job: Job) -> Any:
            if job.args[0] == "again":
                for _ in range(2):
                    self.assertRaises(KeyError, job.step, "thumbnail", run, "thumbnail", KeyError(1), KeyError(2))
                return [job.step("thumbnail", run, "thumbnail"), job.step("pay", run, "pay")]
            try:
                job.step("thumbnail", run, "thumbnail", RuntimeError("no thumbnail"))
            except RuntimeError:
                pass
            return job.step("pay", run, "pay")

        worker = worker_of(handler)
        outcome = worker.perform("t", ["caught"])
        assert outcome.error is not None
        self.assertEqual((outcome.error["message"], outcome.error["retryable"], ran), ("no thumbnail", True, ["thumbnail"]))
        # So the next attempt begins with it once more.
        ran[:] = ["the other attempt"]
        retried = worker.perform("t", ["caught"], checkpoint=outcome.checkpoints[-1] if outcome.checkpoints else None)
        self.assertEqual((retried.result, ran[1:]), ("pay", ["thumbnail", "pay"]))
        ran.clear()
        self.assertEqual(worker.perform("t", ["again"]).result, ["thumbnail", "pay"])
        self.assertEqual(ran, ["thumbnail"] * 3 + ["pay"])

    def test_a_step_whose_body_catches_the_end_of_its_loop_is_not_finished(self) -> None:
        def load(job: Job) -> str:
            try:
                for _ in job.iterate(range(1000)):
                    time.sleep(0.01)
            except:  # noqa: E722
                pass
            return "all of them"

        outcome = worker_of(lambda job: job.step("load", load, job)).perform("t", stopping=0.4)
        self.assertEqual((outcome.outcome, outcome.checkpoints[-1]["steps"]), ("release", []))
        self.assertIn("load", outcome.checkpoints[-1]["cursors"])

    def test_what_a_handler_does_to_a_result_does_not_change_what_is_saved(self) -> None:
        def handler(job: Job) -> Any:
            files = job.step("list", lambda: ["a", "b"])
            files.pop(0)
            mine = {"left": [1, 2]}
            job.checkpoint(mine)
            mine["left"].pop()
            if job.last_checkpoint:
                job.last_checkpoint["mine"].append(3)
            job.step("next", str, 1)
            return files

        worker = worker_of(handler)
        kept = saved((("list", ["a", "b"]), ("next", "1")), state={"left": [1, 2]})
        first = worker.perform("t")
        self.assertEqual((first.result, first.checkpoints[-1]), (["b"], kept))
        before = saved((("list", ["a", "b"]),), state={"mine": [0]})
        second = worker.perform("t", checkpoint=before)
        self.assertEqual((second.result, second.checkpoints[-1]), (["b"], kept))

    def test_last_checkpoint_is_a_copy_of_what_is_saved_beside_the_steps(self) -> None:
        def handler(job: Job) -> Any:
            job.last_checkpoint["mine"].append(1)
            job.step("a", str, 1)

        checkpoint = worker_of(handler).perform("t", checkpoint={"mine": [0]}).checkpoints[-1]
        self.assertEqual(checkpoint["state"], {"mine": [0]})

    def test_a_loop_in_a_step_has_a_position_of_its_own(self) -> None:
        def handler(job: Job) -> Any:
            return job.step("rows", lambda: list(job.iterate(range(4))))

        self.assertEqual(worker_of(handler).perform("t", checkpoint=saved(cursors={"rows": 1})).result, [2, 3])

    def test_a_checkpoint_of_the_handler_is_kept_beside_them(self) -> None:
        def handler(job: Job) -> Any:
            job.step("a", str, 1)
            job.checkpoint({"mine": 1})
            return job.last_checkpoint

        outcome = worker_of(handler).perform("t", checkpoint={"mine": 0})
        self.assertEqual(outcome.result, {"mine": 0})
        self.assertEqual(outcome.checkpoints[-1], saved((("a", "1"),), state={"mine": 1}))

    def test_a_checkpoint_before_the_first_row_or_step_is_not_undone_by_them(self) -> None:
        def handler(job: Job) -> Any:
            job.checkpoint({"mine": 1})
            self.assertRaises(TypeError, job.checkpoint, object())
            job.step("a", str, 1)
            for row in job.iterate(range(3)):
                if row == 2:
                    raise RuntimeError("kaputt")

        outcome = worker_of(handler).perform("t", checkpoint={"mine": 0})
        ends = [saved((("a", "1"),), state={"mine": 1}), saved((("a", "1"),), {"": 1}, {"mine": 1})]
        self.assertEqual(outcome.checkpoints, [{"mine": 1}, *ends])

    def test_what_does_not_fit_into_a_checkpoint_is_an_error(self) -> None:
        outcome = worker_of(lambda job: job.step("a", lambda: "x" * 70_000)).perform("t")
        assert outcome.error is not None
        self.assertEqual((outcome.error["type"], outcome.error["retryable"]), ("CheckpointTooLarge", False))

    def test_a_result_that_is_no_json_is_an_error(self) -> None:
        outcome = worker_of(lambda job: job.step("a", object)).perform("t")
        assert outcome.error is not None
        self.assertEqual(outcome.error["type"], "InvalidResult")


class OnAsyncio(unittest.TestCase):
    def test_rows_and_steps_go_on_as_well(self) -> None:
        worker = AsyncWorker()

        async def rows() -> Any:
            for row in range(4):
                yield row

        @worker.job("t")
        async def handler(job: AsyncJob) -> Any:
            first = await job.step("a", asyncio.sleep, 0, "slept")
            return [first, [row async for row in job.iterate(rows())]]

        self.assertEqual(worker.perform("t").result, ["slept", [0, 1, 2, 3]])
        before = saved((("a", "before"),), {"": 1})
        self.assertEqual(worker.perform("t", checkpoint=before).result, ["before", [2, 3]])

    def test_a_row_that_is_changed_by_who_gets_it_has_the_key_that_it_came_with(self) -> None:
        worker = AsyncWorker()

        @worker.job("t")
        async def handler(job: AsyncJob) -> Any:
            async for row in job.iterate([{"id": 1}, {"id": 2}], key=lambda row: row["id"]):
                if row.pop("id") == 2:
                    raise RuntimeError("kaputt")

        outcome = worker.perform("t")
        assert outcome.error is not None
        self.assertEqual((outcome.error["message"], outcome.checkpoints), ("kaputt", [saved(cursors={"": 1})]))

    def test_what_ended_a_step_or_failed_in_it_ends_the_job_as_well(self) -> None:
        worker = AsyncWorker()

        async def load(job: AsyncJob) -> str:
            try:
                async for _ in job.iterate(range(1000)):
                    await asyncio.sleep(0.01)
            except BaseException:
                pass
            return "all of them"

        @worker.job("t")
        async def handler(job: AsyncJob) -> Any:
            try:
                await job.step("load", load, job)
            except BaseException:
                pass
            return "fine"

        @worker.job("late")
        async def late(job: AsyncJob) -> Any:
            try:
                await asyncio.wait_for(job.step("a", asyncio.sleep, 600), 0.01)
            except asyncio.TimeoutError:
                pass
            await job.step("b", asyncio.sleep, 0)

        outcome = worker.perform("t", stopping=0.4)
        self.assertEqual((outcome.outcome, outcome.checkpoints[-1]["steps"]), ("release", []))
        failed = worker.perform("late")
        assert failed.error is not None
        self.assertEqual(failed.error["retryable"], True)
        self.assertIn("step 'a' did not finish (CancelledError)", failed.error["message"])

    def test_a_stop_that_is_near_ends_the_loop(self) -> None:
        worker = AsyncWorker()

        @worker.job("t")
        async def handler(job: AsyncJob) -> Any:
            async for _ in job.iterate(range(1000)):
                await asyncio.sleep(0.01)

        outcome = worker.perform("t", stopping=0.4)
        self.assertEqual((outcome.outcome, len(outcome.checkpoints)), ("release", 1))

    def test_middleware_stands_around_a_coroutine(self) -> None:
        worker = AsyncWorker()

        @worker.middleware
        async def outer(job: AsyncJob, call_next: Callable[[], Any]) -> Any:
            return ["outer", await call_next()]

        @worker.middleware
        async def inner(job: AsyncJob, call_next: Callable[[], Any]) -> Any:
            return ["inner", await call_next()]

        @worker.job("t")
        async def handler(job: AsyncJob) -> str:
            return "handler"

        self.assertEqual(worker.perform("t").result, ["outer", ["inner", "handler"]])

    def test_middleware_that_is_no_coroutine_is_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "async function"):
            AsyncWorker().middleware(lambda job, call_next: call_next())


if __name__ == "__main__":
    unittest.main()
