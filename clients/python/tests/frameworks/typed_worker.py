"""A worker that `mypy --strict` checks. Each ignored error has to be one."""

from dataclasses import dataclass
from typing import Iterator, List, Optional

from ojs_worker import AsyncJob, AsyncWorker, Client, Depends, Job, Worker

worker = Worker(json_default=str, client=Client("http://127.0.0.1:8080", tries=1))
tasks = AsyncWorker()


@dataclass
class Item:
    sku: str


def database() -> Iterator[str]:
    yield "database"


@worker.job("send", queue="mail")
def send(to: str, body: str = "hi", *, db: str = Depends(database)) -> Item:
    return Item(to)


@worker.job("ship")
def ship(job: Job, order: int, items: Optional[List[Item]] = None) -> None:
    job.progress(0.5)
    for row in job.iterate([1, 2], key=str):
        job.sleep(row)


@tasks.job("load")
async def load(job: AsyncJob, url: str) -> int:
    await job.progress(0.5)
    return sum([row async for row in job.iterate(range(3))])


@worker.on_failed
def failed(job: Job, error: Exception) -> None:
    print(job.is_last_attempt, error)


async def enqueue() -> str:
    ship.enqueue(1, items=[])
    send.options(delay=60).enqueue("a", body="b")
    ship.enqueue("a")  # type: ignore[arg-type]
    send.enqueue()  # type: ignore[call-arg]
    load.enqueue(url=7)  # type: ignore[arg-type]
    return await load.enqueue_async("u")


item: Item = send("a")
