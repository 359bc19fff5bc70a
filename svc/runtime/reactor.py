"""Twisted's epoll reactor, with less done around each event.

For a small message Twisted's own bookkeeping around ``doRead`` costs as much as what ``doRead``
does: a log context is made and dropped, and the poll is given room for as many events as there
are sockets.  Here an event that is nothing but
"readable" or "writable" calls the descriptor, and the log context is made where it is used: for
an error.  What is to run in the next turn waits in a list, in its order, and not in
the heap of what is due some time.  Where many are ready at once and each takes long, as when fifty
people begin TLS together, timers do not wait for the last of them.  Everything else goes Twisted's
way (docs/adr/0032-lean-polling.md, 0038-what-an-opening-costs.md).

``svc`` takes this reactor by itself; ``twistd --reactor svc`` takes it too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from select import EPOLLIN, EPOLLOUT, EPOLLRDHUP
from typing import Any, cast

from twisted.internet.base import DelayedCall
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.main import installReactor
from twisted.logger import Logger
from twisted.python import log

_log = Logger(namespace="svc")

MAX_EVENTS = 512
"""Taken from the kernel at a time; the rest is ready still when it is asked again."""

TURN_SECS = 0.01
"""Events that took longer than this together let what is due run before the next of them."""

_LONGEST_POLL = 2_147_483
"""Seconds: what ``epoll_wait`` takes, in milliseconds."""

_READABLE = EPOLLIN | EPOLLRDHUP
"""What a reader waits for: bytes, or the peer's end, which is told beside the bytes before it."""

_BOTH = _READABLE | EPOLLOUT

_NO_KEYWORDS: dict[str, object] = {}
"""Of all calls that are given none: nobody writes to what a call is to be called with."""

_CANCELLED = 50
"""With more than these in the heap, and more than half of it, the heap is made anew."""


class _Waker:
    """Ends a poll, from any thread.  Twisted's is a pipe, and each byte takes ten calls."""

    disconnected = 0

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._descriptor

    def logPrefix(self) -> str:
        return "waker"

    def wakeUp(self) -> None:
        """Called from any thread."""
        try:
            os.eventfd_write(self._descriptor, 1)
        except OSError:
            pass  # it is gone, or was woken more often than it can count

    def doRead(self) -> None:
        """What it was woken for runs in the next turn."""
        try:
            os.eventfd_read(self._descriptor)
        except BlockingIOError:
            pass

    def connectionLost(self, reason: object) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class LeanReactor(EPollReactor):
    """See the module."""

    def __init__(self) -> None:
        self._next_turn: list[DelayedCall] = []
        # By time, and of one time in the order asked; the number keeps calls from being compared.
        self._timed: list[tuple[float, int, DelayedCall]] = []
        self._number = count()
        # Calls that were cancelled and are still in the heap, or about to be put there.  A set
        # counts each of them once, and Twisted can call its ``add`` without a function of Python.
        self._gone: set[DelayedCall] = set()
        # What every timed call is given, to be told when it is cancelled or made earlier.  Methods
        # bound for each call would take memory as long as it waits.
        self._told = self._gone.add, self._sooner
        self._polls_files = False
        super().__init__()  # type: ignore[no-untyped-call]

    def _wakerFactory(self) -> Any:
        return _Waker()

    def mainLoop(self) -> None:
        """Turn after turn until the reactor is stopped; an error of a turn is logged."""
        while self._started:
            try:
                while self._started:
                    timed, now = self._timed, self.seconds()
                    is_due = timed and timed[0][0] <= now
                    if is_due or self.threadCallQueue or self._next_turn or self._justStopped:
                        self.runUntilCurrent()
                        now = self.seconds()
                    timeout: float | None = 0
                    if not self._next_turn and self.running:
                        # As timeout() has it, without a call for each turn.
                        if self._newTimedCalls:
                            self._insertNewDelayedCalls()
                        timeout = None
                        if timed:
                            timeout = max(0, min(_LONGEST_POLL, timed[0][0] - now))
                    self.doPoll(timeout)
            except BaseException:
                _log.failure("Unexpected error in main loop")

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kw: object
    ) -> DelayedCall:
        assert delay >= 0, f"{delay} is not greater than or equal to 0 seconds"
        seconds = self.seconds
        kw = kw or _NO_KEYWORDS
        if delay == 0:
            call = DelayedCall(seconds(), callable, args, kw, _ignore, _ignore, seconds)
            self._next_turn.append(call)
        else:
            call = DelayedCall(seconds() + delay, callable, args, kw, *self._told, seconds)
            self._newTimedCalls.append(call)
        return call

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:
        timed = {call: None for _, _, call in self._timed if not call.called}
        calls = [*timed, *self._newTimedCalls, *self._next_turn]
        return [cast(IDelayedCall, call) for call in calls if not call.cancelled]

    def timeout(self) -> float | None:
        """How long the poll may wait: not at all, where a call waits for the next turn."""
        if self._next_turn:
            return 0
        if self._newTimedCalls:
            self._insertNewDelayedCalls()
        if not self._timed:
            return None
        return max(0, min(_LONGEST_POLL, self._timed[0][0] - self.seconds()))

    def runUntilCurrent(self) -> None:
        """What waits for this turn, then what is due; what they ask for waits for the next."""
        if self.threadCallQueue:
            # Before the turn, as in Twisted: what their answers set going is sent without a poll
            # between.
            self._run_from_threads()
        if self._next_turn:
            self._run_turn()
        if self._newTimedCalls:
            self._insertNewDelayedCalls()
        if self._timed and self._timed[0][0] <= (now := self.seconds()):
            self._run_due(now)
        if self._justStopped:
            self._justStopped = False
            self.fireSystemEvent("shutdown")

    def _run_turn(self) -> None:
        turn, self._next_turn = self._next_turn, []
        for call in turn:
            if call.cancelled:
                continue
            if call.delayed_time > 0:  # it was put off meanwhile
                call.canceller, call.resetter = self._told
                self._newTimedCalls.append(call)
                continue
            call.called = 1
            try:
                call.func(*call.args, **call.kw)
            except BaseException:
                _log.failure("while handling a call of the turn")

    def _run_from_threads(self) -> None:
        # What comes meanwhile waits for the next turn.
        many = len(self.threadCallQueue)
        for call, args, kw in self.threadCallQueue[:many]:
            try:
                call(*args, **kw)
            except BaseException:
                _log.failure("while calling from thread")
        del self.threadCallQueue[:many]
        if self.threadCallQueue:
            self.wakeUp()

    def _run_due(self, now: float) -> None:
        timed = self._timed
        while timed and timed[0][0] <= now:
            at, _, call = heappop(timed)
            if call.cancelled:
                self._gone.discard(call)
            elif call.called or call.time != at:
                pass  # It was put in again, for an earlier time.
            elif call.delayed_time > 0:
                self._put_in(call)
            else:
                call.called = 1
                try:
                    call.func(*call.args, **call.kw)
                except BaseException:
                    _log.failure("while handling timed call")
        if len(self._gone) > _CANCELLED and len(self._gone) > len(timed) >> 1:
            self._gone.clear()
            # In place: a call that is due may have led here, by a turn within a poll.
            timed[:] = [one for one in timed if not one[2].cancelled]
            heapify(timed)

    def _insertNewDelayedCalls(self) -> None:
        new, self._newTimedCalls = self._newTimedCalls, []
        for call in new:
            if call.cancelled:
                self._gone.discard(call)
            elif call.delayed_time:
                self._put_in(call)
            else:
                heappush(self._timed, (call.time, next(self._number), call))

    def _put_in(self, call: DelayedCall) -> None:
        if call.delayed_time:
            call.activate_delay()
        heappush(self._timed, (call.time, next(self._number), call))

    def _sooner(self, call: DelayedCall) -> None:
        """A call is to be earlier: what stands in the heap for it is passed over at its time."""
        if call not in self._newTimedCalls:
            self._put_in(call)

    def doPoll(self, timeout: float | None) -> None:
        """Wait until something is ready, and let it work."""
        try:
            ready = self._poller.poll(-1 if timeout is None else timeout, MAX_EVENTS)
        except InterruptedError:
            return
        selectables = self._selectables
        over = self.seconds() + TURN_SECS
        before: dict[int, object] | None = None
        for descriptor, event in ready:
            if self.seconds() >= over:
                if before is None:
                    before = {one: selectables.get(one) for one, _ in ready}
                self.runUntilCurrent()
                over = self.seconds() + TURN_SECS
            selectable = selectables.get(descriptor)
            if selectable is None:
                # Removed by one that was ready before it.
                continue
            try:
                is_open = selectable.fileno() == descriptor
                if is_open and event == EPOLLIN:
                    why = selectable.doRead()
                elif is_open and event == _READABLE:
                    why = self._read_to_end(selectable, descriptor)
                elif is_open and event == EPOLLOUT:
                    why = selectable.doWrite()
                elif is_open and not event & ~_BOTH and event & EPOLLIN:
                    event, why = self._read_and_write(selectable)
                elif before is not None and before[descriptor] is not selectable:
                    # What ran meanwhile has given the number to another connection, whose end
                    # this is not.
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
                self._lose(selectable, why, is_reading=event != EPOLLOUT)

    doIteration = doPoll

    @staticmethod
    def _read_and_write(selectable: Any) -> tuple[int, Any]:
        """Why it is lost, where it is, and at which of both."""
        why = selectable.doRead()
        return (EPOLLIN, why) if why else (EPOLLOUT, selectable.doWrite())

    def _read_to_end(self, selectable: Any, descriptor: int) -> Any:
        """Read the peer's last bytes and its end, which has come already, in one turn.

        A tool that says its last word and closes would cost everybody on the way a turn for each.
        Where more is left than one reading takes, it waits for the next turn.
        """
        why = selectable.doRead()
        is_read_on = descriptor in self._reads and self._selectables.get(descriptor) is selectable
        return selectable.doRead() if is_read_on and not why else why

    # As Twisted has them, in one function each where a descriptor is watched for one thing alone: a
    # session's sockets begin and end to be watched some twenty times.

    def addReader(self, reader: Any) -> None:
        descriptor = reader.fileno()
        if descriptor in self._reads:
            return
        if descriptor in self._writes or not self._watched(descriptor, _READABLE):
            super().addReader(reader)  # type: ignore[no-untyped-call]
            return
        self._reads.add(descriptor)
        self._selectables[descriptor] = reader

    def addWriter(self, writer: Any) -> None:
        descriptor = writer.fileno()
        if descriptor in self._writes:
            return
        if descriptor in self._reads or not self._watched(descriptor, EPOLLOUT):
            super().addWriter(writer)  # type: ignore[no-untyped-call]
            return
        self._writes.add(descriptor)
        self._selectables[descriptor] = writer

    def removeReader(self, reader: Any) -> None:
        descriptor, reads = reader.fileno(), self._reads
        if descriptor in reads and descriptor not in self._writes:
            del self._selectables[descriptor]
            self._poller.unregister(descriptor)
            reads.remove(descriptor)
        elif descriptor in reads or descriptor < 0 or self._polls_files:
            super().removeReader(reader)  # type: ignore[no-untyped-call]

    def removeWriter(self, writer: Any) -> None:
        descriptor, writes = writer.fileno(), self._writes
        if descriptor in writes and descriptor not in self._reads:
            del self._selectables[descriptor]
            self._poller.unregister(descriptor)
            writes.remove(descriptor)
        elif descriptor in writes or descriptor < 0 or self._polls_files:
            super().removeWriter(writer)  # type: ignore[no-untyped-call]

    def _watched(self, descriptor: int, event: int) -> bool:
        """Watch a new one; False where epoll does not take it."""
        try:
            self._poller.register(descriptor, event)
        except OSError:
            self._polls_files = True  # which epoll cannot watch, and Twisted polls by itself
            return False
        return True

    def _lose(self, selectable: Any, why: BaseException, *, is_reading: bool) -> None:
        try:
            self._disconnectSelectable(selectable, why, is_reading)  # type: ignore[no-untyped-call]
        except BaseException:
            _log.failure("while telling that a connection is lost")


def _ignore(_call: DelayedCall) -> None:
    """Of a call of this turn, nobody has to find it anywhere."""


def install() -> None:
    """Make it the reactor of this process.  Before any other is imported or installed."""
    installReactor(LeanReactor())
