"""Work that a shutdown may interrupt: a later attempt goes on where this one ended."""

from __future__ import annotations

import inspect
import time
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Optional,
    TypeVar,
    Union,
)

from ._json import copy_of
from ._resume import Loop, Resume

if TYPE_CHECKING:
    from ._base import Base

Row = TypeVar("Row")


class _Parts:
    """What both kinds of job have."""

    type: str
    _resume: Resume
    _core: "Base[Any]"

    def _leave_if_stopping(self, usual: float, step: str) -> None:
        raise NotImplementedError

    def _rows(self, rows: Any, loop: Loop) -> Any:
        if callable(rows) and not hasattr(rows, "__iter__") and not hasattr(rows, "__aiter__"):
            rows = rows(copy_of(loop.start))
            loop.rows_begin_behind()
        return rows

    def _note_step(self, name: str, began: float) -> None:
        self._core.note_step(self.type, name, time.monotonic() - began)


class Resumable(_Parts):
    """For the jobs of a :class:`Worker`."""

    def _save(self) -> None:
        raise NotImplementedError

    def iterate(
        self,
        rows: Union[Iterable[Row], Callable[[Any], Iterable[Row]]],
        *,
        key: Optional[Callable[[Row], Any]] = None,
    ) -> Iterator[Row]:
        """Give each row once over all attempts: a redelivered job begins behind the last row that was finished and saved.

        The position is the `key` of that row, a value that is JSON; without `key` its index. It is saved at most every 5 s,
        and always before the job is given back or fails. When the worker is being shut down and less time is left than a
        row usually takes, it is saved and the job released, at no cost of an attempt.

        Rows come in the same order in each attempt. `rows` may be a function: it gets the position, first None, and gives
        the rows behind it. There is one loop in each step, and one outside of steps. Raises :class:`StepsChanged` when the
        row at which an earlier attempt ended does not come.
        """
        loop = self._resume.loop(key)
        for row in self._rows(rows, loop):
            if loop.is_finished(row):
                continue
            self._leave_if_stopping(loop.usual, loop.step)
            position = loop.position_of(row)
            began = time.monotonic()
            yield row
            if loop.finish(position, time.monotonic() - began):
                self._save()
        loop.end()

    def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a part of the job once over all attempts: in a later one it is not called, and its result is the saved one.

        The end of a step is a checkpoint. Steps come in the same order in each attempt, one after the other, none within
        another. The result is JSON, and small. It is a function and no ``with`` block, since Python cannot skip the body of
        one. Raises :class:`StepsChanged` when an earlier attempt had other steps, or another order. After a step that has
        failed no other one begins, each raises the same error; the same step may be called again.
        """
        is_finished, result = self._resume.begin(name)
        if is_finished:
            return result
        try:
            self._leave_if_stopping(self._core.usual_step(self.type, name), name)
            began = time.monotonic()
            kept = self._resume.end(function(*args, **kwargs))
            self._note_step(name, began)
            self._save()
        except BaseException as error:
            self._resume.fail(name, error)
            raise
        finally:
            self._resume.give_up()
        return kept


class AsyncResumable(_Parts):
    """For the jobs of an :class:`AsyncWorker`."""

    async def _save(self) -> None:
        raise NotImplementedError

    async def iterate(
        self,
        rows: Union[
            Iterable[Row],
            AsyncIterable[Row],
            Callable[[Any], Union[Iterable[Row], AsyncIterable[Row]]],
        ],
        *,
        key: Optional[Callable[[Row], Any]] = None,
    ) -> AsyncIterator[Row]:
        """:meth:`Job.iterate`, for ``async for``."""
        loop = self._resume.loop(key)
        async for row in _each(self._rows(rows, loop)):
            if loop.is_finished(row):
                continue
            self._leave_if_stopping(loop.usual, loop.step)
            position = loop.position_of(row)
            began = time.monotonic()
            yield row
            if loop.finish(position, time.monotonic() - began):
                await self._save()
        loop.end()

    async def step(
        self, name: str, function: Callable[..., Union[Awaitable[Any], Any]], *args: Any, **kwargs: Any
    ) -> Any:
        """:meth:`Job.step`; the function may be a coroutine function."""
        is_finished, result = self._resume.begin(name)
        if is_finished:
            return result
        try:
            self._leave_if_stopping(self._core.usual_step(self.type, name), name)
            began = time.monotonic()
            made = function(*args, **kwargs)
            kept = self._resume.end(await made if inspect.isawaitable(made) else made)
            self._note_step(name, began)
            await self._save()
        except BaseException as error:
            self._resume.fail(name, error)
            raise
        finally:
            self._resume.give_up()
        return kept


async def _each(rows: Any) -> AsyncIterator[Any]:
    if hasattr(rows, "__aiter__"):
        async for row in rows:
            yield row
    else:
        for row in rows:
            yield row
