"""TLS inside a session, with each direction closed separately.

Twisted's own TLS layer ends both directions when one side ends its own; a
session must let ``close_notify`` pass one way while the other goes on.  So
this is a TLS layer over OpenSSL's memory buffers that keeps the half-close,
takes an end of the stream without ``close_notify`` for a break (nobody
between may cut a session short unseen), and connects what it carries only
after the handshake: nothing can be sent or heard before.

Who the peer must be is decided by the connection it is given; it knows
neither certificates nor sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from OpenSSL import SSL
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IHalfCloseableProtocol,
    IProtocol,
    IPushProducer,
    ITransport,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import SvcError
from svc.interfaces.rpc import IHalfCloseableTransport
from svc.lanes.bulk import READ_BYTES
from svc.rpc.tls import Begin, VerifiedHandshake
from svc.rpc.tls_buffers import (
    put_ciphertext,
    read_record,
    release_buffers,
    sealed,
    take_ciphertext,
    write_records,
)
from svc.rpc.tls_records import RECORD_BYTES, Records, is_one_of_data

_CHUNK_BYTES = READ_BYTES


@implementer(IHalfCloseableProtocol)
class Gone(Protocol):
    """In the place of what a session carried, once it is over: so that nothing of it is held."""

    def readConnectionLost(self) -> None:
        """Nobody hears it."""

    def writeConnectionLost(self) -> None:
        """Nobody hears it."""


GONE: IProtocol = Gone()


@implementer(IHalfCloseableTransport, ITransport, IConsumer, IPushProducer, IHalfCloseableProtocol)
class SessionTls(Protocol):
    """A protocol to the stream below, a transport to the protocol above.

    Attributes:
        inner: What the session carries; connected once the handshake is done.
            It hears of the peer's end by ``readConnectionLost`` where it
            provides ``IHalfCloseableProtocol``; else both directions end.

    Args:
        begin: Makes the OpenSSL connection and what verifies its peer.
        inner: As the attribute.
        holds_last: Whether what the handshake leaves to be sent waits for what
            is written next: a server's tickets, which nobody waits for.
        soon: Runs a call in the next turn.  With it, what waits so waits no longer
            than that: a client's last flight, which goes with the first
            words of a tool that has said them already.
    """

    transport: Any
    disconnecting = False

    def __init__(
        self,
        begin: Begin,
        inner: IProtocol,
        *,
        holds_last: bool = False,
        soon: Callable[[Callable[[], object]], object] | None = None,
    ) -> None:
        # None once it has begun: what it leads to is needed by nobody any more.
        self._begin: Begin | None = begin
        self._handshake: VerifiedHandshake | None = None
        self.inner = inner
        self._holds_last = holds_last or soon is not None
        self._soon = soon
        self._is_holding = False
        self._awaits_peer = False
        self._tls: SSL.Connection | None = None
        self._secured = False
        self._refused: Failure | None = None
        self._heard_end = False
        self._said_end = False
        self._paused = False
        self._reading = False
        # How many records OpenSSL has got whole and may still give: it is not asked for more,
        # since it says "none" by an exception.
        self._records = Records()
        self._whole = 0
        self._may_owe = False
        self._is_released = False
        self.secured: Deferred[IProtocol] = Deferred(lambda _: self.abortConnection())

    @property
    def has_heard_close(self) -> bool:
        """Whether the peer has said that it writes no more."""
        return self._heard_end

    def first_flight(self, heard: bytes = b"") -> bytes:
        """Begin the handshake before there is a stream: what the stream begins with.

        Whoever takes it must send it before anything else.  Empty where there is
        none: then the handshake begins, or goes on, with the stream.

        Args:
            heard: What the client has said first, where we are the server.
        """
        tls = self._begun()
        if heard:
            self._took(tls, heard)
        try:
            tls.do_handshake()
        except SSL.WantReadError:
            self._awaits_peer = True
            return take_ciphertext(tls)
        except SSL.Error:
            pass  # It fails again once the stream stands, and is told then.
        return b""

    # -- towards the stream

    def connectionMade(self) -> None:
        """Begin the handshake, or go on with it."""
        if self._tls is None:
            self._begun()
        if not self._awaits_peer:
            self._shake_hands()

    def dataReceived(self, data: bytes) -> None:
        """Ciphertext came."""
        if self._tls is None or self._refused is not None:
            return
        put_ciphertext(self._tls, data)
        self._whole += self._records.ended_by(data)
        if not self._secured:
            self._shake_hands()
        if self._secured:
            self._read()
            if not self._is_released:
                self._release()

    def readConnectionLost(self) -> None:
        """The stream's own end: in order only after the peer's ``close_notify``."""
        if not self._heard_end:
            self._fail(Failure(ConnectionLost("the stream ended without close_notify")))

    def writeConnectionLost(self) -> None:
        """The stream takes no more; what we had to say was said before."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The stream is gone: so is the session."""
        if self._secured and self._refused is None:
            self._paused = False
            self._read()
        if self._refused is not None:
            reason = self._refused
        elif (
            isinstance(reason.value, ConnectionDone)
            and not self._heard_end
            and not self.disconnecting
        ):
            # Our own half-close says nothing about the peer's end: whoever is between may cut.
            reason = Failure(ConnectionLost("the stream ended without close_notify"))
        self._tls = None
        inner, self.inner = self.inner, GONE
        if self._secured:
            self.secured = succeed(GONE)  # The former one has *inner* for its result.
            inner.connectionLost(reason)
        elif not self.secured.called:
            self.secured.errback(reason)

    # -- towards the protocol above

    def write(self, data: bytes) -> None:
        """Encrypt and send; nothing after our own end."""
        if self._tls is None or self._said_end or self._refused is not None or not data:
            return
        try:
            if len(data) <= RECORD_BYTES:
                ciphertext = sealed(self._tls, data)
            else:
                left = memoryview(data)
                while left:
                    # One record may go at a time: OpenSSL is told to write in parts.
                    left = left[write_records(self._tls, left) :]
                ciphertext = take_ciphertext(self._tls)
        except SSL.Error:
            self._fail(Failure())
        else:
            self._is_holding = self._may_owe = False
            self.transport.write(ciphertext)
            if not self._is_released:  # a server's tickets went only with this
                self._release()

    def seal(self, data: bytes) -> bytes | None:
        """The record of *data*, for whoever sends it in its turn; None to :meth:`write` it instead.

        Args:
            data: At most :data:`RECORD_BYTES`.
        """
        if self._tls is None or self._said_end or self._refused is not None:
            return None
        try:
            return sealed(self._tls, data)
        except SSL.Error:
            self._fail(Failure())
            return b""

    def open(self, data: bytes) -> bytes | None:
        """What the one record *data* holds; None to deliver *data* by :meth:`dataReceived` instead.

        Empty where it holds no data but a word of TLS itself, which has been heeded.
        """
        is_usual = is_one_of_data(data) and self._records.is_between and not self._whole
        if not is_usual or self._reading or not self._secured or not self._wants_more():
            return None
        assert self._tls is not None
        put_ciphertext(self._tls, data)
        self._whole = 1
        opened = self._next_record()
        if self._heard_end:
            self._tell_end()
        if not opened:
            self._flush_read()
        return opened

    def writeSequence(self, data: Any) -> None:
        """Likewise, of several."""
        self.write(b"".join(data))

    def loseWriteConnection(self) -> None:
        """Say that we have no more to say; the peer may go on."""
        if self._tls is None or self._said_end or not self._secured:
            return
        self._said_end = True
        try:
            self._tls.shutdown()
        except SSL.Error:
            self._fail(Failure())
        else:
            self._flush()

    def loseConnection(self) -> None:
        """End both directions in order, after what was written."""
        if self.disconnecting or self.transport is None:
            return
        self.disconnecting = True
        if not self._secured:
            self.abortConnection()
            return
        self.loseWriteConnection()
        self.transport.loseConnection()

    def abortConnection(self) -> None:
        """End both directions at once."""
        self.disconnecting = True
        if self.transport is not None:
            self.transport.abortConnection()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Register a producer, which is paused when the stream is full."""
        self.transport.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        """The producer writes no more."""
        self.transport.unregisterProducer()

    def pauseProducing(self) -> None:
        """Deliver no more for now."""
        self._paused = True
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Deliver again, first what came before the pause."""
        self._paused = False
        if self._secured:
            self._read()
        if not self._paused:
            self.transport.resumeProducing()

    def stopProducing(self) -> None:
        """The reader has gone."""
        self.loseConnection()

    def getPeer(self) -> IAddress:
        """Of the stream below."""
        return cast(IAddress, self.transport.getPeer())

    def getHost(self) -> IAddress:
        """Of the stream below."""
        return cast(IAddress, self.transport.getHost())

    def getHandle(self) -> SSL.Connection | None:
        """The OpenSSL connection, for reading the peer's certificate."""
        return self._tls

    # -- inside

    def _begun(self) -> SSL.Connection:
        assert self._begin is not None
        begin, self._begin = self._begin, None
        self._handshake = begin()
        self._tls = self._handshake.connection
        return self._tls

    def _took(self, tls: SSL.Connection, data: bytes) -> None:
        put_ciphertext(tls, data)
        self._whole += self._records.ended_by(data)

    def _shake_hands(self) -> None:
        assert self._tls is not None and self._handshake is not None
        try:
            self._tls.do_handshake()
        except SSL.WantReadError:
            self._flush()
            return
        except SSL.Error:
            self._flush()
            self._fail(Failure())
            return
        try:
            self._handshake.confirm()
        except SvcError:
            self._fail(Failure())
        self._handshake = None
        self._is_holding, self._may_owe = self._holds_last, True
        self._flush_read()
        if self._refused is None:
            self._secured = True
            self.inner.makeConnection(self)
            if self._is_holding and self._soon is not None:
                self._soon(self._stop_holding)
            if not self.secured.called:
                self.secured.callback(self.inner)

    def _release(self) -> None:
        """Once: give back what the handshake made of the buffers, when they are empty."""
        if not self._reading and self._tls is not None:
            self._is_released = release_buffers(self._tls)

    def _flush_read(self) -> None:
        """Send what reading left to be sent: nothing, where each record held data."""
        if self._may_owe and not self._is_holding:
            self._flush()

    def _stop_holding(self) -> None:
        if self._is_holding and not self.disconnecting:
            self._flush()

    def _flush(self) -> None:
        """Send what OpenSSL has made."""
        self._is_holding = self._may_owe = False
        ciphertext = b"" if self._tls is None else take_ciphertext(self._tls)
        if ciphertext:
            self.transport.write(ciphertext)

    def _read(self) -> None:
        """Deliver what is decrypted, unless paused; never from within itself."""
        if self._reading:
            return
        self._reading = True
        try:
            # Nothing is left to be said of an end that was told already.
            while self._whole and self._wants_more():
                if not self._deliver():
                    break
        finally:
            self._reading = False
        if self._may_owe and not self._is_holding:
            self._flush()

    def _wants_more(self) -> bool:
        open_here = self._tls is not None and self._refused is None
        return open_here and not self._paused and not self._heard_end

    def _deliver(self) -> bool:
        """Hand over up to a chunk; whether there may be more."""
        pieces, size = [], 0
        while self._whole and size < _CHUNK_BYTES:
            piece = self._next_record()
            pieces.append(piece)
            size += len(piece)
        if self._refused is not None:
            return False
        if size:
            self.inner.dataReceived(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._heard_end:
            self._tell_end()
        return self._whole > 0

    def _next_record(self) -> bytes:
        """The data of the next record; empty where there is none, or no more."""
        assert self._tls is not None
        self._whole -= 1
        try:
            return read_record(self._tls)
        except SSL.WantReadError:
            pass
        except SSL.ZeroReturnError:
            self._heard_end = True
        except SSL.Error:
            self._fail(Failure())
        self._whole, self._may_owe = 0, True
        return b""

    def _tell_end(self) -> None:
        if IHalfCloseableProtocol.providedBy(self.inner):
            inner: Any = self.inner  # no cast, which is a call
            inner.readConnectionLost()
        else:
            self.loseConnection()

    def _fail(self, reason: Failure) -> None:
        if self._refused is None:
            self._refused = reason
            self.abortConnection()
