"""Lays the repository's pages out for mdBook, which builds the site from them.

docs/README.md is the only list of pages: its headings are the parts of the book, and its links are
the chapters. If a chapter links to a page, a file or a folder that docs/README.md does not list,
that target becomes a chapter below it. The text of a page stays unchanged. Only links to a
README.md, a file or a folder change to the name in the book.

    python3 scripts/site/stage.py FOLDER
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, List, Set, Tuple

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
FRONT = ROOT / "README.md"
INDEX = ROOT / "docs/README.md"

# mdBook copies these beside the pages. Any other linked file becomes a page.
PICTURES = {".svg"}

# The path in a link, without its heading: `](../docs/exec.md#limits)`.
LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[#)])")
# A fenced block, whose text is no link.
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)

Chapter = Tuple[int, Path]


def targets(folder: Path, text: str) -> List[Path]:
    """The files and folders of the repository that a text links to."""
    prose = "".join(FENCE.split(text)[::2])
    found = [Path(os.path.normpath(folder / path)) for path in LINK.findall(prose)]
    return [path for path in found if path.exists()]


def book_name(target: Path) -> str:
    """The name of a page, file or folder in the book."""
    name = str(target.relative_to(ROOT))
    if target.name == "README.md":
        return name[: -len("README.md")] + "index.md"
    return name if target.suffix in PICTURES | {".md"} else f"{name}.md"


def parts() -> List[Tuple[str, List[Chapter]]]:
    """The headings of docs/README.md with their links. Those of a first column are above others."""
    found: List[Tuple[str, List[Chapter]]] = []
    for line in INDEX.read_text().splitlines():
        if line.startswith("## "):
            found.append((line[3:], []))
        for depth, cell in enumerate(line.split("|")[1:-1]):
            below = targets(INDEX.parent, cell)
            found[-1][1].extend((min(depth, 1), target) for target in below)
    return found


def with_below(chapter: Chapter, known: Set[Path]) -> Iterator[Chapter]:
    """A chapter, and the chapters that only its links make known."""
    yield chapter
    depth, page = chapter
    if page.suffix == ".md":
        for target in targets(page.parent, page.read_text()):
            is_free = target not in known and target.suffix not in PICTURES
            if is_free and not is_of_another(page, target):
                known.add(target)
                yield from with_below((depth + 1, target), known)


def is_of_another(page: Path, target: Path) -> bool:
    """Whether the target belongs below the README.md of its folder, as a decision does."""
    index = target.parent / "README.md"
    if index in {page, FRONT, INDEX} or not index.exists():
        return False
    return target in targets(index.parent, index.read_text())


def title(target: Path) -> str:
    if target.suffix != ".md":
        return target.name if target.is_file() else str(target.relative_to(ROOT))
    return target.read_text().split("\n", 1)[0].lstrip("# ").replace("`", "")


def page_text(target: Path) -> str:
    """The page of a chapter."""
    if target.suffix == ".md":

        def in_book(link: "re.Match[str]") -> str:
            path = Path(os.path.normpath(target.parent / link.group()))
            if not path.exists():
                return link.group()
            return os.path.relpath(book_name(path), target.parent.relative_to(ROOT))

        pieces = FENCE.split(target.read_text())
        pieces[::2] = [LINK.sub(in_book, prose) for prose in pieces[::2]]
        return "".join(pieces)
    # Only the files that the repository has: a folder may hold what a build left there.
    listed = subprocess.check_output(["git", "ls-files", "--", target], cwd=ROOT, text=True)
    text = f"# {target.relative_to(ROOT)}\n"
    for name in listed.splitlines():
        file = ROOT / name
        heading = "" if file == target else f"\n## {file.relative_to(target)}\n"
        language = file.suffix[1:] or file.name.lower()
        text += f"{heading}\n~~~~~~{language}\n{file.read_text()}~~~~~~\n"
    return text


def main() -> None:
    book = Path(sys.argv[1])
    pages = book / "src"
    shutil.rmtree(book, ignore_errors=True)
    pages.mkdir(parents=True)
    for name in ("book.toml", "site.css", "site.js"):
        shutil.copy(HERE / name, book)
    listed = parts()
    known = {FRONT, INDEX, *(target for _, chapters in listed for _, target in chapters)}
    summary = [f"[{title(page)}]({book_name(page)})" for page in (FRONT, INDEX)]
    chapters: List[Chapter] = [(0, FRONT), (0, INDEX)]
    for heading, upper in listed:
        summary.append(f"\n# {heading}\n")
        for chapter in (below for one in upper for below in with_below(one, known)):
            chapters.append(chapter)
            depth, target = chapter
            summary.append(f"{'    ' * depth}- [{title(target)}]({book_name(target)})")
    (pages / "SUMMARY.md").write_text("\n".join(summary) + "\n")
    for _, target in chapters:
        (pages / book_name(target)).parent.mkdir(parents=True, exist_ok=True)
        (pages / book_name(target)).write_text(page_text(target))
    (pages / "docs/pictures").mkdir()
    for picture in (ROOT / "docs/pictures").glob("*.svg"):
        shutil.copy(picture, pages / "docs/pictures")


if __name__ == "__main__":
    main()
