"""What signals do to a process.

SIGTERM and SIGINT stop it in order, once.  SIGHUP has a role read its configuration again, and
stops ``svc up``, whose terminal it tells of.  Each of them ends a ``svc proxy-ssh`` with its tool.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field
from twisted.internet.error import ReactorNotRunning
from twisted.logger import Logger

_log = Logger(namespace="svc")


def stop_on_signals(reactor: Any) -> None:
    """Stop *reactor* at a signal, and take no offence at a second one; called while it runs.

    Twisted's own handlers log a second signal as an error, and twistd ends by the signal.
    """

    def stop() -> None:
        with suppress(ReactorNotRunning):
            reactor.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: reactor.callFromThread(stop))


def ignore_hangups(reactor: Any, why: str = "the role is starting") -> None:
    """Say of each SIGHUP that it does nothing; called before *reactor* runs.

    The signal's default would end a role without a line, although whoever sends it expects the
    configuration to be read again.

    Args:
        why: What the line says.
    """

    def tell() -> None:
        _log.warn("SIGHUP is ignored", why=why, reason="hangup_ignored")

    signal.signal(signal.SIGHUP, lambda *_: reactor.callFromThread(tell))


def reload_on_hangups(reactor: Any, begin: Callable[[], object]) -> None:
    """Call *begin* at each SIGHUP; what comes of it is in the log."""
    signal.signal(signal.SIGHUP, lambda *_: reactor.callFromThread(begin))


def stop_on_hangup(reactor: Any) -> None:
    """Stop *reactor* when the terminal is closed, unless SIGHUP is ignored, as under ``nohup``."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return

    def stop() -> None:
        _log.info("stopping: the terminal was closed (SIGHUP)")
        with suppress(ReactorNotRunning):
            reactor.stop()

    signal.signal(signal.SIGHUP, lambda *_: reactor.callFromThread(stop))


_INTERRUPTIONS = signal.SIGINT, signal.SIGTERM


@define
class LeavingSignals:
    """The first one ends a session in order; a second interruption does what it always does.

    ssh sends its ProxyCommand SIGHUP as it exits, and Ctrl-C at a terminal reaches both before
    that.  What ssh said last, that it disconnects, is in the pipe by then: a process that ended at
    once would lose it.

    Attributes:
        leave: Ends the session with its tool, within a bounded time.
        is_interrupted: Whether the signal was one that ssh does not send.
    """

    reactor: Any
    leave: Callable[[], object]
    is_interrupted: bool = field(default=False, init=False)
    _before: dict[int, Any] = field(factory=dict, init=False)

    def heed(self) -> None:
        """Begin to, once the session stands; what is ignored stays so."""
        for number in (signal.SIGHUP, *_INTERRUPTIONS):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._heard)

    def restore(self) -> None:
        """Leave them as they were.  Idempotent."""
        self._restore(tuple(self._before))

    def _restore(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number in self._before:
                signal.signal(number, self._before.pop(number))

    def _heard(self, number: int, _frame: object) -> None:
        if number in _INTERRUPTIONS:
            self.is_interrupted = True
            self._restore(_INTERRUPTIONS)
        self.reactor.callFromThread(self.leave)
