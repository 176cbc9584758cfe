"""The code of the README, as it stands there."""

import contextlib
import dataclasses
import re
import sys
import types
import unittest
from pathlib import Path
from typing import Any, Dict, Iterator
from unittest import mock

from .fake import CLIENT
from ojs_worker import Client, Depends, Job


class Mailer:
    def send(self, to: str, body: str) -> str:
        return "17"


class Readme(unittest.TestCase):
    def test_its_code_runs(self) -> None:
        connected = []

        @contextlib.contextmanager
        def connect() -> Iterator[str]:
            connected.append("open")
            yield "connection"
            connected.append("closed")

        self.addCleanup(sys.modules.pop, "worker", None)
        saved: list = []  # type: ignore[type-arg]
        names: Dict[str, Any] = {
            "__name__": "worker", "mailer": Mailer(), "dataclass": dataclasses.dataclass, "Iterator": Iterator,
            "Database": str, "connect": connect, "Job": Job, "Depends": Depends, "save": saved.append,
            "download": lambda url: f"file of {url}", "rows_of": lambda file: [{"id": file}],
        }  # fmt: skip
        blocks = re.findall(r"^```python\n(.*?)^```$", (CLIENT / "README.md").read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 5)
        with mock.patch.object(Client, "_request", return_value=(201, {"job": {"id": "new"}}, 0.0)) as request:
            for block in blocks:
                exec(compile(block, "README.md", "exec"), names)
                sys.modules["worker"] = types.SimpleNamespace(**names)  # type: ignore[assignment]
        request.assert_called_once()
        worker = names["worker"]
        self.assertEqual(worker.perform("order.ship", [1, [{"sku": "x"}]]).result, {"sku": "x", "count": 1})
        self.assertEqual(connected, ["open", "closed"])
        self.assertEqual(worker.perform("import", ["u"]).outcome, "ack")
        self.assertEqual(saved, [{"id": "file of u"}])

    def test_it_is_short(self) -> None:
        self.assertLess(len((CLIENT / "README.md").read_text().splitlines()), 120)

    def test_the_files_are_short(self) -> None:
        for path in CLIENT.glob("ojs_worker/**/*.py"):
            self.assertLess(len(path.read_text().splitlines()), 500, path)

    def test_modules_import_each_other_in_one_order(self) -> None:
        """No import cycle, those for types alone included."""
        imports: Dict[str, Any] = {}
        for path in Path(CLIENT / "ojs_worker").glob("_*.py"):
            imports[path.stem] = set(re.findall(r"^\s*from \.(_\w+) import", path.read_text(), re.M))
        while imports:
            free = [name for name, used in imports.items() if not used & imports.keys()]
            self.assertTrue(free, f"a cycle among {sorted(imports)}")
            for name in free:
                del imports[name]


if __name__ == "__main__":
    unittest.main()
