"""What a process has made by the time it serves: no garbage, and in large pages."""

from __future__ import annotations

import gc
from collections.abc import Callable
from threading import Thread

from twisted.internet.interfaces import IReactorTime

from svc.runtime.large_pages import use_large_pages

_SOON_SECS, _LATER_SECS = 10.0, 600.0
"""When memory is looked at again, and how often at last: it has grown, or a fork has undone some of
it.  A look that finds all in order takes a millisecond."""


def settle_heap(clock: IReactorTime, look: Callable[[], object] = use_large_pages) -> Thread:
    """Let no later collection look at the objects that there are now.

    Called once, when a process has started; blocks for one full collection.  Modules, classes and
    what was assembled live as long as the process.  A full collection that looks at them holds the
    reactor for 75 to 145 ms at an Authority, which is more than all else that it does in a turn.

    They are put into large pages (docs/adr/0058-fewer-turns-and-large-pages.md), which may take
    longer where memory is scarce.

    Args:
        look: Looks at memory, each time in a thread of its own.

    Returns:
        The thread that does it for the first time, and ends with that.
    """
    gc.collect()
    gc.freeze()
    return _begin_look(clock, look, _SOON_SECS)


def _begin_look(clock: IReactorTime, look: Callable[[], object], again_secs: float) -> Thread:
    later_secs = min(2 * again_secs, _LATER_SECS)
    clock.callLater(again_secs, _begin_look, clock, look, later_secs)
    thread = Thread(target=look, name="large pages", daemon=True)
    thread.start()
    return thread
