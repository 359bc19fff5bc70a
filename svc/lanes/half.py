"""One end's half of a direct lane: dials, sends its token, then is handed on."""

from __future__ import annotations

from typing import Any
from typing import Protocol as Shape

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol, IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.lanes.bulk import BulkWriter, read_largely
from svc.lanes.preface import GO, Preface
from svc.lanes.rendezvous import RENDEZVOUS_SECS


class LaneReceiver(Shape):
    """The receiver of a half."""

    def lane_data(self, data: bytes) -> None:
        """Bytes came; only while the half is not paused."""

    def lane_read_ended(self) -> None:
        """The other end writes no more."""

    def lane_write_ended(self) -> None:
        """All data was sent, and our own half is closed."""

    def lane_lost(self, reason: Failure) -> None:
        """The connection is gone."""


@implementer(IHalfCloseableProtocol)
class LaneHalf(Protocol):
    """A connection to a Proxy that says nothing but its preface until both halves are there.

    Attributes:
        joined: Fires with this when they are; the half is paused from then on.
        out: Writes to the connection; nothing else may, once it is joined.
    """

    transport: Any
    out: BulkWriter

    def __init__(self, preface: Preface) -> None:
        self.joined: Deferred[LaneHalf] = Deferred(lambda _: self.transport.abortConnection())
        self._preface = preface
        self._heard = b""
        self._receiver: LaneReceiver | None = None
        self._early = b""
        self._is_paused = True

    def connectionMade(self) -> None:
        """Announce ourselves."""
        self.out = BulkWriter(self.transport)
        self.transport.setTcpNoDelay(True)
        self.transport.setTcpKeepAlive(True)
        self.transport.write(self._preface.encode())

    def dataReceived(self, data: bytes) -> None:
        """The answer, then what the other end says."""
        if self._receiver is not None:
            self._receiver.lane_data(data)
            return
        self._heard += data
        if not GO.startswith(self._heard[: len(GO)]):
            self.transport.abortConnection()
        elif len(self._heard) >= len(GO) and not self.joined.called:
            self._early = self._heard[len(GO) :]
            self.transport.pauseProducing()
            self.joined.callback(self)

    def readConnectionLost(self) -> None:
        """The other end writes no more."""
        if self._receiver is not None:
            self._receiver.lane_read_ended()
        else:
            self.transport.abortConnection()

    def writeConnectionLost(self) -> None:
        """Our own half is closed."""
        if self._receiver is not None:
            self._receiver.lane_write_ended()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It is over."""
        if self._receiver is not None:
            self._receiver.lane_lost(reason)
        elif not self.joined.called:
            self.joined.errback(Failure(ConnectionLost("the lane was not joined")))

    def hand_to(self, receiver: LaneReceiver) -> None:
        """Report all to *receiver* from now on; the half stays paused until :meth:`resume`."""
        self._receiver = receiver
        read_largely(self.transport)

    def pause(self) -> None:
        """Deliver no more for now."""
        self._is_paused = True
        self.transport.pauseProducing()

    def resume(self) -> None:
        """Deliver data, first the bytes that arrived right after the answer."""
        self._is_paused = False
        early, self._early = self._early, b""
        if early and self._receiver is not None:
            self._receiver.lane_data(early)
        if not self._is_paused:
            self.transport.resumeProducing()


async def reach_lane(
    endpoint: IStreamClientEndpoint, preface: Preface, clock: IReactorTime
) -> LaneHalf:
    """Dial the Proxy, show the token, and wait for the other half.

    Raises:
        Exception: whatever kept it from being joined within the time of a rendezvous; nothing
            is left of the connection then.
    """
    half = LaneHalf(preface)
    factory = Factory.forProtocol(lambda: half)
    factory.noisy = False
    connecting = endpoint.connect(factory)
    connecting.addTimeout(RENDEZVOUS_SECS, clock)
    await connecting
    half.joined.addTimeout(RENDEZVOUS_SECS, clock)
    try:
        return await half.joined
    except CancelledError:
        half.transport.abortConnection()
        raise
