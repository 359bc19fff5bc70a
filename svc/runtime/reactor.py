"""Twisted's epoll reactor, with less done around each event.

For a small message Twisted's own bookkeeping around ``doRead`` costs as much as what ``doRead``
does: a log context is made and dropped, and the poll is given room for as many events as there
are sockets.  Here an event that is nothing but
"readable" or "writable" calls the descriptor, and the log context is made where it is used: for
an error and for an end.  What is to run in the next turn waits in a list, in its order, and not in
the heap of what is due some time.  Where many are ready at once and each takes long, as when fifty
people begin TLS together, timers do not wait for the last of them.  Everything else goes Twisted's
way (docs/adr/0032-lean-polling.md, 0038-what-an-opening-costs.md).

``svc`` takes this reactor by itself; ``twistd --reactor svc`` takes it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from select import EPOLLIN, EPOLLOUT
from typing import Any, cast

from twisted.internet.base import DelayedCall
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.main import installReactor
from twisted.logger import Logger
from twisted.python import log

_in_turn = Logger(namespace="svc").failureHandler("while handling a call of the turn")

MAX_EVENTS = 512
"""Taken from the kernel at a time; the rest is ready still when it is asked again."""

TURN_SECS = 0.01
"""Events that took longer than this together let what is due run before the next of them."""


class LeanReactor(EPollReactor):
    """See the module."""

    def __init__(self) -> None:
        self._next_turn: list[DelayedCall] = []
        super().__init__()  # type: ignore[no-untyped-call]

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kw: object
    ) -> DelayedCall:
        if delay != 0:
            return super().callLater(delay, callable, *args, **kw)
        call = DelayedCall(
            self.seconds(), callable, args, kw, _ignore, _ignore, seconds=self.seconds
        )
        self._next_turn.append(call)
        return call

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:
        coming = [cast(IDelayedCall, call) for call in self._next_turn if not call.cancelled]
        return [*super().getDelayedCalls(), *coming]

    def timeout(self) -> float | None:
        """How long the poll may wait: not at all, where a call waits for the next turn."""
        return 0 if self._next_turn else super().timeout()

    def runUntilCurrent(self) -> None:
        """What waits for this turn, then what is due; what they ask for waits for the next."""
        turn, self._next_turn = self._next_turn, []
        calls = iter(turn)
        is_over = False
        while not is_over:
            with _in_turn:  # one that fails ends the block, and the others go on
                for call in calls:
                    self._run_in_turn(call)
                is_over = True
        super().runUntilCurrent()

    def _run_in_turn(self, call: DelayedCall) -> None:
        if call.cancelled:
            return
        if call.delayed_time > 0:  # it was put off meanwhile
            self._newTimedCalls.append(call)
            return
        call.called = 1
        call.func(*call.args, **call.kw)

    def doPoll(self, timeout: float | None) -> None:
        """Wait until something is ready, and let it work."""
        try:
            ready = self._poller.poll(-1 if timeout is None else timeout, MAX_EVENTS)
        except InterruptedError:
            return
        selectables = self._selectables
        over = self.seconds() + TURN_SECS
        is_fresh = True
        for descriptor, event in ready:
            if self.seconds() >= over:
                self.runUntilCurrent()
                over = self.seconds() + TURN_SECS
                is_fresh = False
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
                elif not is_fresh:
                    # What ran meanwhile may have given the number to another connection, whose
                    # end this is not; the kernel says it again of the one that ended.
                    continue
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


def _ignore(_call: DelayedCall) -> None:
    """Of a call of this turn, nobody has to find it anywhere."""


def install() -> None:
    """Make it the reactor of this process.  Before any other is imported or installed."""
    installReactor(LeanReactor())
