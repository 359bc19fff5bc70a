"""Two directions of one session, served side by side by a coroutine each.

Each waits for bytes again and again, thousands of times a second.  What drives it goes on with it
at once where they come, which a Deferred with its callbacks takes twenty times as long for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextvars import copy_context
from types import CoroutineType
from typing import Any

from attrs import define, field
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    FirstError,
    gatherResults,
)
from twisted.python.failure import Failure


class BytesAwaited(Deferred[None]):
    """What a direction waits for; whoever else awaits it finds a Deferred.

    Attributes:
        go_on: Continues the direction that waits, where one does.
    """

    go_on: Callable[[], object] | None = None

    def __await__(self) -> Iterator[Any]:  # type: ignore[override]
        return iter((self,))

    def come(self) -> None:
        """They are there, or none will be."""
        go_on, self.go_on = self.go_on, None
        if go_on is not None:
            go_on()
        else:
            self.callback(None)


async def until_both(*directions: Awaitable[None]) -> None:
    """Until both have returned; what one raises cancels the other."""
    await _first_error(gatherResults, directions)


async def until_either(*directions: Awaitable[None]) -> None:
    """Until one has returned, or raised; the other is cancelled."""
    await _first_error(_first, directions)


async def _first_error(joined: Any, directions: Iterable[Awaitable[None]]) -> None:
    serving = [served(each) for each in directions]
    try:
        await joined(serving, consumeErrors=True)
    except FirstError as first:
        first.subFailure.raiseException()
    finally:
        for one in serving:
            one.addErrback(lambda _: None)
            one.cancel()


def _first(serving: list[Deferred[None]], consumeErrors: bool) -> Deferred[Any]:
    return DeferredList(
        serving, fireOnOneCallback=True, fireOnOneErrback=True, consumeErrors=consumeErrors
    )


def served(direction: Awaitable[None]) -> Deferred[None]:
    """Serve one direction from now on; fires when it has returned, or with what it raised."""
    serving = _Serving(direction if isinstance(direction, CoroutineType) else _awaited(direction))
    serving.step(None)
    return serving.done


async def _awaited(direction: Awaitable[None]) -> None:
    await direction


@define(eq=False)
class _Serving:
    """Drives one coroutine, as ``Deferred.fromCoroutine`` would."""

    _coroutine: Coroutine[Any, Any, None]
    done: Deferred[None] = field(init=False)
    _context: Any = field(factory=copy_context, init=False)
    _waits_for: Deferred[Any] | None = field(default=None, init=False)
    _is_cancelled: bool = field(default=False, init=False)

    @done.default
    def _cancellable(self) -> Deferred[None]:
        return Deferred(lambda _: self._cancel())

    def step(self, outcome: object) -> None:
        """Go on with what was waited for, until there is something to wait for again."""
        self._waits_for = None
        while True:
            try:
                if isinstance(outcome, Failure):
                    throw = outcome.throwExceptionIntoGenerator
                    waited: Any = self._context.run(throw, self._coroutine)
                else:
                    waited = self._context.run(self._coroutine.send, outcome)
            except StopIteration:
                if not self.done.called:  # else it was cancelled, and went on for a while
                    self.done.callback(None)
                return
            except BaseException:
                if not self.done.called:
                    self.done.errback(Failure())
                return
            if self._is_cancelled:
                self._is_cancelled, outcome = False, Failure(CancelledError())
            elif type(waited) is BytesAwaited and not waited.called:
                self._waits_for, waited.go_on = waited, self._come
                return
            else:
                self._waits_for = waited
                waited.addBoth(self.step)
                return

    def _come(self) -> None:
        self.step(None)

    def _cancel(self) -> None:
        waited = self._waits_for
        if waited is None:
            self._is_cancelled = True  # it runs now, and has led here itself
        elif type(waited) is BytesAwaited and waited.go_on is not None:
            waited.go_on = None
            self.step(Failure(CancelledError()))
        else:
            waited.cancel()
