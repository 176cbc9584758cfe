"""What is packed."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Set

HERE = Path(__file__).resolve().parent.parent
MODULES = {f"ojs_worker/{path.name}" for path in (HERE / "ojs_worker").glob("*.py")} | {"ojs_worker/py.typed"}


def tests_among(names: Set[str]) -> Set[str]:
    return {name for name in names if "test" in name} - {"ojs_worker/testing.py"}


@unittest.skipUnless(importlib.util.find_spec("setuptools"), "there is no setuptools")
class Package(unittest.TestCase):
    def build(self, what: str) -> Path:
        place = tempfile.mkdtemp(prefix="ojs-package-")
        self.addCleanup(shutil.rmtree, place)
        copy = Path(place) / "python"
        shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "dist", "*.egg-info"))
        program = f"from setuptools import build_meta; build_meta.build_{what}('out')"
        done = subprocess.run([sys.executable, "-c", program], cwd=copy, capture_output=True, text=True)
        if "invalid command 'bdist_wheel'" in done.stderr:
            raise unittest.SkipTest("a setuptools of this age makes no wheel without the package `wheel`")
        self.assertEqual(done.returncode, 0, done.stderr)
        (made,) = (copy / "out").iterdir()
        return made

    def test_the_sources_have_their_licence_and_no_half_of_the_tests(self) -> None:
        with tarfile.open(self.build("sdist")) as packed:
            names = {os.path.relpath(name, packed.getnames()[0]) for name in packed.getnames()}
        self.assertLessEqual(MODULES | {"LICENSE", "README.md", "pyproject.toml"}, names)
        self.assertEqual(tests_among(names), set())

    def test_the_wheel_has_its_licence_and_names_it(self) -> None:
        with zipfile.ZipFile(self.build("wheel")) as packed:
            names = set(packed.namelist())
            metadata = packed.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        self.assertLessEqual(MODULES, names)
        self.assertTrue(any(name.endswith("LICENSE") for name in names), names)
        self.assertEqual(tests_among(names), set())
        self.assertIn("\nLicense: Apache-2.0", metadata)


if __name__ == "__main__":
    unittest.main()
