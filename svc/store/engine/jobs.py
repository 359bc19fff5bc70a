"""One caller's function on its way through the store.

A job is claimed by the thread that runs it or given up by its caller,
whichever is first; the lock is what decides.  A job given up before it was
claimed never runs; one given up while it runs is rolled back if that is still
possible.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from threading import Lock
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from svc.interfaces.store import ITransaction


class _State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    SEALED = "sealed"
    GIVEN_UP = "given up"


@define(eq=False)
class Job:
    """What to run, and whom to tell."""

    desc: str
    fn: Callable[[ITransaction], Any]
    answer: Deferred[Any]
    outcome: Any = None
    _state: _State = _State.WAITING
    _lock: Lock = field(factory=Lock)

    def claim(self) -> bool:
        """Whether it may run now; called once, by the thread that would run it."""
        return self._move(_State.WAITING, _State.RUNNING)

    def seal(self) -> bool:
        """Whether its writes may be kept; from here on giving up comes too late."""
        return self._move(_State.RUNNING, _State.SEALED)

    def unseal(self) -> None:
        """Its transaction was undone before it was committed, and will be run again."""
        self.outcome = None
        self._move(_State.SEALED, _State.RUNNING)

    def give_up(self) -> bool:
        """Stop waiting for it; whether it is certain that nothing is written."""
        with self._lock:
            if self._state is _State.SEALED:
                return False
            self._state = _State.GIVEN_UP
            return True

    def deliver(self) -> None:
        """Tell the caller, on the reactor's thread, unless it stopped waiting."""
        if self.answer.called:
            return
        if isinstance(self.outcome, Failure):
            self.answer.errback(self.outcome)
        else:
            self.answer.callback(self.outcome)

    def _move(self, expected: _State, state: _State) -> bool:
        with self._lock:
            if self._state is not expected:
                return False
            self._state = state
            return True
