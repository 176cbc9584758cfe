"""How the demo looks: one line for each thing that happened, and a bar for each job."""

import heapq
import math
import os
import shutil
import sys
import threading
import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

# Who says something: name and colour. Of what happened in the same millisecond, the first of these comes first.
WHO: Dict[str, Tuple[str, str]] = {
    "you": ("you", "1;33"),
    "backend": ("backend", "32"),
    "init": ("ojs-init", "1;36"),
    "worker": ("worker", "35"),
}

# Colours of how a job can end.
ENDS = {"acked": "32", "failed": "31", "waiting": "90"}

# How late news may be, in seconds.
LATE_BY = 0.25

# Columns of the bars, and of what may stand behind them.
WIDTH, BEHIND = 64, 18

# Seconds between two figures on the axis.
AXIS = 2


class Timeline:
    """Prints what happens, in the order in which it happened: news from different sides take different times to us."""

    def __init__(self) -> None:
        self.began = time.time()
        self._lock = threading.Lock()
        self._waiting: List[Tuple[float, int, int, str]] = []
        self._count = 0
        self._has_colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        threading.Thread(target=self._print, daemon=True).start()

    def now(self) -> float:
        return time.time() - self.began

    def paint(self, text: str, colour: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._has_colours else text

    def say(self, who: str, text: str, at: Optional[float] = None) -> None:
        name, colour = WHO[who]
        # Whole milliseconds, as the others have them.
        at = self.began + self.now() if at is None else at
        seconds = max(math.floor(at * 1000) / 1000 - self.began, 0.0)
        line = f"{seconds:6.2f} s  {self.paint(f'{name:<9}', colour)} {text}"
        with self._lock:
            self._count += 1
            heapq.heappush(self._waiting, (seconds, list(WHO).index(who), self._count, line))

    def heading(self, text: str) -> None:
        self.flush()
        print(f"\n{self.paint(text, '1')}", flush=True)

    def flush(self) -> None:
        """Prints what waits, up to now."""
        self._print_before(float("inf"))

    def _print(self) -> None:
        while True:
            time.sleep(0.05)
            self._print_before(self.now() - LATE_BY)

    def _print_before(self, seconds: float) -> None:
        with self._lock:
            while self._waiting and self._waiting[0][0] <= seconds:
                print(heapq.heappop(self._waiting)[-1], flush=True)


class Bar:
    """A job: its name, when it was claimed and when that ended, in seconds since the start; how it ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.claimed: Optional[float] = None
        self.ended: Optional[float] = None
        self.end = "waiting"
        self.text = "not claimed"


def chart(timeline: Timeline, bars: Sequence[Bar], marks: List[Tuple[float, str]], end: float) -> None:
    """A line for each job, on the same scale, with what was asked above and the seconds below."""
    label = max(len(bar.name) for bar in bars)
    width = max(20, min(WIDTH, shutil.get_terminal_size((120, 24)).columns - label - BEHIND - 5))

    def column(at: float) -> int:
        return min(int(at / end * width), width - 1)

    def row(name: str, text: str, colour: str, behind: str = "") -> None:
        print(f"  {name:<{label}}  {timeline.paint(text, colour)}  {behind}".rstrip())

    for text in layers(marks, column, width):
        row("", text, "1;33")
    ruler = ["."] * width
    for at, _ in marks:
        ruler[column(at)] = "|"
    row("", "".join(ruler), "90")
    for bar in bars:
        cells = [" "] * width
        if bar.claimed is not None:
            until = bar.ended if bar.ended is not None else end
            for index in range(column(bar.claimed), column(until) + 1):
                cells[index] = "\u2588"
        row(bar.name, "".join(cells), ENDS[bar.end], bar.text)
    figures = [(float(second), f"{second} s") for second in range(0, int(end), AXIS)]
    for text in layers(figures, column, width):
        row("", text, "90")


def layers(marks: List[Tuple[float, str]], column: Callable[[float], int], width: int) -> List[str]:
    """The marks' names, on as many lines as they need so that none covers another."""
    lines: List[List[str]] = []
    for at, name in sorted(marks):
        start = min(column(at), width - len(name))
        for line in lines:
            if all(cell == " " for cell in line[max(start - 1, 0) : start + len(name) + 1]):
                break
        else:
            line = [" "] * width
            lines.append(line)
        line[start : start + len(name)] = name
    return ["".join(line) for line in reversed(lines)]
