"""A session's stream that may move from the tunnel to a direct lane while it runs.

It stands between the session's call and what the session carries, and moves
each direction by itself: after the last byte that goes through the tunnel, its
writer says so there, and goes on in the lane; its reader takes the lane's bytes
only after that word.  So nothing is lost, doubled or out of order, and a lane
that does not come about leaves the session where it is.

The call stays open beside the lane: who ends or breaks it ends or breaks the
session, wherever its bytes are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IDelayedCall,
    IHalfCloseableProtocol,
    IProtocol,
    IPushProducer,
    IReactorTime,
    ITransport,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.interfaces.rpc import IHalfCloseableTransport, IMovedReader
from svc.lanes.half import LaneHalf
from svc.lanes.rendezvous import RENDEZVOUS_SECS
from svc.tunnel.fused import FusedEnd, fuse
from svc.tunnel.tls import GONE

MOVES_AFTER_MESSAGES = 64
"""Pieces, of both directions together, that a session carries before it asks for a lane, however
few their bytes: 32 round trips, after which a lane saves more time than it takes to join."""

_TOLD_SECS = 10.0
"""How long a session whose lane broke waits to hear why; its Proxy waits less for the other end."""


@implementer(IPushProducer)
class _Gate:
    """The writer's producer, remembered while it is paused."""

    def __init__(self, producer: Any) -> None:
        self.producer = producer
        self.is_paused = False

    def pauseProducing(self) -> None:
        self.is_paused = True
        self.producer.pauseProducing()

    def resumeProducing(self) -> None:
        self.is_paused = False
        self.producer.resumeProducing()

    def stopProducing(self) -> None:
        self.producer.stopProducing()


@implementer(
    IMovedReader,
    IHalfCloseableTransport,
    ITransport,
    IConsumer,
    IPushProducer,
    IHalfCloseableProtocol,
)
class MovingStream(Protocol):
    """A protocol to the call's transport, a transport to *inner*.

    Attributes:
        inner: What the session carries (its TLS).

    Args:
        inner: As the attribute.
        clock: For the end.
        after: The bytes after which *ask* is called, or sooner, after
            :data:`MOVES_AFTER_MESSAGES` pieces; None asks for no lane.
        ask: Called once.
    """

    transport: Any

    def __init__(
        self,
        inner: IProtocol,
        clock: IReactorTime,
        after: int | None,
        ask: Callable[[MovingStream], object],
    ) -> None:
        self.inner: Any = inner
        self._clock = clock
        self._left = after
        self._messages_left = MOVES_AFTER_MESSAGES
        self._ask = ask
        self._lane: LaneHalf | None = None
        self._broken: Failure | None = None
        self._writes_lane = False
        self._reads_lane = False
        self._paused = False
        self._gate: _Gate | None = None
        self._said_end = False
        self._heard_end = False
        self._lane_flushed = False
        self._lane_over = False
        self._call_over = False
        self._is_closing = False
        self._is_lost = False
        self._peer_is_ahead = False
        self._waiting: IDelayedCall | None = None
        self._fused: FusedEnd | None = None

    @property
    def is_over(self) -> bool:
        """Whether the session is ending, or gone: there is nothing to move any more."""
        return self._is_lost or self._is_closing or self._call_over

    def move_to(self, lane: LaneHalf) -> None:
        """Go on in *lane*, whose other half is there; from now on it is ours."""
        if self._lane is not None or self._is_lost or self._call_over:
            lane.out.loseConnection()
            return
        self._lane = lane
        lane.hand_to(self)
        if self._is_closing:
            # The other end may be writing there already: a refusal would overtake our own bytes.
            lane.out.loseWriteConnection()
            lane.resume()
            return
        if self._peer_is_ahead:
            self._stop_waiting()
            self.peer_moved()
        if self._said_end:
            # All we had to say went through the tunnel, our end as well.
            lane.out.loseWriteConnection()
            return
        self._writes_lane = True
        self.transport.unregisterProducer()
        self.transport.say_moved()
        gate = self._gate
        if gate is not None:
            lane.out.registerProducer(gate, True)
            if gate.is_paused:
                gate.resumeProducing()
        self._shorten()

    # -- a protocol to the call's transport

    def connectionMade(self) -> None:
        """Connect what the session carries."""
        self.inner.makeConnection(self)

    def dataReceived(self, data: bytes) -> None:
        """Bytes through the tunnel."""
        if self._reads_lane or self._peer_is_ahead:
            self._fail("bytes came through the tunnel after its last word")
            return
        if not self._is_closing:
            if self._left is not None:
                self._count(self._left, len(data))
            self.inner.dataReceived(data)

    def peer_moved(self) -> None:
        """The other end continues in the lane, whose first bytes may arrive later than this."""
        if self._reads_lane or self._heard_end or (self._peer_is_ahead and self._lane is None):
            self._fail("the other end moved twice, or after its end")
            return
        if self._lane is None and self._is_closing:
            return
        if self._lane is None:
            self._peer_is_ahead = True
            self._wait("the other end moved to a lane that is not there", RENDEZVOUS_SECS)
            return
        self._reads_lane = True
        if self._paused:
            # The call is read on: its end must be heard.
            self.transport.resumeProducing()
        else:
            self._lane.resume()
        self._shorten()

    def readConnectionLost(self) -> None:
        """The other end's end, through the tunnel; past a move it says nothing."""
        if self._reads_lane or self._peer_is_ahead or self._heard_end:
            return
        self._heard_end = True
        self.inner.readConnectionLost()
        if self._lane is not None:
            # Nothing but its own end is to come there.
            self._lane.resume()
            self._end_if_done()

    def writeConnectionLost(self) -> None:
        """Our end has gone through the tunnel."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The call is over: in order after the lane, or the session is broken."""
        self._call_over = True
        if self._broken is not None:
            reason = self._broken
        if (
            isinstance(reason.value, ConnectionDone)
            and self._lane is not None
            and not self._lane_over
        ):
            # What the lane still holds is on its way to us, however slowly we read it.
            return
        self._lost(reason)

    # -- told by the lane

    def lane_data(self, data: bytes) -> None:
        """Bytes through the lane."""
        if self._is_closing:
            return
        if not self._reads_lane:
            self._fail("bytes came through the lane before their turn")
        else:
            self.inner.dataReceived(data)

    def lane_read_ended(self) -> None:
        """The other end writes no more there."""
        if not self._is_closing and not getattr(self.inner, "has_heard_close", True):
            # Cut off.  Its Proxy ends the call too, and says there why.
            self._wait("the lane ended within the session", _TOLD_SECS)
            return
        if (self._reads_lane or self._is_closing) and not self._heard_end:
            self._heard_end = True
            if not self._is_closing:
                self.inner.readConnectionLost()
        self._end_if_done()

    def lane_write_ended(self) -> None:
        """All that was written there has gone."""
        self._lane_flushed = True
        self._end_if_done()

    def lane_lost(self, reason: Failure) -> None:
        """The lane's connection is gone."""
        self._lane_over = True
        if self._is_lost:
            return
        # Whether what we heard was cut is for the TLS inside to say; what we said must have gone.
        has_gone = self._said_end and (self._lane_flushed or not self._writes_lane)
        if self._heard_end and (has_gone or isinstance(reason.value, ConnectionDone)):
            self._finish()
        elif not self._call_over:
            # Its Proxy ends the call too, and says there why the session is cut.
            self._wait("the lane broke", _TOLD_SECS)
        else:
            self._fail("the lane broke")

    # -- a transport to what the session carries

    def write(self, data: bytes) -> None:
        """Send, wherever this direction is."""
        if self._writes_lane and self._lane is not None:
            self._lane.out.write(data)
        else:
            self.transport.write(data)
            if self._left is not None:
                self._count(self._left, len(data))

    def writeSequence(self, data: Any) -> None:
        """Likewise, of several."""
        self.write(b"".join(data))

    def loseWriteConnection(self) -> None:
        """Say that we have no more to say."""
        if self._said_end:
            return
        self._said_end = True
        if self._writes_lane and self._lane is not None:
            self._lane.out.loseWriteConnection()
        else:
            self.transport.loseWriteConnection()

    def loseConnection(self) -> None:
        """End both directions in order, after what was written.

        In a lane this waits for the other end's own end, however slowly it reads: the
        call, and so the grant, the policy and the keepalive, bound that.
        """
        if self._is_closing or self._is_lost:
            return
        self._lengthen()
        if self._lane is None:
            self._is_closing = self._said_end = True
            self.transport.loseConnection()
            return
        if self._writes_lane:
            # Twisted half-closes only where no producer is left.
            self._lane.out.unregisterProducer()
        self.loseWriteConnection()
        self._is_closing = True
        # What still comes is dropped, but it must come: a reset would overtake our own bytes.
        self.resumeProducing()
        self._end_if_done()

    def abortConnection(self) -> None:
        """End both directions at once."""
        self._lengthen()
        self._is_closing = True
        self._abort_lane()
        self.transport.abortConnection()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Register a push producer, which is paused when this direction is full."""
        if not streaming:
            raise RuntimeError("a session's stream takes push producers only")
        self._gate = gate = _Gate(producer)
        if self._writes_lane and self._lane is not None:
            self._lane.out.registerProducer(gate, True)
        else:
            self.transport.registerProducer(gate, True)

    def unregisterProducer(self) -> None:
        """The producer writes no more."""
        self._gate = None
        if self._writes_lane and self._lane is not None:
            self._lane.out.unregisterProducer()
        else:
            self.transport.unregisterProducer()

    def pauseProducing(self) -> None:
        """Deliver no more for now."""
        self._paused = True
        if self._reads_lane and self._lane is not None:
            self._lane.pause()
        else:
            self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Deliver again."""
        self._paused = False
        if self._reads_lane and self._lane is not None:
            self._lane.resume()
        else:
            self.transport.resumeProducing()

    def stopProducing(self) -> None:
        """The reader has gone."""
        self.loseConnection()

    def getPeer(self) -> IAddress:
        """Of the call."""
        return self.transport.getPeer()  # type: ignore[no-any-return]

    def getHost(self) -> IAddress:
        """Of the call."""
        return self.transport.getHost()  # type: ignore[no-any-return]

    # -- inside

    def _shorten(self) -> None:
        """Once both directions are in the lane: from socket to socket, past these layers."""
        lane = self._lane
        is_whole = self._writes_lane and self._reads_lane and not self._is_closing
        if lane is not None and is_whole and self._fused is None and not self._lane_over:
            self._fused = fuse(self.inner, lane)

    def _lengthen(self) -> None:
        """Everything through these layers again: the session ends, and they say how."""
        fused, self._fused = self._fused, None
        if fused is not None:
            fused.end()

    def _count(self, left: int, size: int) -> None:
        """One more piece, of those after which a lane is asked for."""
        self._left = left - size
        self._messages_left -= 1
        if self._left <= 0 or self._messages_left <= 0:
            self._left = None
            self._ask(self)

    def _end_if_done(self) -> None:
        """Once both ends have been said and ours has gone out, the lane closes, then the call."""
        lane = self._lane
        if lane is None or not (self._said_end and self._heard_end):
            return
        if self._lane_flushed and not self._lane_over:
            lane.out.loseConnection()

    def _finish(self) -> None:
        if self._call_over:
            self._lost(Failure(ConnectionDone()))
        else:
            self.transport.loseConnection()

    def _wait(self, for_what: str, seconds: float) -> None:
        self._stop_waiting()
        self._waiting = self._clock.callLater(seconds, self._fail, for_what)

    def _stop_waiting(self) -> None:
        if self._waiting is not None and self._waiting.active():
            self._waiting.cancel()
        self._waiting = None

    def _fail(self, why: str) -> None:
        """Break the session, whatever part of it is left."""
        self._lengthen()
        self._abort_lane()
        self._broken = Failure(ConnectionLost(why))
        if self._call_over:
            self._lost(self._broken)
        else:
            self.transport.abortConnection()

    def _abort_lane(self) -> None:
        if self._lane is not None and not self._lane_over:
            self._lane_over = True
            self._lane.out.abortConnection()

    def _lost(self, reason: Failure) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._lengthen()
        self._stop_waiting()
        self._abort_lane()
        inner, self.inner = self.inner, GONE
        inner.connectionLost(reason)
