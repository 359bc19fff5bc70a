"""Joins two sockets in the kernel: where much flows, bytes go across without being read.

Each direction ends by itself (a FIN passes as a FIN, after all that came before
it), and a break that is met breaks both; one of a socket that only waits to be
written is not met until then, so whoever owns a splice ends it where it knows
better.  A socket that is not read holds back only the other's sender: what is
under way is one pipe and the kernel's own buffers.  A direction borrows its
pipe when much comes and gives it back when that rests, so that an idle lane
holds its two sockets and nothing else.  What fits in a small buffer is copied,
which takes half the calls; so is everything where no pipe is to be had or a
socket cannot be spliced.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EINVAL, EPERM
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReactorFDSet, IReadWriteDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.lanes.pipes import PIPE_BYTES, Pipe, Pipes

_TURN_BYTES = 1024 * 1024
"""What one direction moves before the reactor looks at others."""

_SMALL_BYTES = 16 * 1024
"""What a small message is no longer than; more is spliced."""

_CANNOT = frozenset({EPERM, EINVAL})
_splice: Callable[..., int] | None = getattr(os, "splice", None)
# SPLICE_F_MOVE | SPLICE_F_NONBLOCK
_FLAGS = 0x01 | 0x02


@frozen
class SpliceEnded:
    """How a splice ended: whether both directions came to their end, and the bytes of each."""

    is_clean: bool
    from_first: int
    from_second: int


@implementer(IReadWriteDescriptor)
class _Socket:
    """One socket as the reactor sees it, once Twisted's transport has let go of it."""

    def __init__(self, reactor: IReactorFDSet, transport: Any) -> None:
        self.transport = transport
        self.handle = transport.getHandle()
        self.out: _Direction
        self.into: _Direction
        self._reactor = reactor
        self._descriptor: int = self.handle.fileno()

    def fileno(self) -> int:
        """See IReadWriteDescriptor."""
        return self._descriptor

    def logPrefix(self) -> str:
        return "lane"

    def read_on(self) -> None:
        self._reactor.addReader(self)

    def read_not(self) -> None:
        self._reactor.removeReader(self)

    def write_on(self) -> None:
        self._reactor.addWriter(self)

    def doRead(self) -> None:
        """Bytes, or the end, have come."""
        self.out.pump()

    def doWrite(self) -> None:
        """There is room to write again."""
        self._reactor.removeWriter(self)
        self.into.pump()

    def connectionLost(self, reason: Failure) -> None:
        """The reactor found the socket broken."""
        self.out.broken()

    def close(self, reason: Exception | None) -> None:
        """Let the reactor and the transport go; in order, or (None) with a reset."""
        self._reactor.removeReader(self)
        self._reactor.removeWriter(self)
        # The number may be somebody else's from now on.
        self._descriptor = -1
        if reason is None:
            self.transport.abortConnection()
        else:
            self.transport.connectionLost(Failure(reason))


class _Direction:
    """From one socket to the other."""

    def __init__(self, lane: Splice, source: _Socket, target: _Socket) -> None:
        self.passed = 0
        self.is_done = False
        self._lane = lane
        self._source = source
        self._target = target
        self._pipe: Pipe | None = None
        self._held = 0
        self._copied = memoryview(b"")
        self._copies = _splice is None
        self._source_ended = False
        self._is_small = True

    def pump(self) -> None:
        """Move the available bytes, until one side must wait."""
        try:
            if not self._is_small or self._held or self._source_ended or not self._pass_small():
                self._pump()
        except OSError:
            self.broken()

    def broken(self) -> None:
        """A socket is gone: so is the lane."""
        self._lane.abort()

    def drop(self) -> None:
        """Give back what is borrowed, whatever it holds."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            self._lane.pipes.give_back(pipe, is_empty=not self._held)
        self._held = 0
        self._copied = memoryview(b"")

    def _pass_small(self) -> bool:
        """Pass on a small message; False where there is more to do than that."""
        try:
            data = self._source.handle.recv(_SMALL_BYTES)
        except BlockingIOError:
            return True
        if not data:
            self._source_ended = True
            return False
        try:
            given = self._target.handle.send(data)
        except BlockingIOError:
            given = 0
        self.passed += given
        if given < len(data):
            self._copied = memoryview(data)[given:]
            self._held = len(self._copied)
            return False
        self._is_small = given < _SMALL_BYTES
        return self._is_small

    def _pump(self) -> None:
        left = _TURN_BYTES
        while not self.is_done:
            if not self._give():
                self._source.read_not()
                self._target.write_on()
                return
            if self._source_ended:
                self._finish()
                return
            taken = 0 if left <= 0 else self._take()
            if taken <= 0:
                break
            left -= taken
        if not self.is_done and not self._source_ended:
            if not self._held:
                self.drop()
            self._is_small = left > _TURN_BYTES - _SMALL_BYTES
            self._source.read_on()
        elif not self.is_done:
            self._finish()

    def _finish(self) -> None:
        """All has passed, the end as well."""
        self.is_done = True
        self.drop()
        self._source.read_not()
        self._target.handle.shutdown(1)
        self._lane.direction_done()

    def _take(self) -> int:
        """How many bytes came; 0 at the end, or where there are none now."""
        try:
            taken = self._copy_in() if self._copies else self._splice_in()
        except BlockingIOError:
            return 0
        if taken:
            self._held += taken
        else:
            self._source_ended = True
        return taken

    def _splice_in(self) -> int:
        assert _splice is not None
        if self._pipe is None:
            self._pipe = self._lane.pipes.borrow()
            if self._pipe is None:
                return self._copy_in()
        try:
            return _splice(self._source.fileno(), self._pipe.write, PIPE_BYTES, flags=_FLAGS)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self._copies = True
            self.drop()
            return self._copy_in()

    def _copy_in(self) -> int:
        data = self._source.handle.recv(PIPE_BYTES)
        self._copied = memoryview(data)
        return len(data)

    def _give(self) -> bool:
        """Pass on what is held; False while the target takes no more."""
        try:
            while self._held:
                given = self._copy_out() if self._copied else self._splice_out()
                self._held -= given
                self.passed += given
        except BlockingIOError:
            return False
        return True

    def _splice_out(self) -> int:
        assert _splice is not None and self._pipe is not None
        try:
            return _splice(self._pipe.read, self._target.fileno(), self._held, flags=_FLAGS)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self._copies = True
            self._copied = memoryview(os.read(self._pipe.read, self._held))
            return self._copy_out()

    def _copy_out(self) -> int:
        given: int = self._target.handle.send(self._copied)
        self._copied = self._copied[given:]
        return given


@define(eq=False)
class Splice:
    """Two connected TCP transports, joined until both directions have ended.

    From the first moment on it owns both: nothing is queued on them, nobody
    else reads them, and each is closed by it, once.

    Attributes:
        done: Fires with :class:`SpliceEnded`; never fails.
    """

    reactor: IReactorFDSet
    first: Any
    second: Any
    pipes: Pipes
    done: Deferred[SpliceEnded] = field(init=False, factory=Deferred)
    _sockets: tuple[_Socket, _Socket] = field(init=False)
    _directions: tuple[_Direction, _Direction] = field(init=False)
    _is_over: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        for transport in (self.first, self.second):
            transport.stopReading()
            transport.stopWriting()
        one, other = _Socket(self.reactor, self.first), _Socket(self.reactor, self.second)
        there, back = _Direction(self, one, other), _Direction(self, other, one)
        one.out, one.into = there, back
        other.out, other.into = back, there
        self._sockets, self._directions = (one, other), (there, back)

    @property
    def passed(self) -> tuple[int, int]:
        """Bytes from the first and from the second so far."""
        return self._directions[0].passed, self._directions[1].passed

    def start(self) -> None:
        """Move bytes from now on."""
        for socket in self._sockets:
            socket.read_on()

    def abort(self) -> None:
        """Break both connections; what is under way is lost.  Idempotent."""
        self._end(None)

    def direction_done(self) -> None:
        """Called by a direction that has passed its end of stream."""
        if all(direction.is_done for direction in self._directions):
            self._end(ConnectionDone())

    def _end(self, reason: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        for direction in self._directions:
            direction.drop()
            direction.is_done = True
        for socket in self._sockets:
            socket.close(reason)
        self.done.callback(SpliceEnded(reason is not None, *self.passed))
