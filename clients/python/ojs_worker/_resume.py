"""Resumable work: the finished steps of a job and the positions of its loops. No input or output.
"""

from __future__ import annotations

import collections
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from ._basics import CheckpointTooLarge, Default, StepsChanged, copy_of, dump, shown

VERSION = 1
MAX_BYTES = 64 * 1024
SAVE_EVERY = 5.0
"""The least time between two saved positions of a loop, in seconds."""
LEAST_NOTICE = 0.25
"""In a shutdown no row or step begins when less time is left, in seconds."""
USUAL_TIMES = 1.5
"""The safety factor on the time that a row or step usually takes."""
RESUMES = "resumes at its checkpoint"
ROWS_REMEMBERED = 10


class Resume:
    """The checkpoint of one job. An earlier attempt's part is read from the checkpoint that came
    with the job."""

    def __init__(self, checkpoint: Any, default: Default) -> None:
        self.state: Any = checkpoint
        """What the handler saved itself."""
        self.step = ""
        """The step that runs now."""
        self._default = default
        self._is_used = self.has_unsaved = False
        self._finished: List[Tuple[str, Any]] = []
        self._cursors: Dict[str, Any] = {}
        self._begun: List[str] = []
        self._loops: Set[str] = set()
        self._saved_at = time.monotonic()
        if _is_saved_form(checkpoint):
            self._is_used = True
            self.state = checkpoint.get("state")
            self._finished = [(name, result) for name, result in checkpoint["steps"]]
            self._cursors = dict(checkpoint["cursors"])

    def to_save(self) -> Any:
        """The checkpoint, as JSON has it."""
        if not self._is_used:
            return self.state
        form = {"ojs_resume": VERSION, "steps": self._finished, "cursors": self._cursors, "state": self.state}
        size = len(dump(form).encode("utf-8"))
        if size > MAX_BYTES:
            sizes = f"the job's steps, positions and state are {size} bytes of JSON, and at most {MAX_BYTES} are kept"
            raise CheckpointTooLarge(f"{sizes}: let steps return ids or paths, not contents")
        self.has_unsaved = False
        self._saved_at = time.monotonic()
        return form

    def save_state(self, state: Any) -> Any:
        """The checkpoint with another state of the handler's own."""
        self.state = copy_of(state, self._default)
        return self.to_save()

    def begin(self, name: str) -> Tuple[bool, Any]:
        """Begin a step. Returns whether an earlier attempt has finished it, and with which result.
        """
        if not isinstance(name, str) or not name:
            raise TypeError(f"the name of a step is a string that is not empty, not {name!r}")
        if self.step:
            raise ValueError(f"step {name!r} begins within step {self.step!r}: steps come one after the other")
        if name in self._begun:
            raise ValueError(f"there are two steps {name!r} in this job: each needs a name of its own")
        self._begun.append(name)
        self._is_used = True
        at = len(self._begun) - 1
        if at < len(self._finished):
            before, result = self._finished[at]
            if before != name:
                raise self._changed()
            return True, copy_of(result)
        finished = {step for step, _ in self._finished}
        if any(step not in ("", name) and step not in finished for step in self._cursors):
            raise self._changed()  # A step that an earlier attempt had begun has to come next.
        self.step = name
        return False, None

    def finish(self, result: Any) -> Any:
        """End the step. Returns its result as a later attempt would get it."""
        try:
            kept = copy_of(result, self._default)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"the result of step {self.step!r} is not JSON: {error}") from error
        self._finished.append((self.step, kept))
        self._cursors.pop(self.step, None)
        self.has_unsaved = True
        return copy_of(kept)

    def _changed(self) -> StepsChanged:
        finished = [step for step, _ in self._finished]
        before = finished + [f"{step} (not finished)" for step in self._cursors if step and step not in finished]
        text = f"the steps of an earlier attempt are {', '.join(before)}; now they come as {', '.join(self._begun)}"
        return StepsChanged(shown(text, 1000))

    def loop(self, key: Optional[Callable[[Any], Any]], leave_if_near: Callable[[float], None]) -> Loop:
        """Begin a loop over rows."""
        if self.step in self._loops:
            raise ValueError("there are two loops of job.iterate in one place: put each into a step of its own")
        self._loops.add(self.step)
        self._is_used = True
        return Loop(self, self.step, self._cursors.get(self.step), key, leave_if_near)

    def move(self, step: str, position: Any) -> bool:
        """Note the position of a loop. Returns whether it is time to save it."""
        self._cursors[step] = position
        self.has_unsaved = True
        return time.monotonic() >= self._saved_at + SAVE_EVERY


def _is_saved_form(saved: Any) -> bool:
    if not isinstance(saved, dict) or saved.get("ojs_resume") != VERSION or not isinstance(saved.get("cursors"), dict):
        return False
    return isinstance(saved.get("steps"), list) and all(isinstance(each, list) and len(each) == 2 for each in saved["steps"])


class Loop:
    """One loop over rows. The position of a row is its key, or its index. `leave_if_near` gets the
    seconds that a row may take."""

    def __init__(self, resume: Resume, step: str, start: Any, key: Any, leave_if_near: Callable[[float], None]) -> None:
        self._resume, self._step, self._key, self._leave_if_near = resume, step, key, leave_if_near
        self._index = -1
        self._position: Any = None
        self._began = 0.0
        self._times: Deque[float] = collections.deque(maxlen=ROWS_REMEMBERED)
        # A backend may spell an index 1.0.
        self._start = int(start) if key is None and isinstance(start, float) and start.is_integer() else start
        """The position behind which the loop goes on; None at the beginning."""
        self._skips = start is not None
        if key is None and self._skips and type(self._start) is not int:
            raise StepsChanged("the rows had keys in an earlier attempt, and now they are counted")

    def open(self, rows: Any) -> Any:
        """The rows; a function is called with the position, and gives those behind it."""
        if not callable(rows) or hasattr(rows, "__iter__") or hasattr(rows, "__aiter__"):
            return rows
        self._index, self._skips = self._start if self._key is None and self._skips else -1, False
        return rows(copy_of(self._start))

    def begin(self, row: Any) -> bool:
        """Begin the next row. Returns False if an earlier attempt has done it."""
        self._index += 1
        position = self._position = self._index if self._key is None else copy_of(self._key(row))
        if position is None:
            raise TypeError("the key of a row is None, which means no position")
        if self._skips:
            # 10 and 10.0 are one JSON value; 1 and true, which Python takes for equal, are not.
            self._skips = position != self._start or isinstance(position, bool) != isinstance(self._start, bool)
            return False
        self._leave_if_near(max(self._times, default=0.0))
        self._began = time.monotonic()
        return True

    def finish(self) -> bool:
        """The row is done. Returns whether it is time to save that."""
        self._times.append(time.monotonic() - self._began)
        return self._resume.move(self._step, self._position)

    def end(self) -> None:
        """No more rows come."""
        if self._skips and self._key is not None:
            raise StepsChanged("the row that an earlier attempt finished last does not come any more")
