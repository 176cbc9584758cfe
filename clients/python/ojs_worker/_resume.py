"""Where a job that is done in parts goes on: its finished steps and the positions of its loops. No input or output."""

from __future__ import annotations

import collections
import json
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from ._errors import CheckpointTooLarge, Discard, StepsChanged
from ._json import clean, dump

VERSION = 1
MAX_BYTES = 64 * 1024
"""Most bytes of JSON that a resumable job keeps."""
SAVE_EVERY = 5.0
"""Seconds between two savings of a position, at least."""
LEAST_NOTICE = 0.25
"""Seconds before the end of a shutdown in which nothing new is begun, at least."""
USUAL_TIMES = 1.5
"""So many times what a row or step took is kept free for the next one."""
RESUMES = "resumes at its checkpoint"
_ROWS_REMEMBERED = 10


class Resume:
    """What one job keeps. An earlier attempt's part is read from its checkpoint."""

    def __init__(self, checkpoint: Any) -> None:
        self.user: Any = checkpoint
        self.is_used = False
        self.is_dirty = False
        """Something is not saved yet."""
        self.step = ""
        self._finished: List[Tuple[str, Any]] = []
        self._cursors: Dict[str, Any] = {}
        self._replayed = 0
        self._begun: List[str] = []
        self._loops: Set[str] = set()
        self._saved_at = time.monotonic()
        if _is_saved_form(checkpoint):
            self.is_used = True
            self.user = checkpoint.get("state")
            self._finished = [(name, result) for name, result in checkpoint["steps"]]
            self._cursors = dict(checkpoint["cursors"])

    def saved_form(self) -> str:
        """The checkpoint, as JSON."""
        form = {
            "ojs_resume": VERSION,
            "steps": [[name, result] for name, result in self._finished],
            "cursors": self._cursors,
            "state": self.user,
        }
        text = dump(form)
        size = len(text.encode("utf-8"))
        if size > MAX_BYTES:
            raise CheckpointTooLarge(
                f"the job's steps, positions and state have {size} bytes of JSON, at most {MAX_BYTES} are kept: "
                "let steps return ids or paths, not contents"
            )
        self.is_dirty = False
        self._saved_at = time.monotonic()
        return text

    def begin(self, name: str) -> Tuple[bool, Any]:
        """Begin a step: whether it is finished already, and with which result."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"a step's name is a string that is not empty, not {name!r}")
        if self.step:
            raise ValueError(f"step {name!r} begins within step {self.step!r}: steps come one after the other")
        if name in self._begun:
            raise ValueError(f"there are two steps {name!r} in this job: each needs a name of its own")
        self._begun.append(name)
        self.is_used = True
        if self._replayed < len(self._finished):
            before, result = self._finished[self._replayed]
            if before != name:
                was = ", ".join(finished for finished, _ in self._finished)
                now = ", ".join(self._begun)
                raise StepsChanged(f"the steps that were finished before are {was}; now they come as {now}")
            self._replayed += 1
            return True, result
        self.step = name
        return False, None

    def end(self, result: Any) -> Any:
        """The step is finished. Gives its result as a later attempt would get it."""
        try:
            kept = json.loads(dump(result))
        except Exception as error:
            message = f"the handler's result is not JSON: of step {self.step!r}: {type(error).__name__}: {error}"
            raise Discard(clean(message, 1000), type="InvalidResult") from error
        self._finished.append((self.step, kept))
        self._replayed = len(self._finished)
        self._cursors.pop(self.step, None)
        self.is_dirty = True
        self.step = ""
        return kept

    def give_up(self) -> None:
        """The step that was begun ends without a result."""
        self.step = ""

    def loop(self, key: Optional[Callable[[Any], Any]]) -> "Loop":
        """Begin a loop over rows."""
        if self.step in self._loops:
            place = f"in step {self.step!r}" if self.step else "outside of a step"
            raise ValueError(f"there are two loops of job.iterate {place}: put each into a step of its own")
        self._loops.add(self.step)
        self.is_used = True
        return Loop(self, self.step, key)

    def position(self, step: str) -> Any:
        """The position of the last finished row; None if there is none."""
        return self._cursors.get(step)

    def move(self, step: str, position: Any) -> bool:
        """A row is finished; whether it is time to save that."""
        self._cursors[step] = position
        self.is_dirty = True
        return time.monotonic() >= self._saved_at + SAVE_EVERY


def _is_saved_form(checkpoint: Any) -> bool:
    """Whether it is what :meth:`Resume.saved_form` makes. Anything else is the program's own."""
    if not isinstance(checkpoint, dict) or checkpoint.get("ojs_resume") != VERSION:
        return False
    steps, cursors = checkpoint.get("steps"), checkpoint.get("cursors")
    return (
        isinstance(cursors, dict)
        and isinstance(steps, list)
        and all(isinstance(step, list) and len(step) == 2 and isinstance(step[0], str) for step in steps)
    )


class Loop:
    """One loop over rows."""

    def __init__(self, resume: Resume, step: str, key: Optional[Callable[[Any], Any]]) -> None:
        self._resume = resume
        self._step = step
        self._key = key
        self._index = -1
        self._times: Deque[float] = collections.deque(maxlen=_ROWS_REMEMBERED)
        self.start = resume.position(step)
        """The position at which it goes on; None at the beginning."""
        if key is None and isinstance(self.start, float) and self.start.is_integer():
            self.start = int(self.start)  # a backend may spell an index 1.0
        self._skips = self.start is not None
        if key is None and self._skips and (isinstance(self.start, bool) or not isinstance(self.start, int)):
            raise StepsChanged(f"the rows were counted by a key before ({clean(self.start, 100)!r}), and now they are not")

    @property
    def usual(self) -> float:
        """The longest of the last rows, in seconds."""
        return max(self._times, default=0.0)

    def rows_begin_behind(self) -> None:
        """The rows were asked for from `start` on: none is skipped."""
        if self._key is None and self._skips:
            self._index = self.start
        self._skips = False

    def is_finished(self, row: Any) -> bool:
        """Whether an earlier attempt has done this row."""
        if not self._skips:
            return False
        if self._key is None:
            self._index += 1
            self._skips = self._index < self.start
        else:
            self._skips = not _is_same(_plain(self._key(row)), self.start)
        return True

    def position_of(self, row: Any) -> Any:
        """Where the next row is. Asked for before the row is given away: who gets it may change it."""
        self._index += 1
        return self._index if self._key is None else _plain(self._key(row))

    def finish(self, position: Any, seconds: float) -> bool:
        """The row there is done; whether it is time to save that."""
        self._times.append(seconds)
        return self._resume.move(self._step, position)

    def end(self) -> None:
        """No more rows come."""
        if self._skips and self._key is not None:
            raise StepsChanged(
                f"the row at which an earlier attempt ended, {clean(self.start, 100)!r}, is not among the rows any more"
            )


def _plain(position: Any) -> Any:
    """A position as it is read back from a checkpoint."""
    if position is None:
        raise TypeError("the key of a row is None: it cannot be told from no position")
    return position if type(position) in (str, int) else json.loads(dump(position))


def _is_same(one: Any, other: Any) -> bool:
    """Whether two positions are one value of JSON: 10, 10.0 and 1e1 are the same, 1 and true, which Python takes for equal, are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    return bool(one == other)
