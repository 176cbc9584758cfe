"""The fixture worker of docs/worker-socket.md, for clients/fixtures/play.py. With --async: on asyncio."""

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
    return {
        **{name: getattr(job, name) for name in ("id", "type", "queue", "attempt", "args", "meta", "last_checkpoint")},
        "has_deadline": job.deadline is not None,
        "deadline_ms": left,
        "remaining_ms": None if remaining is None else round(remaining * 1000),
    }


def note(job: Any, name: str) -> None:
    if job.type == "fixture.middleware":
        job.context.setdefault("names", []).append(name)


def keyed_rows(count: int) -> List[Dict[str, int]]:
    return [{"id": 10 * number} for number in range(count)]


def threaded() -> Worker:
    worker = Worker(concurrency())

    @worker.job("fixture.echo")
    def echo(job: Job) -> Any:
        return job.args

    @worker.job("fixture.fail")
    def fail(job: Job) -> Any:
        message, retryable = job.args
        raise (Retry if retryable else Discard)(message, code="x_fixture", type="FixtureError")

    @worker.job("fixture.crash")
    def crash(job: Job) -> Any:
        raise RuntimeError(job.args[0])

    @worker.job("fixture.wait")
    def wait(job: Job) -> Any:
        job.cancelled.wait()
        raise Release(job.cancel_reason)

    @worker.job("fixture.sleep")
    def sleep(job: Job) -> Any:
        time.sleep(job.args[0] / 1000)

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

    @worker.job("fixture.release")
    def release(job: Job) -> Any:
        raise Release("not mine")

    @worker.job("fixture.large")
    def large(job: Job) -> Any:
        return "x" * job.args[0]

    @worker.middleware
    def outer(job: Job, call_next: Any) -> Any:
        note(job, "outer")
        return call_next()

    @worker.middleware
    def inner(job: Job, call_next: Any) -> Any:
        note(job, "inner")
        return call_next()

    @worker.job("fixture.release_after")
    def release_after(job: Job) -> Any:
        raise Release("later", after=job.args[0])

    @worker.job("fixture.retry")
    def retry(job: Job) -> Any:
        raise Retry(job.args[0], after=job.args[1], code="x_retry")

    @worker.job("fixture.discard")
    def discard(job: Job) -> Any:
        raise Discard(job.args[0])

    @worker.job("fixture.not_json")
    def not_json(job: Job) -> Any:
        return float("nan")

    @worker.job("fixture.fields")
    def fields(job: Job) -> Any:
        return fields_of(job)

    @worker.job("fixture.middleware")
    def middleware(job: Job) -> Any:
        return job.context["names"]

    @worker.job("fixture.log")
    def log(job: Job) -> Any:
        a_library.info(job.args[0])

    @worker.job("fixture.iterate")
    def iterate(job: Job) -> Any:
        done = []
        for row in job.iterate(range(job.args[0])):
            time.sleep(job.args[1] / 1000)
            done.append(row)
        return {"rows": done}

    @worker.job("fixture.keyed")
    def keyed(job: Job) -> Any:
        done = []
        for row in job.iterate(keyed_rows(job.args[0]), key=lambda row: row["id"]):
            time.sleep(job.args[1] / 1000)
            done.append(row["id"])
        return {"rows": done}

    @worker.job("fixture.steps")
    def steps(job: Job) -> Any:
        ran: List[str] = []

        def run(name: str) -> str:
            ran.append(name)
            return name.upper()

        results = [job.step(name, run, name) for name in job.args]
        return {"ran": ran, "results": results}

    @worker.job("fixture.swallow")
    def swallow(job: Job) -> Any:
        done: List[int] = []

        def load() -> str:
            try:
                for row in job.iterate(range(job.args[0])):
                    time.sleep(job.args[1] / 1000)
                    done.append(row)
            except BaseException:
                pass
            return "A"

        try:
            job.step("load", load)
        except BaseException:
            pass
        return {"rows": done}

    @worker.job("fixture.optional")
    def optional(job: Job) -> Any:
        ran: List[str] = []

        def fail(name: str) -> None:
            ran.append(name)
            raise RuntimeError(f"no {name}")

        try:
            job.step(job.args[0], fail, job.args[0])
        except BaseException:
            pass
        job.step(job.args[1], ran.append, job.args[1])
        return {"ran": ran}

    @worker.job("fixture.tried_again")
    def tried_again(job: Job) -> Any:
        ran: List[str] = job.context.setdefault("ran", [])

        def run(name: str) -> str:
            ran.append(name)
            if name == job.args[-1] and ran.count(name) == 1:
                raise RuntimeError(f"no {name} yet")
            return name.upper()

        results = [job.step(name, run, name) for name in job.args]
        return {"ran": ran, "results": results}

    @worker.middleware
    def again(job: Job, call_next: Any) -> Any:
        try:
            return call_next()
        except RuntimeError:
            if job.type != "fixture.tried_again":
                raise
            return call_next()

    @worker.job("fixture.stopping")
    def stopping(job: Job) -> Any:
        while not job.stopping.wait(0.01):
            if job.cancelled.is_set():
                raise Release(job.cancel_reason)
        return {"remaining_known": job.remaining() is not None}

    return worker


def on_asyncio() -> AsyncWorker:
    worker = AsyncWorker(concurrency())

    @worker.job("fixture.echo")
    async def echo(job: AsyncJob) -> Any:
        return job.args

    @worker.job("fixture.fail")
    async def fail(job: AsyncJob) -> Any:
        message, retryable = job.args
        raise (Retry if retryable else Discard)(message, code="x_fixture", type="FixtureError")

    @worker.job("fixture.crash")
    async def crash(job: AsyncJob) -> Any:
        raise RuntimeError(job.args[0])

    @worker.job("fixture.wait")
    async def wait(job: AsyncJob) -> Any:
        await job.cancelled.wait()
        raise Release(job.cancel_reason)

    @worker.job("fixture.sleep")
    async def sleep(job: AsyncJob) -> Any:
        await asyncio.sleep(job.args[0] / 1000)

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

    @worker.job("fixture.release")
    async def release(job: AsyncJob) -> Any:
        raise Release("not mine")

    @worker.job("fixture.large")
    async def large(job: AsyncJob) -> Any:
        return "x" * job.args[0]

    @worker.middleware
    async def outer(job: AsyncJob, call_next: Any) -> Any:
        note(job, "outer")
        return await call_next()

    @worker.middleware
    async def inner(job: AsyncJob, call_next: Any) -> Any:
        note(job, "inner")
        return await call_next()

    @worker.job("fixture.release_after")
    async def release_after(job: AsyncJob) -> Any:
        raise Release("later", after=job.args[0])

    @worker.job("fixture.retry")
    async def retry(job: AsyncJob) -> Any:
        raise Retry(job.args[0], after=job.args[1], code="x_retry")

    @worker.job("fixture.discard")
    async def discard(job: AsyncJob) -> Any:
        raise Discard(job.args[0])

    @worker.job("fixture.not_json")
    async def not_json(job: AsyncJob) -> Any:
        return float("nan")

    @worker.job("fixture.fields")
    async def fields(job: AsyncJob) -> Any:
        return fields_of(job)

    @worker.job("fixture.middleware")
    async def middleware(job: AsyncJob) -> Any:
        return job.context["names"]

    @worker.job("fixture.log")
    async def log(job: AsyncJob) -> Any:
        a_library.info(job.args[0])

    @worker.job("fixture.iterate")
    async def iterate(job: AsyncJob) -> Any:
        done = []
        async for row in job.iterate(range(job.args[0])):
            await asyncio.sleep(job.args[1] / 1000)
            done.append(row)
        return {"rows": done}

    @worker.job("fixture.keyed")
    async def keyed(job: AsyncJob) -> Any:
        done = []
        async for row in job.iterate(keyed_rows(job.args[0]), key=lambda row: row["id"]):
            await asyncio.sleep(job.args[1] / 1000)
            done.append(row["id"])
        return {"rows": done}

    @worker.job("fixture.steps")
    async def steps(job: AsyncJob) -> Any:
        ran: List[str] = []

        def run(name: str) -> str:
            ran.append(name)
            return name.upper()

        results = [await job.step(name, run, name) for name in job.args]
        return {"ran": ran, "results": results}

    @worker.job("fixture.swallow")
    async def swallow(job: AsyncJob) -> Any:
        done: List[int] = []

        async def load() -> str:
            try:
                async for row in job.iterate(range(job.args[0])):
                    await asyncio.sleep(job.args[1] / 1000)
                    done.append(row)
            except BaseException:
                pass
            return "A"

        try:
            await job.step("load", load)
        except BaseException:
            pass
        return {"rows": done}

    @worker.job("fixture.optional")
    async def optional(job: AsyncJob) -> Any:
        ran: List[str] = []

        def fail(name: str) -> None:
            ran.append(name)
            raise RuntimeError(f"no {name}")

        try:
            await job.step(job.args[0], fail, job.args[0])
        except BaseException:
            pass
        await job.step(job.args[1], ran.append, job.args[1])
        return {"ran": ran}

    @worker.job("fixture.tried_again")
    async def tried_again(job: AsyncJob) -> Any:
        ran: List[str] = job.context.setdefault("ran", [])

        def run(name: str) -> str:
            ran.append(name)
            if name == job.args[-1] and ran.count(name) == 1:
                raise RuntimeError(f"no {name} yet")
            return name.upper()

        results = [await job.step(name, run, name) for name in job.args]
        return {"ran": ran, "results": results}

    @worker.middleware
    async def again(job: AsyncJob, call_next: Any) -> Any:
        try:
            return await call_next()
        except RuntimeError:
            if job.type != "fixture.tried_again":
                raise
            return await call_next()

    @worker.job("fixture.stopping")
    async def stopping(job: AsyncJob) -> Any:
        waits = [asyncio.ensure_future(event.wait()) for event in (job.stopping, job.cancelled)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if job.cancelled.is_set():
            raise Release(job.cancel_reason)
        return {"remaining_known": job.remaining() is not None}

    return worker


if __name__ == "__main__":
    install_logging()
    (on_asyncio() if "--async" in sys.argv else threaded()).run()
