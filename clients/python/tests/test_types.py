"""The types are as strict as mypy can ask for. It comes from PyPI, into the folder that CLIENT_OUT names."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
MYPY = "mypy==1.18.2"

# What a program of a user's looks like, and what has to be said about it.
PROGRAM = '''
from ojs_worker import AsyncJob, AsyncWorker, Job, Worker

worker = Worker(concurrency=2)
on_asyncio = AsyncWorker()


@worker.job("a", "b")
def handle(job: Job) -> object:
    for row in job.iterate([1, 2], key=str):
        reveal_type(row)
    return job.step("resize", len, "abc")


@on_asyncio.job("a")
async def handle_on_asyncio(job: AsyncJob) -> object:
    async for row in job.iterate(["x"]):
        reveal_type(row)
    return await job.step("resize", len, "abc")


reveal_type(handle)
reveal_type(worker.perform("a", [1]).outcome)
Worker(concurency=2)
'''


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

    def test_a_program_is_told_what_it_has_and_what_it_misspells(self) -> None:
        done = mypy("-c", PROGRAM)
        for told in ('"int"', '"str"', '"def (job: ojs_worker', 'Unexpected keyword argument "concurency"'):
            self.assertIn(told, done.stdout.replace("builtins.", ""))
        self.assertEqual(done.stdout.count("error:"), 1, done.stdout)


if __name__ == "__main__":
    unittest.main()
