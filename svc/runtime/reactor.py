"""Twisted's epoll reactor, with less done around each event.

For a small message Twisted's own bookkeeping around ``doRead`` costs as much as what ``doRead``
does: a log context is made and dropped, and the poll is given room for as many events as there
are sockets.  Here an event that is nothing but
"readable" or "writable" calls the descriptor, and the log context is made where it is used: for
an error and for an end.  Everything else goes Twisted's way (docs/adr/0032-lean-polling.md).

``svc`` takes this reactor by itself; ``twistd --reactor svc`` takes it too.
"""

from __future__ import annotations

from select import EPOLLIN, EPOLLOUT
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.main import installReactor
from twisted.python import log

MAX_EVENTS = 512
"""Taken from the kernel at a time; the rest is ready still when it is asked again."""


class LeanReactor(EPollReactor):
    """See the module."""

    def doPoll(self, timeout: float | None) -> None:
        """Wait until something is ready, and let it work."""
        try:
            ready = self._poller.poll(-1 if timeout is None else timeout, MAX_EVENTS)
        except InterruptedError:
            return
        selectables = self._selectables
        for descriptor, event in ready:
            selectable = selectables.get(descriptor)
            if selectable is None:
                # Removed by one that was ready before it.
                continue
            try:
                is_open = selectable.fileno() == descriptor
                if is_open and event == EPOLLIN:
                    why = selectable.doRead()
                elif is_open and event == EPOLLOUT:
                    why = selectable.doWrite()
                else:
                    log.callWithLogger(
                        selectable, self._doReadOrWrite, selectable, descriptor, event
                    )
                    continue
            except BaseException as error:
                log.callWithLogger(selectable, log.err)
                why = error
            if why:
                self._lose(selectable, why, is_reading=event == EPOLLIN)

    doIteration = doPoll

    def _lose(self, selectable: Any, why: BaseException, *, is_reading: bool) -> None:
        log.callWithLogger(selectable, self._disconnectSelectable, selectable, why, is_reading)


def install() -> None:
    """Make it the reactor of this process.  Before any other is imported or installed."""
    installReactor(LeanReactor())  # type: ignore[no-untyped-call]
