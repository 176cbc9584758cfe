"""The types are as strict as mypy can ask for. It comes from PyPI, into the folder that CLIENT_OUT names."""

import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Dict

HERE = Path(__file__).resolve().parent.parent
MYPY = "mypy==1.18.2"

# What a program of a user's looks like, and what has to be said about it.
PROGRAM = '''
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Dict, List, NamedTuple, Optional, TypedDict
from ojs_worker import AsyncJob, AsyncWorker, Job, Worker

worker = Worker(concurrency=2)
on_asyncio = AsyncWorker()


class SendArgs(NamedTuple):
    to: str
    body: str = ""


@dataclass
class Picture:
    path: str
    sizes: List[int]


class Mail(TypedDict):
    to: str


@dataclass
class Sent:
    id: int


@worker.job("a", "b")
def handle(job: Job) -> List[int]:
    for row in job.iterate([1, 2], key=str):
        reveal_type(row)
    if job.cancelled or job.is_cancelled:
        return []
    return [job.step("resize", len, "abc")]


@on_asyncio.job("a")
async def handle_on_asyncio(job: AsyncJob) -> Any:
    async for row in job.iterate(["x"]):
        reveal_type(row)
    return await job.step("resize", len, "abc")


@worker.job("send", args=SendArgs)
def send(job: Job, args: SendArgs) -> Sent:
    return Sent(len(args.to))


@worker.job("resize", args=Picture)
def resize(job: Job, args: Picture) -> Dict[str, int]:
    return {"sizes": len(args.sizes)}


@on_asyncio.job("mail", args=Mail)
async def mail(job: AsyncJob, args: Mail) -> Optional[Mail]:
    return args


@worker.middleware
def around(job: Job, call_next: Callable[[], Any]) -> Any:
    return call_next()


@on_asyncio.middleware
async def around_on_asyncio(job: AsyncJob, call_next: Callable[[], Awaitable[Any]]) -> Any:
    return await call_next()


worker.job("lambda")(lambda job: None)
reveal_type(handle)
reveal_type(send)
reveal_type(worker.perform("a", [1]).outcome)
'''

WRONG = (
    ("an async def for a Worker", "@worker.job('w')\nasync def wrong(job: Job) -> None: ..."),
    ("one with arguments", "@worker.job('w', args=SendArgs)\nasync def wrong(job: Job, args: SendArgs) -> None: ..."),
    ("a handler of the other worker", "@worker.job('w')\ndef wrong(job: AsyncJob) -> None: ..."),
    ("arguments of the job itself", "@worker.job('w')\ndef wrong(a: int, b: str) -> None: ..."),
    ("a generator", "@worker.job('w')\ndef wrong(job: Job) -> Iterator[int]:\n    yield 1"),
    ("a Job handler for an AsyncWorker", "@on_asyncio.job('w')\nasync def wrong(job: Job) -> None: ..."),
    ("a def for an AsyncWorker", "@on_asyncio.job('w')\ndef wrong(job: AsyncJob) -> None: ..."),
    ("one with arguments", "@on_asyncio.job('w', args=SendArgs)\ndef wrong(job: AsyncJob, args: SendArgs) -> None: ..."),
    ("other arguments", "@worker.job('w', args=SendArgs)\ndef wrong(job: Job, args: Sent) -> None: ..."),
    ("no arguments", "@worker.job('w', args=SendArgs)\ndef wrong(job: Job) -> None: ..."),
    ("a result that is no JSON", "@worker.job('w')\ndef wrong(job: Job) -> Worker:\n    return worker"),
    ("a middleware without call_next", "@worker.middleware\ndef wrong(job: Job) -> None: ..."),
    ("an async middleware", "@worker.middleware\nasync def wrong(job: Job, call_next: Callable[[], Any]) -> None: ..."),
    ("a middleware that is not", "@on_asyncio.middleware\ndef wrong(job: AsyncJob, call_next: Callable[[], Any]) -> None: ..."),
    ("a misspelled option", "Worker(concurency=2)"),
)


def mypy(*arguments: str) -> "subprocess.CompletedProcess[str]":
    place = Path(os.environ["CLIENT_OUT"]) / MYPY
    if not (place / "mypy").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(place)]
        done = subprocess.run([*pip, MYPY], env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}, capture_output=True)
        if done.returncode:
            raise unittest.SkipTest(f"{MYPY} is not to be had: {done.stderr.decode(errors='replace')[-300:]}")
    # mypy takes what lies in the current folder for the program's own.
    elsewhere = place.with_name("mypy-cache")
    elsewhere.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(elsewhere), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(place), "MYPYPATH": str(HERE)}
    return subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True)


@unittest.skipUnless(os.environ.get("CLIENT_OUT"), "CLIENT_OUT names no folder for mypy")
class Types(unittest.TestCase):
    def test_the_package_is_strictly_typed(self) -> None:
        done = mypy(str(HERE / "ojs_worker"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_program_is_told_what_it_has(self) -> None:
        done = mypy("-c", PROGRAM)
        for told in ('"int"', '"str"', '"def (job: ojs_worker', "-> __main__.Sent"):
            self.assertIn(told, done.stdout.replace("builtins.", ""))
        self.assertEqual(done.stdout.count("error:"), 0, done.stdout)

    def test_a_program_is_told_of_each_function_of_a_wrong_shape(self) -> None:
        lines = ["from typing import Iterator", *PROGRAM.splitlines()]
        first: Dict[int, str] = {}
        for what, source in WRONG:
            first[len(lines) + 1] = what
            lines += source.replace("wrong(", f"wrong_{len(lines)}(").splitlines()
        done = mypy("-c", "\n".join(lines))
        told = {int(line.split(":")[1]) for line in done.stdout.splitlines() if " error: " in line}
        starts = [*first, len(lines) + 1]
        for start, end in zip(starts, starts[1:]):
            self.assertTrue(told & set(range(start, end)), f"{first[start]}: {done.stdout}")


if __name__ == "__main__":
    unittest.main()
