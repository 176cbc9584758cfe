"""Which functions may be handlers, and handlers with types."""

import asyncio
import dataclasses
import enum
import functools
import sys
import unittest
from typing import Any, Callable, Dict, List, Literal, NamedTuple, Optional, Tuple, TypedDict, Union
from unittest import mock

from .fake_init import ClientTest  # noqa: F401  (it finds the package)

from ojs_worker import AsyncJob, AsyncWorker, Job, Worker


def plain(job: Any) -> str:
    return "plain"


async def coroutine(job: Any) -> str:
    return "coroutine"


def generator(job: Any) -> Any:
    yield 1


async def async_generator(job: Any) -> Any:
    yield 1


def callable_of(function: Callable[[Any], Any]) -> Any:
    return type("AnObject", (), {"__call__": lambda self, job: function(job)})()


class AnAsyncObject:
    async def __call__(self, job: Any) -> str:
        return "coroutine"

    async def method(self, job: Any) -> str:
        return "coroutine"

    def plain_method(self, job: Any) -> str:
        return "plain"


@functools.wraps(coroutine)
def wrapper(job: Any) -> Any:
    return coroutine(job)


SYNC = (plain, functools.partial(plain), callable_of(plain), AnAsyncObject().plain_method, lambda job: "plain")
ASYNC = (coroutine, functools.partial(functools.partial(coroutine)), AnAsyncObject(), AnAsyncObject().method)
NEITHER = (generator, async_generator, functools.partial(generator), functools.partial(async_generator), 7)


class Kinds(unittest.TestCase):
    def test_each_worker_takes_functions_that_it_can_run_and_no_others(self) -> None:
        for handler in SYNC:
            worker = Worker()
            worker.job("t")(handler)
            self.assertEqual(worker.perform("t").result, "plain")
            self.assertRaisesRegex(TypeError, "asyncio.to_thread", AsyncWorker().job("t"), handler)
        for coroutine_handler in (*ASYNC, wrapper):
            on_asyncio = AsyncWorker()
            on_asyncio.job("t")(coroutine_handler)
            self.assertEqual(on_asyncio.perform("t").result, "coroutine")
        for coroutine_handler in ASYNC:
            self.assertRaisesRegex(TypeError, "use AsyncWorker", Worker().job("t"), coroutine_handler)
        for handler_of_nobody in NEITHER:
            for either in (Worker(), AsyncWorker()):
                self.assertRaises(TypeError, either.job("t"), handler_of_nobody)
                self.assertRaises(TypeError, either.middleware, handler_of_nobody)

    def test_a_mock_is_a_handler(self) -> None:
        worker, on_asyncio = Worker(), AsyncWorker()
        worker.job("t")(mock.Mock(return_value=1))
        on_asyncio.job("t")(mock.AsyncMock(return_value=1))
        self.assertEqual((worker.perform("t").result, on_asyncio.perform("t").result), (1, 1))


class Signatures(unittest.TestCase):
    def test_a_function_that_cannot_be_called_with_a_job_is_refused_when_it_is_registered(self) -> None:
        def two(job: Any, to: Any) -> None: ...
        def none() -> None: ...
        def keyword(job: Any, *, to: Any) -> None: ...

        for handler in (two, none, keyword, functools.partial(plain, 1), callable_of(plain).__call__.__func__):
            with self.subTest(handler=handler), self.assertRaisesRegex(TypeError, r"handler\(job\).*job\.args"):
                Worker().job("t")(handler)
        with self.assertRaisesRegex(TypeError, r"middleware\(job, call_next\)"):
            Worker().middleware(plain)

        async def two_async(job: Any, to: Any) -> None: ...

        with self.assertRaisesRegex(TypeError, r"handler\(job\).*job\.args"):
            AsyncWorker().job("t")(two_async)

    def test_a_handler_with_types_is_called_with_the_job_and_its_arguments(self) -> None:
        def two(job: Any, args: Any) -> None: ...
        def one(job: Any) -> None: ...

        class Shape(NamedTuple):
            to: str

        Worker().job("t", args=Shape)(two)
        with self.assertRaisesRegex(TypeError, r"handler\(job, args\)"):
            Worker().job("t", args=Shape)(one)

    def test_whatever_fits_is_taken(self) -> None:
        for handler in (lambda job, more=None: None, lambda *given: None, functools.partial(lambda to, job: None, "x")):
            Worker().job("t")(handler)


class Events(unittest.TestCase):
    def test_an_event_of_a_job_is_true_once_it_is_set(self) -> None:
        def look(job: Job) -> List[bool]:
            before = [bool(job.stopping), bool(job.cancelled), job.is_cancelled]
            job.cancelled.wait(0.5)
            return [*before, bool(job.stopping), bool(job.cancelled), job.is_cancelled, job.cancelled.is_set()]

        async def look_on_asyncio(job: AsyncJob) -> List[bool]:
            before = [bool(job.stopping), bool(job.cancelled), job.is_cancelled]
            await asyncio.wait_for(job.cancelled.wait(), 0.5)
            return [*before, bool(job.stopping), bool(job.cancelled), job.is_cancelled, job.cancelled.is_set()]

        worker, on_asyncio = Worker(), AsyncWorker()
        worker.job("t")(look)
        on_asyncio.job("t")(look_on_asyncio)
        for either in (worker, on_asyncio):
            result = either.perform("t", cancel="cancelled", cancel_after=0.05).result
            self.assertEqual(result, [False, False, False, False, True, True, True])


class Color(enum.Enum):
    RED = "red"


class Address(TypedDict):
    street: str


@dataclasses.dataclass
class Person:
    name: str
    address: Optional[Address] = None


class Everything(NamedTuple):
    text: str
    amount: int
    ratio: float
    flag: bool
    people: List[Person]
    numbers: Dict[str, int]
    color: Color
    word: Literal["a", "b"]
    either: Union[int, str, None] = None
    pair: Tuple[int, ...] = ()
    anything: Any = None


GOOD: List[Any] = ["x", 1.0, 2, True, [{"name": "Ann", "address": {"street": "s"}, "new": 1}], {"a": 1}, "red", "b"]


class Typed(unittest.TestCase):
    def run_with(self, shape: Any, args: List[Any]) -> Any:
        worker = Worker()
        worker.job("t", args=shape)(lambda job, args: repr(args))
        return worker.perform("t", args)

    def test_arguments_become_what_their_types_say(self) -> None:
        expected = Everything("x", 1, 2.0, True, [Person("Ann", {"street": "s"})], {"a": 1}, Color.RED, "b")
        self.assertEqual(self.run_with(Everything, GOOD).result, repr(expected))
        rest = self.run_with(Everything, [*GOOD, "s", [1, 2], {"k": None}])
        self.assertIn("either='s', pair=(1, 2), anything={'k': None}", rest.result)
        self.assertEqual(self.run_with(Person, ["Ann"]).result, repr(Person("Ann")))
        self.assertEqual(self.run_with(Address, ["s"]).result, "{'street': 's'}")

    def test_what_does_not_fit_fails_for_good_and_says_where(self) -> None:
        def other(number: int, value: Any) -> List[Any]:
            return [*GOOD[:number], value, *GOOD[number + 1 :]]

        for args, told in (
            (GOOD[:-1], "7 arguments, and Everything takes 8 to 11: text, amount"),
            ([*GOOD, 1, [], 1, 1], "12 arguments"),
            (other(0, 5), "argument text is a string, and a int came"),
            (other(1, True), "argument amount is an integer"),
            (other(1, 1.5), "argument amount is an integer"),
            (other(2, "2"), "argument ratio is a number"),
            (other(3, 1), "argument flag is a boolean"),
            (other(4, {}), "argument people is an array"),
            (other(4, [{"address": None}]), "argument people[0] has no name"),
            (other(4, [{"name": 1}]), "argument people[0].name is a string"),
            (other(5, {"a": "b"}), "a value of argument numbers is an integer"),
            (other(6, "blue"), "argument color is one of Color"),
            (other(7, []), "argument word is one of"),
            ([*GOOD, []], "argument either is an integer, and a list came or"),
        ):
            outcome = self.run_with(Everything, args)
            self.assertEqual((outcome.outcome, outcome.error["type"], outcome.error["retryable"]), ("fail", "InvalidArgs", False))
            self.assertIn(told, outcome.error["message"])

    def test_a_dataclass_that_looks_closer_refuses_as_well(self) -> None:
        @dataclasses.dataclass
        class Mail:
            to: str

            def __post_init__(self) -> None:
                if "@" not in self.to:
                    raise ValueError("to is no address")

        outcome = self.run_with(Mail, ["ann"])
        self.assertEqual(outcome.error["type"], "InvalidArgs")
        self.assertIn("to is no address", outcome.error["message"])

    def test_a_dataclass_is_a_result(self) -> None:
        @dataclasses.dataclass
        class Sent:
            id: int
            to: List[Person]

        worker, on_asyncio = Worker(), AsyncWorker()
        worker.job("t", args=Address)(lambda job, args: Sent(1, [Person(args["street"])]))

        @on_asyncio.job("t", args=Person)
        async def handler(job: AsyncJob, args: Person) -> Sent:
            return Sent(1, [args])

        for either in (worker, on_asyncio):
            self.assertEqual(either.perform("t", ["s"]).result, {"id": 1, "to": [{"name": "s", "address": None}]})

    def test_a_type_that_cannot_be_read_is_an_error_at_once(self) -> None:
        class Unknown(NamedTuple):
            when: Job

        for shape in (Unknown, str, List[str], 7):
            with self.assertRaises(TypeError):
                Worker().job("t", args=shape)  # type: ignore[arg-type]

    @unittest.skipIf(sys.version_info < (3, 10), "int | None is of Python 3.10")
    def test_new_unions_are_unions(self) -> None:
        shape = dataclasses.make_dataclass("Shape", [("number", eval("int | None"))])
        self.assertEqual(self.run_with(shape, [None]).outcome, "ack")
        self.assertEqual(self.run_with(shape, ["1"]).error["type"], "InvalidArgs")


if __name__ == "__main__":
    unittest.main()
