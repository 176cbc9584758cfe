"""pydantic models as arguments and results, and FastAPI's own Depends."""

import unittest
from typing import Annotated, Any, Dict, Iterator, List

import fastapi
import pydantic

from ojs_worker import Job, Worker


class Item(pydantic.BaseModel):
    sku: str
    count: int = pydantic.Field(1, gt=0)


def database() -> Iterator[str]:
    yield "database"


class Models(unittest.TestCase):
    def test_in_and_out(self) -> None:
        worker = Worker()

        @worker.job("t")
        def t(item: Item, more: List[Item]) -> Dict[str, Any]:
            return {"first": item, "sum": sum(each.count for each in more)}

        outcome = worker.perform("t", [{"sku": "a"}, [{"sku": "b", "count": 2}]])
        self.assertEqual(outcome.result, {"first": {"sku": "a", "count": 1}, "sum": 2})
        outcome = worker.perform("t", [{"sku": 7, "count": 0}, []])
        message = (outcome.error or {})["message"]
        self.assertIn("args[0] (item).sku: Input should be a valid string", message)
        self.assertIn("args[0] (item).count: Input should be greater than 0", message)
        self.assertEqual((outcome.error or {})["code"], "invalid_args")

    def test_depends(self) -> None:
        worker = Worker()

        @worker.job("t")
        def t(job: Job, db: Annotated[str, fastapi.Depends(database)], other: str = fastapi.Depends(database)) -> List[str]:
            return [db, other]

        self.assertEqual(worker.perform("t").result, ["database", "database"])
