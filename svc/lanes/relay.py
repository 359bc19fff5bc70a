"""Joins two transports: passes bytes, half-close and abort, and neither side outruns the other.

A relay reads nothing of what it carries.  Each side is a protocol that an endpoint or a listener
connects; until both are connected neither is read.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IPushProducer,
    ISSLTransport,
    ITCPTransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.interfaces.rpc import IHalfCloseableTransport
from svc.lanes.bulk import BulkWriter, read_largely

_MUCH_BYTES = 1 << 20
"""Of a side that has sent so much, more is read at a time."""


@frozen
class RelayEnded:
    """How a relay ended.

    Attributes:
        from_left: Bytes read from the left side.
        from_right: Bytes read from the right side.
        is_clean: Both sides closed in order; False where one broke and the other was aborted.
        first: Which side ended first: ``left`` or ``right``.
    """

    from_left: int
    from_right: int
    is_clean: bool
    first: str


@implementer(IPushProducer)
@frozen
class _Pace:
    """Lets one side's writing hold back the other's reading, and nothing more.

    The transport itself would be closed in order by ``stopProducing``, where we may abort.
    """

    transport: Any

    def pauseProducing(self) -> None:
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        self.transport.resumeProducing()

    def stopProducing(self) -> None:
        """The writing side has gone; its own protocol learns that itself."""


@implementer(IHalfCloseableProtocol)
class RelaySide(Protocol):
    """One side of a relay; connect it once.

    Attributes:
        out: Writes to the transport, once connected; nothing else may.
    """

    transport: Any
    out: BulkWriter

    def __init__(self, relay: Relay, name: str) -> None:
        self.name = name
        self.received = 0
        self.is_lost = False
        self.read_ended = False
        self.relay = relay
        self._is_paced = False
        self._reads_largely = False
        self._early: list[bytes] = []

    def connectionMade(self) -> None:
        """Wait for the other side."""
        # A tool, or the gate's end, may write a message in pieces: none of them waits for another
        # to be acknowledged.
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)
        self.out = BulkWriter(self.transport)
        self.transport.pauseProducing()
        self.relay.connected()

    def dataReceived(self, data: bytes) -> None:
        """Pass on."""
        self.received += len(data)
        if self.received > _MUCH_BYTES and not self._reads_largely:
            self._reads_largely = True
            read_largely(self.transport)
        relay = self.relay
        other = relay.right if relay.left is self else relay.left
        if not relay.is_joined:
            self._early.append(data)
        elif not other.is_lost:
            other.out.write(data)

    def readConnectionLost(self) -> None:
        """This side writes no more."""
        self.read_ended = True
        if self.relay.is_joined:
            self.relay.half_closed(self)

    def writeConnectionLost(self) -> None:
        """Our half of this side is closed."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """This side is gone."""
        self.is_lost = True
        relay = self.relay
        relay.lost(self, is_clean=isinstance(reason.value, ConnectionDone))
        other = relay.right if relay.left is self else relay.left
        if other.is_lost:
            # What a session held is let go with its owner, not with a garbage collection.
            self.relay = other.relay = _OVER

    def flow_from(self, other: RelaySide) -> None:
        """Write what *other* reads from now on."""
        for data in other._early:
            self.out.write(data)
        other._early.clear()
        if not self.is_lost:
            self._is_paced = True
            self.out.registerProducer(_Pace(other.transport), True)

    def flow_ends(self) -> None:
        """The other side reads no more; what is queued here still goes."""
        if self._is_paced and not self.is_lost:
            self._is_paced = False
            self.out.unregisterProducer()

    def close(self) -> None:
        """Close this side once what is queued has gone."""
        if self.transport is not None and not self.is_lost:
            if self._is_paced:
                self.flow_ends()
            self.out.loseConnection()


@define(eq=False)
class Relay:
    """Joins two sides and tracks their state.

    Attributes:
        left: Connect this to one transport.
        right: Connect this to the other.
        done: Fires with :class:`RelayEnded` once both sides are over; never fails.
    """

    left: RelaySide = field(init=False)
    right: RelaySide = field(init=False)
    done: Deferred[RelayEnded] = field(init=False, factory=Deferred)
    is_joined: bool = field(init=False, default=False)
    _is_clean: bool = field(init=False, default=True)
    _first: str = field(init=False, default="")

    def __attrs_post_init__(self) -> None:
        self.left = RelaySide(self, "left")
        self.right = RelaySide(self, "right")

    def other(self, side: RelaySide) -> RelaySide:
        """The side across."""
        return self.right if side is self.left else self.left

    def abort(self) -> None:
        """Reset both sides, for an owner whose permission to carry has ended."""
        self._is_clean = False
        for side in (self.left, self.right):
            if side.transport is not None and not side.is_lost:
                side.out.abortConnection()

    def connected(self) -> None:
        """Called by a side; joins once both are connected."""
        left, right = self.left, self.right
        if self.is_joined or left.transport is None or right.transport is None:
            return
        if left.is_lost or right.is_lost:
            left.close()
            right.close()
            return
        self.is_joined = True
        right.flow_from(left)
        left.flow_from(right)
        ended = [side for side in (left, right) if side.read_ended]
        for side in (left, right):
            side.transport.resumeProducing()
        # Now, since a transport that is closed must not be resumed.
        for side in ended:
            self.half_closed(side)

    def half_closed(self, side: RelaySide) -> None:
        """*side* writes no more: say so across, and close once both have."""
        other = self.right if side is self.left else self.left
        self._first = self._first or side.name
        if other.is_lost:
            return
        other.flow_ends()
        if other.read_ended or not _can_half_close(other.transport):
            other.close()
            side.close()
        else:
            other.out.loseWriteConnection()

    def lost(self, side: RelaySide, *, is_clean: bool) -> None:
        """Called by a side that has gone; the other side ends in the same way."""
        self._first = self._first or side.name
        self._is_clean = self._is_clean and is_clean
        other = self.right if side is self.left else self.left
        if other.transport is not None and not other.is_lost:
            if is_clean:
                other.close()
            else:
                other.out.abortConnection()
        elif not self.done.called:
            # The other side may never come; if it does, it is closed at once.
            ended = RelayEnded(
                from_left=self.left.received,
                from_right=self.right.received,
                is_clean=self._is_clean,
                first=self._first,
            )
            self.done.callback(ended)


_OVER = Relay()
"""In the place of a relay whose sides are gone: it joins nothing."""


class _OnlySide(Factory):
    """Gives its side to one connection, and keeps nothing of it."""

    noisy = False

    def __init__(self, side: RelaySide) -> None:
        self._side: RelaySide | None = side

    def buildProtocol(self, addr: object) -> RelaySide | None:
        """The side, once."""
        side, self._side = self._side, None
        return side


def only_side(side: RelaySide) -> Any:
    """A factory that connects this one side of a relay, once."""
    return _OnlySide(side)


def _can_half_close(transport: Any) -> bool:
    # Twisted's TLS would pass the call on to the transport below it, past its own alert.
    if ISSLTransport.providedBy(transport):
        return bool(IHalfCloseableTransport.providedBy(transport))
    return hasattr(transport, "loseWriteConnection")
