"""The reactor of a process that a command runs."""

from __future__ import annotations

import sys
import time
from typing import Any


def process_reactor() -> Any:
    """The lean one, or the one that was installed before; its timers keep the steady clock."""
    if "twisted.internet.reactor" not in sys.modules:
        try:
            from svc.runtime.reactor import install
        except ImportError:
            pass  # There is no epoll here: Twisted knows what else there is.
        else:
            install()
    from twisted.internet import reactor

    timed: Any = reactor
    # A stepped host clock moves no timer (D3): before anything is scheduled.
    timed.seconds = time.monotonic
    return timed
