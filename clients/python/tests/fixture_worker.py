"""The fixture worker of docs/write-a-client.md, for clients/fixtures/play.py. With --async: on asyncio."""

import asyncio
import datetime
import logging
import os
import sys
import time
from typing import Any, Dict, List, Optional

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ojs_worker import AsyncJob, AsyncWorker, Discard, Job, Release, Retry, Worker, install_logging

a_library = logging.getLogger("a_library")


def concurrency() -> Optional[int]:
    return None if "default" in sys.argv else 2


def fields_of(job: Any) -> Dict[str, Any]:
    left = None
    if job.deadline is not None:
        left = round((job.deadline - datetime.datetime.now(datetime.timezone.utc)).total_seconds() * 1000)
    remaining = job.remaining()
    names = ("id", "type", "queue", "attempt", "args", "meta", "last_checkpoint", "is_last_attempt", "traceparent")
    return {
        **{name: getattr(job, name) for name in names},
        "has_deadline": job.deadline is not None,
        "deadline_ms": left,
        "remaining_ms": None if remaining is None else round(remaining * 1000),
    }


def note(job: Any, name: str) -> None:
    if job.type == "fixture.middleware":
        job.context.setdefault("names", []).append(name)


def fail(message: str, retryable: bool) -> None:
    raise (Retry if retryable else Discard)(message, code="x_fixture", type="FixtureError")


def crash(message: str) -> None:
    raise RuntimeError(message)


def release() -> None:
    raise Release("not mine")


def large(length: int) -> str:
    return "x" * length


def release_after(seconds: float) -> None:
    raise Release("later", after=seconds)


def retry(message: str, after: float) -> None:
    raise Retry(message, after=after, code="x_retry")


def discard(message: str) -> None:
    raise Discard(message)


def not_json() -> float:
    return float("nan")


def typed(to: str, count: int) -> Dict[str, Any]:
    return {"to": to, "count": count}


def log(message: str) -> None:
    a_library.info(message)


PLAIN = [fail, crash, release, large, release_after, retry, discard, not_json, typed, log]


def threaded() -> Worker:
    worker = Worker(concurrency())
    for function in PLAIN:
        worker.job(f"fixture.{function.__name__}")(function)  # type: ignore[operator]

    @worker.job("fixture.echo")
    def echo(job: Job) -> Any:
        return job.args

    @worker.job("fixture.wait")
    def wait(job: Job) -> Any:
        job.cancelled.wait()
        raise Release(job.cancel_reason)

    @worker.job("fixture.sleep")
    def sleep(milliseconds: int) -> Any:
        time.sleep(milliseconds / 1000)

    @worker.job("fixture.progress")
    def progress(job: Job) -> Any:
        job.progress(0.5, "half")

    @worker.job("fixture.checkpoint")
    def checkpoint(job: Job) -> Any:
        job.checkpoint({"step": 1})
        return {"resumed_from": job.last_checkpoint}

    @worker.job("fixture.heartbeat")
    def heartbeat(job: Job) -> Any:
        job.heartbeat()

    @worker.middleware
    def outer(job: Job, call_next: Any) -> Any:
        note(job, "outer")
        return call_next()

    @worker.middleware
    def inner(job: Job, call_next: Any) -> Any:
        note(job, "inner")
        return call_next()

    @worker.job("fixture.fields")
    def fields(job: Job) -> Any:
        return fields_of(job)

    @worker.job("fixture.middleware")
    def middleware(job: Job) -> Any:
        return job.context["names"]

    @worker.job("fixture.iterate")
    def iterate(job: Job, count: int, milliseconds: int) -> Any:
        done = []
        for row in job.iterate(range(count)):
            time.sleep(milliseconds / 1000)
            done.append(row)
        return {"rows": done}

    @worker.job("fixture.keyed")
    def keyed(job: Job, count: int, milliseconds: int) -> Any:
        done = []
        rows = [{"id": 10 * number} for number in range(count)]
        for row in job.iterate(rows, key=lambda row: row["id"]):
            time.sleep(milliseconds / 1000)
            done.append(row["id"])
        return {"rows": done}

    @worker.job("fixture.steps")
    def steps(job: Job, *names: str) -> Any:
        ran: List[str] = []

        def run(name: str) -> str:
            ran.append(name)
            return name.upper()

        results = [job.step(name, run, name) for name in names]
        return {"ran": ran, "results": results}

    @worker.job("fixture.stopping")
    def stopping(job: Job) -> Any:
        while not job.stopping.wait(0.01):
            job.raise_if_cancelled()
        return {"remaining_known": job.remaining() is not None}

    return worker


def on_asyncio() -> AsyncWorker:
    worker = AsyncWorker(concurrency())

    def made_async(function: Any) -> Any:
        async def call(*args: Any) -> Any:
            return function(*args)

        call.__wrapped__ = function  # type: ignore[attr-defined]
        return call

    for function in PLAIN:
        worker.job(f"fixture.{function.__name__}")(made_async(function))

    @worker.job("fixture.echo")
    async def echo(job: AsyncJob) -> Any:
        return job.args

    @worker.job("fixture.wait")
    async def wait(job: AsyncJob) -> Any:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise Release(job.cancel_reason) from None

    @worker.job("fixture.sleep")
    async def sleep(milliseconds: int) -> Any:
        await asyncio.sleep(milliseconds / 1000)

    @worker.job("fixture.progress")
    async def progress(job: AsyncJob) -> Any:
        await job.progress(0.5, "half")

    @worker.job("fixture.checkpoint")
    async def checkpoint(job: AsyncJob) -> Any:
        await job.checkpoint({"step": 1})
        return {"resumed_from": job.last_checkpoint}

    @worker.job("fixture.heartbeat")
    async def heartbeat(job: AsyncJob) -> Any:
        await job.heartbeat()

    @worker.middleware
    async def outer(job: AsyncJob, call_next: Any) -> Any:
        note(job, "outer")
        return await call_next()

    @worker.middleware
    async def inner(job: AsyncJob, call_next: Any) -> Any:
        note(job, "inner")
        return await call_next()

    @worker.job("fixture.fields")
    async def fields(job: AsyncJob) -> Any:
        return fields_of(job)

    @worker.job("fixture.middleware")
    async def middleware(job: AsyncJob) -> Any:
        return job.context["names"]

    @worker.job("fixture.iterate")
    async def iterate(job: AsyncJob, count: int, milliseconds: int) -> Any:
        done = []
        async for row in job.iterate(range(count)):
            await asyncio.sleep(milliseconds / 1000)
            done.append(row)
        return {"rows": done}

    @worker.job("fixture.keyed")
    async def keyed(job: AsyncJob, count: int, milliseconds: int) -> Any:
        done = []
        rows = [{"id": 10 * number} for number in range(count)]
        async for row in job.iterate(rows, key=lambda row: row["id"]):
            await asyncio.sleep(milliseconds / 1000)
            done.append(row["id"])
        return {"rows": done}

    @worker.job("fixture.steps")
    async def steps(job: AsyncJob, *names: str) -> Any:
        ran: List[str] = []

        def run(name: str) -> str:
            ran.append(name)
            return name.upper()

        results = [await job.step(name, run, name) for name in names]
        return {"ran": ran, "results": results}

    @worker.job("fixture.stopping")
    async def stopping(job: AsyncJob) -> Any:
        waits = [asyncio.ensure_future(event.wait()) for event in (job.stopping, job.cancelled)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        job.raise_if_cancelled()
        return {"remaining_known": job.remaining() is not None}

    return worker


if __name__ == "__main__":
    install_logging()
    (on_asyncio() if "--async" in sys.argv else threaded()).run()
