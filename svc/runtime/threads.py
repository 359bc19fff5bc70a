"""Calls that block, away from the reactor's thread: in its pool, or in a separate thread.

The pool of the reactor is everybody's, and a process does not end before the threads in it: one
file on a network that does not answer would take all of them in turn, and hold the stop.  Nobody
else waits behind a call that hangs in a :class:`SerialThread`, and neither does the process's end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from svc.errors import Unavailable

T = TypeVar("T")

_NICEST = 19


class InThread(Protocol):
    """Runs a call that may block; what it returned or raised comes on the reactor's thread."""

    def __call__(self, call: Callable[[], T], /) -> Deferred[T]:
        """Run *call*."""


def in_pool(reactor: Any) -> InThread:
    """Runs calls in the reactor's pool, several at a time."""

    def run(call: Callable[[], T], /) -> Deferred[T]:
        return deferToThreadPool(reactor, reactor.getThreadPool(), call)

    return run


def inline(call: Callable[[], T], /) -> Deferred[T]:
    """Run *call* at once: before the reactor runs, and for tests."""
    return maybeDeferred(call)


@define(eq=False)
class _Job:
    """A call that was asked for.

    Attributes:
        call: None once nobody waits for it any more.
    """

    call: Callable[[], Any] | None
    answer: Deferred[Any] = field(init=False)

    @answer.default
    def _given_up_where_cancelled(self) -> Deferred[Any]:
        return Deferred(lambda _: self.give_up())

    def give_up(self) -> None:
        """Let the call go; if it runs already, its end is not heard."""
        self.call = None


@define(eq=False)
class SerialThread:
    """Runs one call after another, in the order asked; begun with the first.

    A call whose answer is cancelled before it began never runs, and is let go at once.  One that
    runs cannot be ended: its caller waits no longer, and those that follow wait behind it, each
    for as long as it likes.

    Args:
        name: Of the thread.
        call_from_thread: Runs a callable on the reactor's thread.
        nice: Added to the thread's nice value, for calls that compute for long: whoever else
            wants the processor comes first.  Only Linux has one for each thread.
    """

    name: str
    call_from_thread: Callable[..., object]
    nice: int = 0
    _jobs: SimpleQueue[_Job | None] = field(init=False, factory=SimpleQueue)
    _ended: Deferred[None] = field(init=False, factory=Deferred)
    _has_begun: bool = field(init=False, default=False)
    _is_ending: bool = field(init=False, default=False)

    def __call__(self, call: Callable[[], T], /) -> Deferred[T]:
        """Run *call*; fires on the reactor's thread with what it returned or raised."""
        if self._is_ending:
            return fail(Unavailable(f"{self.name}: is closed", reason="stopped"))
        if not self._has_begun:
            self._has_begun = True
            Thread(target=self._work, name=self.name, daemon=True).start()
        job = _Job(call)
        self._jobs.put(job)
        return job.answer

    def end(self) -> Deferred[None]:
        """Take no more; fires once what was asked for has run.

        Whoever waits for it has a deadline: a call that hangs may never come to its end.
        """
        if not self._is_ending:
            self._is_ending = True
            self._jobs.put(None)
            if not self._has_begun:
                self._ended.callback(None)
        ended: Deferred[None] = Deferred()
        self._ended.addCallback(lambda _: None if ended.called else ended.callback(None))
        return ended

    def _work(self) -> None:
        if self.nice and sys.platform == "linux":
            # There, both are of the calling thread.
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, 0, min(own + self.nice, _NICEST))
        while (job := self._jobs.get()) is not None:
            call = job.call
            if call is None:
                continue
            try:
                outcome = call()
            except BaseException as error:
                outcome = Failure(error)
            self.call_from_thread(_answer, job, outcome)
            del job, call, outcome  # nothing is kept while the thread waits
        self.call_from_thread(self._ended.callback, None)


def _answer(job: _Job, outcome: object) -> None:
    if not job.answer.called:
        # A failure given to it is raised where it is awaited.
        job.answer.callback(outcome)
