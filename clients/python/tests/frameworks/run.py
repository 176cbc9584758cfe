"""Tries the library with real frameworks, which it installs from PyPI into $CLIENT_OUT/packages first, and mypy --strict."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIENT = HERE.parent.parent
PACKAGES = ("django>=4.2,<7", "fastapi", "mypy", "opentelemetry-sdk")


def main() -> int:
    out = Path(os.environ.get("CLIENT_OUT") or tempfile.gettempdir()) / f"packages-{sys.version_info[0]}.{sys.version_info[1]}"
    done = out / "installed"
    if not done.exists() or done.read_text() != repr(PACKAGES):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action", "ignore"]
        subprocess.run([*pip, "--upgrade", "--target", str(out), *PACKAGES], check=True, stderr=subprocess.DEVNULL)
        done.write_text(repr(PACKAGES))
    env = {**os.environ, "PYTHONPATH": f"{out}{os.pathsep}{CLIENT}", "PYTHONDONTWRITEBYTECODE": "1"}
    tests = [sys.executable, "-m", "unittest", "discover", "-s", str(HERE), "-t", str(HERE)]
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(out / "mypy-cache")]
    files = [str(path) for path in sorted((CLIENT / "ojs_worker").glob("*.py"))]
    samples = [str(CLIENT / "examples" / "worker.py"), str(HERE / "typed_worker.py")]
    commands = (tests, [*mypy, *files], [*mypy, *samples])
    return max(subprocess.run(command, cwd=CLIENT, env=env).returncode for command in commands)


if __name__ == "__main__":
    sys.exit(main())
