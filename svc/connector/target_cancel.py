"""Cancels at a session's target when its person asks: one at a time, each bounded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import SvcError
from svc.runtime.services import bounded

_log = Logger(namespace="svc_connector")

CANCEL_SECS = 10.0
"""To connect to the target once more and be heard."""


@define(eq=False)
class TargetCancel:
    """Of one session.

    However often it is asked for, one request is under way and at most one follows it.

    Attributes:
        session_uid: For the log.
    """

    cancel: Callable[[], Awaitable[None]]
    clock: IReactorTime
    session_uid: str
    _running: Deferred[None] | None = field(default=None, init=False)
    _is_asked_again: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)

    def ask(self) -> None:
        """The person's end asks; the frame that says so was verified."""
        if self._is_over:
            return
        if self._running is not None:
            self._is_asked_again = True
            return
        running = Deferred.fromCoroutine(
            bounded(self.clock, CANCEL_SECS, self.cancel(), "the target, to cancel")
        )
        self._running = running
        running.addBoth(self._done)

    def stop(self) -> None:
        """The session is over: nothing of it is cancelled any more."""
        self._is_over = True
        if self._running is not None:
            self._running.cancel()

    def _done(self, result: object) -> None:
        self._running = None
        if isinstance(result, Failure) and not self._is_over:
            error = result.value
            reason = error.reason if isinstance(error, SvcError) else type(error).__name__
            _log.warn("the target was not cancelled", session=self.session_uid, reason=reason)
        if self._is_asked_again:
            self._is_asked_again = False
            self.ask()
