"""How a handler takes the arguments of a job, and which handlers are refused."""

import dataclasses
import enum
import functools
import unittest
from typing import Any, Dict, Iterator, List, Literal, NamedTuple, Optional, TypedDict, Union

from .fake import CLIENT  # noqa: F401
from ojs_worker import AsyncJob, AsyncWorker, Depends, Job, Worker


@dataclasses.dataclass
class Address:
    street: str
    number: int = 1

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("the number is negative")


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Options(TypedDict, total=False):
    color: Literal["red", "blue"]


class Size(enum.Enum):
    SMALL = "s"


class Model:
    """What pydantic's models have, as far as it is used."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if not isinstance(value, dict) or "name" not in value:
            raise ValueError("secret input")
        return cls(value["name"])

    def model_dump(self, mode: str = "python") -> Dict[str, Any]:
        return {"name": self.name, "mode": mode}


def result(function: Any, *args: Any) -> Any:
    worker = Worker()
    worker.job("t")(function)
    outcome = worker.perform("t", args)
    return outcome.result if outcome.outcome == "ack" else (outcome.error or {})["message"]


class Arguments(unittest.TestCase):
    def test_they_are_the_parameters_in_their_order(self) -> None:
        def send(to: str, body: str = "hi") -> List[str]:
            return [to, body]

        self.assertEqual(result(send, "a"), ["a", "hi"])
        self.assertEqual(result(send, "a", "b"), ["a", "b"])
        self.assertEqual(result(send), "args: got 0, and send takes to, body=")
        self.assertEqual(result(send, "a", "b", "c"), "args: got 3, and send takes to, body=")
        self.assertEqual(result(send, "a", 7), "args[1] (body): expected a string, got an integer")

    def test_the_job_comes_on_request(self) -> None:
        def named(job, n):  # type: ignore[no-untyped-def]
            return [job.id, n]

        def annotated(n: int, *, this: Job) -> Any:
            return [this.id, n]

        def alone(job):  # type: ignore[no-untyped-def]
            return job.args

        self.assertEqual(result(named, 1), ["perform-1", 1])
        self.assertEqual(result(annotated, 1), ["perform-1", 1])
        self.assertEqual(result(alone, 1, 2), [1, 2])
        self.assertEqual(result(lambda *names: names, 1, 2), [1, 2])
        self.assertEqual(result(functools.partial(named, n=5)), ["perform-1", 5])

    def test_annotations_are_checked(self) -> None:
        cases: Any = [
            (int, 1, 1), (int, 1.0, 1), (int, "1", "expected an integer, got a string"), (int, True, "got a boolean"),
            (float, 1, 1.0), (bool, 1, "expected a boolean, got an integer"), (Optional[int], None, None),
            (Union[int, str], [], "expected an integer, got an array; or args[0] (value): expected a string"),
            (List[int], [1, "x"], "args[0] (value)[1]: expected an integer, got a string"), (list, [1], [1]),
            (Dict[str, int], {"a": 1}, {"a": 1}), (dict, [], "expected an object, got an array"),
            (Any, {"x": [None]}, {"x": [None]}), (Size, "xl", "expected one of Size"),
            (Literal["a"], "b", "expected one of"), (Options, {"color": "red", "new": 1}, {"color": "red"}),
            (Options, {"color": "green"}, "(value).color: expected one of"), (Point, [1, 2], [1.0, 2.0]),
            (Point, {"x": 1}, [1.0, 0.0]), (Point, {"y": 1}, "args[0] (value) has no x"),
            (Address, {"street": "s"}, {"street": "s", "number": 1}),
            (Address, {"street": "s", "number": -1}, "the number is negative"),
            (Model, {"name": "n"}, {"name": "n", "mode": "json"}), (Model, 1, "args[0] (value): no Model"),
        ]  # fmt: skip
        for hint, given, expected in cases:
            with self.subTest(hint=hint, given=given):

                def take(value: Any) -> Any:
                    return value

                take.__annotations__["value"] = hint
                found = result(take, given)
                if isinstance(expected, str) and isinstance(found, str):
                    self.assertIn(expected, found)
                else:
                    self.assertEqual(found, expected)

    def test_dependencies_are_made_for_each_job_and_closed_after_it(self) -> None:
        events: List[str] = []

        def session(job: Job) -> Iterator[str]:
            events.append(f"open {job.id}")
            yield "session"
            events.append("close")

        def users(db: str = Depends(session)) -> str:
            return f"users of {db}"

        def count(kind: str, found: str = Depends(users), db: str = Depends(session)) -> List[str]:
            events.append("handler")
            return [kind, found, db]

        self.assertEqual(result(count, "k"), ["k", "users of session", "session"])
        self.assertEqual(events, ["open perform-1", "handler", "close"])
        self.assertEqual(result(count), "args: got 0, and count takes kind")

    def test_dependencies_of_an_async_handler(self) -> None:
        worker = AsyncWorker()

        async def session() -> Any:
            yield "session"

        async def user(db: str = Depends(session)) -> str:
            return f"user of {db}"

        @worker.job("t")
        async def show(job: AsyncJob, name: str = Depends(user)) -> str:
            return name

        self.assertEqual(worker.perform("t").result, "user of session")


class Refused(unittest.TestCase):
    def refused(self, function: Any, *words: str, worker: Any = None) -> None:
        with self.assertRaises(TypeError) as caught:
            (worker or Worker()).job("t")(function)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_a_signature_that_cannot_work(self) -> None:
        def keyword(to: str, *, body: str) -> None: ...

        def unreadable(when: complex) -> None: ...

        def other_job(job: AsyncJob) -> None: ...

        def unknown(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

        def needy(x: int) -> int:
            return x

        def dependent(x: int = Depends(needy)) -> None: ...

        self.refused(keyword, "body: it takes no argument by its position", "def keyword(to: str, body: str = '')")
        self.refused(unreadable, "when: ", "complex", "annotate it as Any")
        self.refused(other_job, "job: a AsyncJob, and this worker has Jobs", "def other_job(job: Job, to: str)")
        self.refused(unknown, "an annotation of unknown is not known at run time")
        self.refused(dependent, "its dependency needy has parameters that are no dependencies")

    def test_a_function_of_another_kind(self) -> None:
        async def coroutine() -> None: ...

        def generator() -> Iterator[int]:
            yield 1

        def plain() -> None: ...

        self.refused(coroutine, "use AsyncWorker")
        self.refused(generator, "is a generator")
        self.refused(plain, "is an async function", worker=AsyncWorker())
        self.refused(7, "a handler is a function, not 7")
        with self.assertRaisesRegex(TypeError, 'use it as @worker.job\\("some.type"\\)'):
            Worker().job(plain)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, r"on_failed gets \(job, error\)"):
            Worker().on_failed(plain)
        worker = Worker()
        worker.job("t")(plain)
        with self.assertRaisesRegex(ValueError, "two handlers for 't'"):
            worker.job("t")(plain)

    def test_unknown_options_name_those_that_exist(self) -> None:
        with self.assertRaisesRegex(TypeError, "Worker: unknown option threads; there are concurrency, json_default"):
            Worker(threads=1)  # type: ignore[call-arg]
        with self.assertRaisesRegex(TypeError, "options: unknown option que; there are queue, delay"):
            Worker().job("t", que="x")(lambda: None)
        for concurrency in (0, True, 10_001, "4"):
            with self.assertRaises(ValueError):
                Worker(concurrency)  # type: ignore[arg-type]
