"""What signals do to a process.

SIGTERM and SIGINT stop it in order, once.  SIGHUP has a role read its configuration again, and
stops ``svc up``, whose terminal it tells of.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

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
