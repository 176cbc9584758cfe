"""The licence texts of all that is linked into the binary.

Usage: notices.py SBOM TARGET > NOTICES
SBOM is the CycloneDX list of the binary's crates. Cargo knows where their sources are.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

LICENCE = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)([-_. ].*)?", re.IGNORECASE)

HEADER = """\
ojs-init is distributed under the Apache License 2.0: see LICENSE, or copyright beside this file.
The binary contains the crates below, the standard library of Rust and the C library musl.
Each licence text stands once, behind the names of all crates that come with it.
"""

# Linked into every static binary, and no crates.
RUST = """\
Rust's standard library: MIT OR Apache-2.0, used under the Apache License 2.0. Copyright (c) The
Rust Project Contributors. Its unwinder is LLVM's: Apache-2.0 WITH LLVM-exception. Its tables of
characters are Unicode's: Unicode-3.0, see unicode-ident. It was built with these crates, used under
the Apache License 2.0 where they offer it:

addr2line (Apache-2.0 OR MIT)
adler2 (0BSD OR MIT OR Apache-2.0)
cfg_if (MIT OR Apache-2.0)
compiler_builtins (MIT AND Apache-2.0 WITH LLVM-exception AND (MIT OR Apache-2.0)), with musl's
    mathematics under the MIT license below
gimli (MIT OR Apache-2.0)
hashbrown (MIT OR Apache-2.0)
libc (MIT OR Apache-2.0)
memchr (Unlicense OR MIT), used under the Unlicense
miniz_oxide (MIT OR Zlib OR Apache-2.0)
object (Apache-2.0 OR MIT)
rustc_demangle (MIT OR Apache-2.0)
"""
MUSL = """\
musl is licensed under the following standard MIT license:

Copyright © 2005-2020 Rich Felker, et al.

Permission is hereby granted, free of charge, to any person obtaining
a copy of this software and associated documentation files (the
"Software"), to deal in the Software without restriction, including
without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to
permit persons to whom the Software is furnished to do so, subject to
the following conditions:

The above copyright notice and this permission notice shall be
included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND,
EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT.
IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY
CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT,
TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def listed(sbom: str) -> set[tuple[str, str]]:
    """Name and version of each crate of the binary."""
    components = json.loads(Path(sbom).read_text())["components"]
    return {(component["name"], component["version"]) for component in components}


def packages(target: str) -> list[dict]:
    """What cargo knows of the workspace and its dependencies."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["packages"]


def texts(package: dict) -> list[str]:
    """The texts that a crate comes with, those of code that it includes from others as well."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.rglob("*") if path.is_file() and LICENCE.fullmatch(path.name))
    return [path.read_text(encoding="utf-8", errors="replace").strip() + "\n" for path in files]


def main() -> None:
    """Writes the notices to standard output."""
    _, sbom, target = sys.argv
    crates = listed(sbom)
    by_text: dict[str, list[str]] = {}
    table = []
    for package in sorted(packages(target), key=lambda package: (package["name"], package["version"])):
        is_ours = package["source"] is None
        if is_ours or (package["name"], package["version"]) not in crates:
            continue
        name = f"{package['name']} {package['version']}"
        table.append(f"{name}: {package['license']}")
        found = texts(package)
        if not found:
            table[-1] += ", by " + (", ".join(package["authors"]) or "its contributors")
        for text in found:
            by_text.setdefault(text, []).append(name)
    line = "-" * 80 + "\n"
    parts = [HEADER, "\n".join(table) + "\n", RUST, MUSL]
    parts += [f"{', '.join(names)}:\n\n{text}" for text, names in by_text.items()]
    sys.stdout.write(("\n" + line + "\n").join(parts))


main()
