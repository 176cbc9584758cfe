"""A table of a page, as Markdown has it."""

from typing import List


def table(head: List[str], rows: List[List[str]]) -> List[str]:
    cells = lambda row: "| " + " | ".join(row) + " |"  # noqa: E731
    return [cells(head), "|" + "---|" * len(head), *(cells(row) for row in rows)]
