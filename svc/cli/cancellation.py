"""Running a coroutine that must not be left halfway.

A signal cancels it, and the reactor stops only when the coroutine has put away
what it made.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import click


class CancellableRun:
    """The reactor, run around one coroutine that puts away what it made."""

    def __init__(self, main: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        self._main = main
        self._running: Any = None
        self._outcome: Any = None
        self._stopping = False

    def run(self) -> Any:
        """What the coroutine returns or raises.

        Raises:
            click.Abort: a signal ended it first.
        """
        from twisted.internet.defer import CancelledError
        from twisted.python.failure import Failure

        from svc.cli.reactor import process_reactor
        from svc.compose.signals import stop_on_signals

        reactor = process_reactor()
        reactor.callWhenRunning(self._begin, reactor)
        reactor.callWhenRunning(stop_on_signals, reactor)
        reactor.addSystemEventTrigger("before", "shutdown", self._end)
        reactor.run()
        outcome = self._outcome
        if not isinstance(outcome, Failure):
            return outcome
        if outcome.check(CancelledError):
            raise click.Abort
        return outcome.raiseException()

    def _begin(self, reactor: Any) -> None:
        from twisted.internet.defer import Deferred

        self._running = Deferred.fromCoroutine(self._main(reactor))
        self._running.addBoth(self._ended, reactor)

    def _ended(self, outcome: Any, reactor: Any) -> None:
        self._outcome, self._running = outcome, None
        if not self._stopping:
            reactor.stop()

    def _end(self) -> Any:
        """Called when the reactor stops, by a signal or by us; it waits for what we return."""
        from svc.runtime.services import cancel

        self._stopping = True
        return cancel(self._running)
