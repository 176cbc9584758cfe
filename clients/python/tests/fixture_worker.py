"""The fixture worker of docs/worker-socket.md, for clients/fixtures/play.py. With --async: on asyncio."""

import asyncio
import os
import sys
import time
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ojs_worker import AsyncJob, AsyncWorker, Discard, Job, Release, Retry, Worker


def threaded() -> Worker:
    worker = Worker(concurrency=2)

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

    return worker


def on_asyncio() -> AsyncWorker:
    worker = AsyncWorker(concurrency=2)

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

    return worker


if __name__ == "__main__":
    (on_asyncio() if "--async" in sys.argv else threaded()).run()
