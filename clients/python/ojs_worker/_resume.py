"""Where a job that is done in parts goes on: its finished steps and the positions of its loops. No input or output."""

from __future__ import annotations

import collections
import dataclasses
import json
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple, TypeVar

from ._errors import CheckpointTooLarge, Discard, OjsError, StepsChanged
from ._json import clean, copy_of, dump

_E = TypeVar("_E", bound=Exception)

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


@dataclasses.dataclass(frozen=True)
class Mark:
    """Which steps and loops had begun at some moment."""

    begun: int
    loops: Set[str]
    step: str


class Resume:
    """What one job keeps. An earlier attempt's part is read from its checkpoint."""

    def __init__(self, checkpoint: Any) -> None:
        self.user: Any = checkpoint
        self.is_used = False
        self.is_dirty = False
        """Something is not saved yet."""
        self.step = ""
        self.ending: Optional[Exception] = None
        """What ended the handler at a row or step, and therefore ends the job, whatever the handler makes of it."""
        self._ended_in: Optional[str] = None
        self._failed: Optional[Tuple[str, BaseException]] = None
        self._finished: List[Tuple[str, Any]] = []
        self._cursors: Dict[str, Any] = {}
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

    def mark(self) -> Mark:
        """Where the handler is, for :meth:`rewind`."""
        return Mark(len(self._begun), set(self._loops), self.step)

    def rewind(self, mark: Mark) -> None:
        """A middleware calls the handler again: steps and loops from there on come once more, and what of them is finished is
        not done again."""
        del self._begun[mark.begun :]
        self._loops = set(mark.loops)
        self.step = mark.step
        self._failed = None

    def end_with(self, error: _E, step: str) -> _E:
        """The handler ends here, in this step, with this error."""
        if self.ending is None:
            self.ending = error
        self._ended_in = step
        return error

    def begin(self, name: str) -> Tuple[bool, Any]:
        """Begin a step: whether it is finished already, and with which result."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"a step's name is a string that is not empty, not {name!r}")
        if self.ending is not None:
            raise self.ending  # whoever caught it gets no mistake in place of it
        if self.step:
            raise ValueError(f"step {name!r} begins within step {self.step!r}: steps come one after the other")
        if self._failed is not None:
            self._begin_after(name, *self._failed)
        if name in self._begun:
            raise ValueError(f"there are two steps {name!r} in this job: each needs a name of its own")
        self._begun.append(name)
        self.is_used = True
        number = len(self._begun) - 1
        if number < len(self._finished):
            before, result = self._finished[number]
            if before != name:
                raise self._changed()
            return True, copy_of(result)
        self._refuse_to_leave_out(name)
        self.step = name
        return False, None

    def _begin_after(self, name: str, failed: str, error: BaseException) -> None:
        """After a step that failed only the same one may come: in the next attempt it would stand behind those that came later."""
        if name == failed:
            self._failed = None
            self._begun.pop()
        elif isinstance(error, Exception):
            raise error
        else:
            raise OjsError(f"step {failed!r} did not finish ({type(error).__name__}), so step {name!r} does not begin")

    def _refuse_to_leave_out(self, name: str) -> None:
        """A step that an earlier attempt had begun has to come next."""
        finished = {step for step, _ in self._finished}
        if any(step not in ("", name) and step not in finished for step in self._cursors):
            raise self._changed()

    def _changed(self) -> StepsChanged:
        finished = [step for step, _ in self._finished]
        begun = [step for step in self._cursors if step and step not in finished]
        was = ", ".join(finished + begun) + (" (not finished)" if begun else "")
        message = f"the steps of an earlier attempt are {was}; now they come as {', '.join(self._begun)}"
        return self.end_with(StepsChanged(clean(message, 1000)), "")

    def end(self, result: Any) -> Any:
        """The step is finished. Gives its result as a later attempt would get it."""
        if self.ending is not None and self._ended_in == self.step:
            # Its body caught what ended its loop. The other rows are not done.
            raise self.ending
        try:
            text = dump(result)
        except Exception as error:
            message = f"the handler's result is not JSON: of step {self.step!r}: {type(error).__name__}: {error}"
            raise Discard(clean(message, 1000), type="InvalidResult") from error
        self._finished.append((self.step, json.loads(text)))
        self._cursors.pop(self.step, None)
        self.is_dirty = True
        return json.loads(text)

    def fail(self, name: str, error: BaseException) -> None:
        """The step has not finished, or its result is not saved."""
        self._failed = (name, error)

    def give_up(self) -> None:
        """The step is over."""
        self.step = ""

    def loop(self, key: Optional[Callable[[Any], Any]]) -> "Loop":
        """Begin a loop over rows."""
        if self.ending is not None:
            raise self.ending
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


def may_call_again(resume: Resume, call: Callable[[], Any]) -> Callable[[], Any]:
    """`call_next` of a middleware, which may try again what has failed."""
    mark: Optional[Mark] = None

    def call_next() -> Any:
        nonlocal mark
        if mark is None:
            mark = resume.mark()
        else:
            resume.rewind(mark)
        return call()

    return call_next


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
        self.step = step
        """The step that it stands in."""
        self._key = key
        self._index = -1
        self._times: Deque[float] = collections.deque(maxlen=_ROWS_REMEMBERED)
        self.start = resume.position(step)
        """The position at which it goes on; None at the beginning."""
        if key is None and isinstance(self.start, float) and self.start.is_integer():
            self.start = int(self.start)  # a backend may spell an index 1.0
        self._skips = self.start is not None
        if key is None and self._skips and (isinstance(self.start, bool) or not isinstance(self.start, int)):
            self._has_changed(f"the rows were counted by a key before ({clean(self.start, 100)!r}), and now they are not")

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
        return self._resume.move(self.step, position)

    def end(self) -> None:
        """No more rows come."""
        if self._skips and self._key is not None:
            self._has_changed(f"the row at which an earlier attempt ended, {clean(self.start, 100)!r}, is not among the rows any more")

    def _has_changed(self, message: str) -> None:
        raise self._resume.end_with(StepsChanged(message), self.step)


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
