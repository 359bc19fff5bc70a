"""What SIGTERM and SIGINT do to a process: an orderly stop, once."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Any

from twisted.internet.error import ReactorNotRunning


def stop_on_signals(reactor: Any) -> None:
    """Stop *reactor* at a signal, and take no offence at a second one; called while it runs.

    Twisted's own handlers log a second signal as an error, and twistd ends by the signal.
    """

    def stop() -> None:
        with suppress(ReactorNotRunning):
            reactor.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: reactor.callFromThread(stop))
