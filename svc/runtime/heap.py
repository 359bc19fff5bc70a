"""What a process has made by the time it serves: no garbage, and in large pages."""

from __future__ import annotations

import gc
from threading import Thread

from twisted.internet.interfaces import IReactorTime

from svc.runtime.large_pages import use_large_pages

_SOON_SECS, _LATER_SECS = 10.0, 600.0
"""When memory is looked at again, and how often at last: it has grown, or a fork has undone some of
it.  A look that finds all in order takes a millisecond."""


def settle_heap(clock: IReactorTime) -> Thread:
    """Let no later collection look at the objects that there are now.

    Called once, when a process has started; blocks for one full collection.  Modules, classes and
    what was assembled live as long as the process.  A full collection that looks at them holds the
    reactor for 75 to 145 ms at an Authority, which is more than all else that it does in a turn.

    They are put into large pages (docs/adr/0058-fewer-turns-and-large-pages.md), which may take
    longer where memory is scarce.

    Returns:
        The thread that does it for the first time, and ends with that.
    """
    gc.collect()
    gc.freeze()
    return _use_large_pages(clock, _SOON_SECS)


def _use_large_pages(clock: IReactorTime, again_secs: float) -> Thread:
    clock.callLater(again_secs, _use_large_pages, clock, min(2 * again_secs, _LATER_SECS))
    thread = Thread(target=use_large_pages, name="large pages", daemon=True)
    thread.start()
    return thread
