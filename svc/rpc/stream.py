"""A call as a transport, so that any protocol, or TLS, can run over its messages.

End of writing is an ``eof`` frame, in either direction, because a gRPC server cannot half-close;
the end of the call is the close; a reset or any status but OK is the abort.  What a session is,
and the ``open`` message before it, belong to the rooms above.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IHalfCloseableProtocol,
    IProtocol,
    IPushProducer,
    ITransport,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Malformed, SvcError
from svc.interfaces.rpc import IMovedReader
from svc.model.session.ending import SessionOver
from svc.rpc.call import MessageEnd
from svc.rpc.client.channel import ClientStream
from svc.rpc.frames import (
    EOF,
    MOVED,
    FrameKind,
    data_head,
    end_frame,
    parse_frame,
    read_end,
)
from svc.wire.limits import KIB
from svc.wire.machine import Part

_LONGEST_FRAME = 256 * KIB
_FLUSH_AT = 128 * KIB
LEAVE_SECS = 2.0
"""How long the server may take to hear why a stream is broken off."""


@implementer(IAddress)
@frozen
class StreamAddress:
    """Where a byte stream over a call leads: the method, for log lines."""

    method: str


@implementer(ITransport, IConsumer, IPushProducer)
class StreamTransport:
    """The transport of one protocol over one call, which nobody else may use any more.

    Args:
        end: A call being served, or a stream being made, past its ``open`` message.

    Attributes:
        closed: Fires with None after ``connectionLost`` for a clean close, fails with SvcError
            for an abort.  A server's handler awaits it: ``await transport.closed``.
        reported_end: Why the peer ends the stream, once it has said so in band.
        fault: The reason for which we ended it, where what the peer sent was at fault.
    """

    def __init__(self, end: MessageEnd) -> None:
        self.closed: Deferred[None] = Deferred()
        self.connected = False
        self.disconnecting = False
        self.reported_end: SessionOver | None = None
        self.fault = ""
        self._last_word: SessionOver | None = None
        self._end = end
        self._address = StreamAddress(end.method)
        self._protocol: Any = None
        self._producer: Any = None
        self._is_pull = False
        self._producer_paused = False
        self._pending: list[Part] = []
        self._pending_size = 0
        self._flush_asked = False
        self._is_paused = False
        self._is_reading = False
        self._read_ended = False
        self._write_ended = False
        self._is_over = False

    def start(self, protocol: IProtocol) -> None:
        """Connect *protocol*; it may be given bytes before this returns."""
        self._protocol = protocol
        self.connected = True
        protocol.makeConnection(self)
        self._end.listen(self)

    # -- ITransport

    def write(self, data: bytes) -> None:
        """Queue *data*; small writes of one turn travel together."""
        if self._write_ended or self._is_over or not data:
            return
        self._pending.append(data)
        self._pending_size += len(data)
        if self._pending_size >= _FLUSH_AT:
            self._flush()
        elif not self._flush_asked:
            self._flush_asked = True
            self._end.before_writing(self._flush)
        self._pace()

    def writeSequence(self, data: Any) -> None:
        """Queue several pieces."""
        for piece in data:
            self.write(piece)

    def loseConnection(self, _connDone: object = None) -> None:
        """Close once everything written (and the producer, if any) is done."""
        if not self.disconnecting and not self._is_over:
            self.disconnecting = True
            self._close_if_done()

    def abortConnection(self) -> None:
        """Reset the call; what is queued is lost."""
        if not self._is_over:
            refusal = SvcError("the byte stream was aborted here", reason="aborted")
            self._over(ConnectionAborted(), refusal)
            if self._last_word is not None and isinstance(self._end, ClientStream):
                self._end.finish_with(end_frame(self._last_word), LEAVE_SECS)
            else:
                self._end.break_off(refusal)

    def loseWriteConnection(self) -> None:
        """Announce that nothing more is written; reading continues."""
        if self._write_ended or self._is_over:
            return
        self._end_writing()
        if IHalfCloseableProtocol.providedBy(self._protocol):
            self._protocol.writeConnectionLost()
        self._close_if_done()

    def end_with(self, over: SessionOver) -> None:
        """Say this to the server when the stream is closed or aborted; the first word stays."""
        self._last_word = self._last_word or over

    def say_moved(self) -> None:
        """Say, after all that was written, that what follows goes elsewhere; write no more then."""
        if not self._write_ended and not self._is_over:
            self._flush()
            self._send(MOVED, [], 0)

    def getPeer(self) -> IAddress:
        """The method's name stands for the peer."""
        return self._address

    def getHost(self) -> IAddress:
        """As :meth:`getPeer`."""
        return self._address

    # -- IConsumer

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Pace *producer* by the call's queue."""
        if self._producer is not None:
            raise RuntimeError("a producer is registered already")
        if self._is_over:
            producer.stopProducing()
            return
        self._producer = producer
        self._is_pull = not streaming
        self._producer_paused = False
        self._pace()
        if self._is_pull:
            self._end.before_writing(self._pull)

    def unregisterProducer(self) -> None:
        """Remove the producer; a close that waited for it continues."""
        self._producer = None
        if self.disconnecting:
            self._close_if_done()

    # -- IPushProducer: the reading side

    def pauseProducing(self) -> None:
        """Take no further message: the peer's window stays shut."""
        self._is_paused = True

    def resumeProducing(self) -> None:
        """Take messages again."""
        self._is_paused = False
        if self.connected and not self._is_over and not self._end.is_drained:
            self._end.soon(self.readable)

    def stopProducing(self) -> None:
        """Close."""
        self.loseConnection()

    # -- told by the end

    def readable(self) -> None:
        """Hand messages to the protocol until it pauses or there are none."""
        if self._is_reading or self._is_over:
            return
        self._is_reading = True
        try:
            if self._is_paused and (outcome := self._end.outcome) is not None:
                # A break does not wait for a reader, who may never come back.
                raise outcome
            while not self._is_paused and not self._is_over:
                message = self._end.take()
                if message is None:
                    break
                self._received(message)
                if self._end.is_drained:
                    return
            if not self._is_paused and not self._is_over and self._end.has_ended:
                self._ended()
        except SvcError as refusal:
            self._broken_by(refusal)
        finally:
            self._is_reading = False

    def drained(self) -> None:
        """There is room: let the producer continue."""
        self._pace()
        self._pull()

    def broken(self, refusal: SvcError) -> None:
        """The call is gone."""
        if not self._is_over:
            self._over(ConnectionLost(refusal.reason), refusal)

    # -- inside

    def _ended(self) -> None:
        """The peer ended the call, and all that it had sent was taken."""
        self._over(ConnectionDone(), None)

    def _broken_by(self, refusal: SvcError) -> None:
        """What the peer sent, or how it broke, ends the stream."""
        self._over(ConnectionLost(refusal.reason), refusal)
        self._end.break_off(refusal)

    def _received(self, message: bytes | memoryview) -> None:
        kind, payload = parse_frame(message)
        if kind is FrameKind.DATA:
            if not self.disconnecting and not self._read_ended and self._protocol is not None:
                self._protocol.dataReceived(bytes(payload))
        elif kind is FrameKind.EOF and not self._read_ended:
            self._peer_wrote_all()
        elif kind is FrameKind.MOVED:
            if not IMovedReader.providedBy(self._protocol):
                raise Malformed("a byte stream that cannot move was told that its peer did")
            self._protocol.peer_moved()
        elif kind is FrameKind.END:
            self.reported_end = self.reported_end or read_end(payload)

    def _peer_wrote_all(self) -> None:
        self._read_ended = True
        if not IHalfCloseableProtocol.providedBy(self._protocol):
            self.loseConnection()
        elif not self.disconnecting:
            self._protocol.readConnectionLost()
            self._close_if_done()

    def _flush(self) -> None:
        self._flush_asked = False
        parts, self._pending = self._pending, []
        size, self._pending_size = self._pending_size, 0
        if not self._is_over and size:
            self._send_data(parts, size)

    def _send_data(self, parts: list[Part], size: int) -> None:
        if size <= _LONGEST_FRAME:
            self._send(data_head(size), parts, size)
            return
        view = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
        for start in range(0, size, _LONGEST_FRAME):
            piece = view[start : start + _LONGEST_FRAME]
            self._send(data_head(len(piece)), [piece], len(piece))

    def _send(self, head: bytes, parts: list[Part], size: int) -> None:
        try:
            self._end.write([head, *parts], len(head) + size)
        except SvcError:
            # The call is over; reading tells how, after what is still to be read.
            self._pending.clear()

    def _end_writing(self) -> None:
        if not self._write_ended:
            self._flush()
            self._write_ended = True
            self._say_eof()

    def _say_eof(self) -> None:
        self._send(EOF, [], 0)

    def _close_if_done(self) -> None:
        if self._is_over:
            return
        if self.disconnecting:
            if self._producer is not None:
                return
            self._end_writing()
        elif not (self._write_ended and self._read_ended):
            return
        if isinstance(self._end, ClientStream):
            # The server answers with OK; until then what it still sends is dropped.
            self.disconnecting = True
            self._is_paused = False
            if self._last_word is not None:
                self._send(end_frame(self._last_word), [], 0)
            self._end.end()
            self._end.soon(self.readable)
        else:
            self._over(ConnectionDone(), None)

    def _over(self, reason: Exception, refusal: SvcError | None) -> None:
        self._is_over = True
        self.connected = False
        self._end.listen_no_more()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
        self._end.soon(lambda: self._tell_lost(reason, refusal))

    def _tell_lost(self, reason: Exception, refusal: SvcError | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connectionLost(Failure(reason))
        if refusal is None:
            self.closed.callback(None)
        else:
            self.closed.errback(refusal)
            self.closed.addErrback(lambda _told: None)

    def _pace(self) -> None:
        if self._producer is None or self._is_pull:
            return
        full = self._end.is_full or self._pending_size >= _LONGEST_FRAME
        if full and not self._producer_paused:
            self._producer_paused = True
            self._producer.pauseProducing()
        elif not full and self._producer_paused:
            self._producer_paused = False
            self._producer.resumeProducing()

    def _pull(self) -> None:
        if self._producer is None or not self._is_pull or self._is_over:
            return
        if not self._end.is_full:
            self._producer.resumeProducing()
            self._end.before_writing(self._pull)
