"""TLS for gRPC, of a listener and of whoever dials it: OpenSSL between two memory buffers.

What Twisted's own layer does for any protocol over any transport, this does for HTTP/2 at a part
of its cost (docs/adr/0012-tls-on-listeners.md and 0033 say what was measured):

- Nothing of the protocol above is read or written before the peer was judged; what it writes
  goes out in one piece, at once where the socket takes it (``outlet``).
- OpenSSL is asked for what it has decrypted only where a whole record came (``tls_records``).
- Both directions end together, as HTTP/2 has it: our ``close_notify`` is followed by the peer's,
  and an end of the stream without one is a loss.

How long a handshake may take is the matter of the protocol above, which is connected from the
first moment on.  Who the peer must be is decided by what it is given; it knows no certificates.
``server.tls`` and ``client.tls`` say how a connection begins on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast
from typing import Protocol as Typed

from OpenSSL import SSL, crypto
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IConsumer,
    INegotiated,
    IPushProducer,
    ISSLTransport,
    ISystemHandle,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import SvcError
from svc.rpc.tls_buffers import (
    put_ciphertext,
    read_record,
    release_buffers,
    sealed,
    take_ciphertext,
)
from svc.rpc.tls_output import CiphertextOutlet
from svc.rpc.tls_records import Records


class VerifiedHandshake(Typed):
    """The OpenSSL side of one connection, and the verifier of its peer."""

    @property
    def connection(self) -> SSL.Connection:
        """Over memory buffers, its side set."""

    def confirm(self) -> None:
        """Called once when the handshake is done, before a byte of the peer's is read.

        Raises:
            SvcError: the peer is not served.
        """


class HandshakeSource(Typed):
    """Begins the handshakes of one side, each with the same peer."""

    def begin(self) -> VerifiedHandshake:
        """Called once for each connection."""


Begin = Callable[[], VerifiedHandshake]
"""Makes what one connection needs; never blocks."""


@implementer(ISSLTransport, IConsumer, IPushProducer, INegotiated, ISystemHandle)
class TlsTransport(Protocol):
    """A protocol to the socket, a transport to the protocol above.

    Attributes:
        inner: Connected at once; its ``handshakeCompleted`` is called when it may speak.

    Args:
        begin: Called once, when the handshake begins.
        inner: As the attribute.
    """

    transport: Any
    disconnecting = False

    def __init__(self, begin: Begin, inner: Any) -> None:
        self.inner = inner
        self._begin = begin
        self._handshake: VerifiedHandshake | None = None
        self._tls: SSL.Connection | None = None
        self._outlet: CiphertextOutlet | None = None
        self._early: list[bytes] | None = None
        self._is_secured = False
        self._is_over = False
        self._heard_end = False
        self._reason: Failure | None = None
        self._records = Records()
        # How many records OpenSSL has got whole and may still give.
        self._whole = 0
        self._is_released = False

    # -- towards the socket

    def connectionMade(self) -> None:
        """Connect the protocol above."""
        self._outlet = CiphertextOutlet(self.transport)
        self.inner.makeConnection(self)

    def dataReceived(self, data: bytes) -> None:
        """Ciphertext came."""
        if self._is_over:
            return
        tls = self._tls or self._begun()
        put_ciphertext(tls, data)
        self._whole += self._records.ended_by(data)
        if self._is_secured:
            self._read()
            if not self._is_released:
                self._release()
        elif self._shake_hands():
            # What the handshake leaves to be said goes with the first words of HTTP/2.
            self._read()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The socket is gone: so is everything above it."""
        self._is_over = True
        self._is_settled()
        self._tls = self._handshake = None
        self._early = None
        if self._outlet is not None:
            self._outlet.close()
        if self._reason is not None:
            reason, self._reason = self._reason, None
        elif isinstance(reason.value, ConnectionDone) and not self._heard_end:
            reason = Failure(ConnectionLost("the stream ended without close_notify"))
        self.inner.connectionLost(reason)

    # -- towards the protocol above

    def write(self, data: bytes) -> None:
        """Encrypt and send; what is written before the handshake is done waits for it."""
        if self._is_over or (self.disconnecting and self._producer is None) or not data:
            return
        if not self._is_secured:
            if self._early is None:
                self._early = []
            self._early.append(data)
            return
        assert self._tls is not None and self._outlet is not None
        try:
            # All of it: the context asks for whole writes, and memory takes them.
            ciphertext = sealed(self._tls, data)
        except SSL.Error:
            self._end(Failure())
        else:
            self._outlet.write(ciphertext)

    def writeSequence(self, data: Iterable[bytes]) -> None:
        """Likewise, of several."""
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        """Close properly once no producer is registered; immediately if no peer is known yet."""
        if self.disconnecting or self.transport is None:
            return
        if not self._is_secured:
            self.abortConnection()
            return
        self.disconnecting = True
        if self._producer is None:
            self._say_end()

    def loseWriteConnection(self) -> None:
        """As :meth:`loseConnection`: the directions end together."""
        self.loseConnection()

    def abortConnection(self) -> None:
        """End at once; nothing more is delivered."""
        self.disconnecting = self._is_over = True
        if self._outlet is not None:
            self._outlet.close()
        if self.transport is not None:
            self.transport.abortConnection()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """*producer* is paused while the socket is full; only one, and only one that pushes."""
        if not streaming:
            raise RuntimeError("TLS takes push producers only")
        if self._producer is not None:
            raise RuntimeError("a producer is registered already")
        if self._is_over or self._outlet is None:
            producer.stopProducing()
        else:
            self._outlet.producer = producer

    def unregisterProducer(self) -> None:
        """The producer writes no more."""
        if self._outlet is not None and self._producer is not None:
            self._outlet.producer = None
            if self.disconnecting and not self._is_over:
                self._say_end()

    def pauseProducing(self) -> None:
        """Read nothing more for now; what was read is delivered."""
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Read again."""
        self.transport.resumeProducing()

    def stopProducing(self) -> None:
        """Nobody listens any more."""
        self.loseConnection()

    def getPeer(self) -> IPv4Address | IPv6Address:
        """Of the socket."""
        return cast(IPv4Address, self.transport.getPeer())

    def getHost(self) -> IPv4Address | IPv6Address:
        """Of the socket."""
        return cast(IPv4Address, self.transport.getHost())

    def getHandle(self) -> SSL.Connection | None:
        """The OpenSSL connection; None before the first bytes and after the end."""
        return self._tls

    def getPeerCertificate(self) -> crypto.X509 | None:
        """What the peer showed, None where it showed none."""
        return None if self._tls is None else self._tls.get_peer_certificate()

    @property
    def negotiatedProtocol(self) -> bytes | None:
        """By ALPN; None where none was agreed."""
        agreed = b"" if self._tls is None else self._tls.get_alpn_proto_negotiated()
        return agreed or None

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Set it on the socket, if there is one."""
        if hasattr(self.transport, "setTcpNoDelay"):
            self.transport.setTcpNoDelay(enabled)

    def getTcpNoDelay(self) -> bool:
        """Of the socket."""
        return bool(self.transport.getTcpNoDelay())

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Of the socket, where there is one."""
        if hasattr(self.transport, "setTcpKeepAlive"):
            self.transport.setTcpKeepAlive(enabled)

    def getTcpKeepAlive(self) -> bool:
        """Of the socket."""
        return bool(self.transport.getTcpKeepAlive())

    # -- inside

    def _begun(self) -> SSL.Connection:
        """OpenSSL's connection, made when it is first needed."""
        self._is_beginning()
        self._handshake = self._begin()
        self._tls = self._handshake.connection
        return self._tls

    def _is_beginning(self) -> None:
        """The handshake is under way from now on."""

    def _is_settled(self) -> None:
        """It is not any more, if it ever was.  Idempotent."""

    @property
    def _producer(self) -> Any:
        return None if self._outlet is None else self._outlet.producer

    def _shake_hands(self) -> bool:
        """Go on with the handshake; whether it is done and the peer may be heard."""
        assert self._tls is not None and self._handshake is not None
        try:
            self._tls.do_handshake()
        except SSL.WantReadError:
            self._flush()
            return False
        except SSL.Error:
            self._end(Failure())
            return False
        try:
            self._handshake.confirm()
        except SvcError:
            self._reason = Failure()
            self.abortConnection()
            return False
        self._handshake = None
        self._is_secured = True
        self._is_settled()
        self.inner.handshakeCompleted()
        early, self._early = self._early, None
        if early:
            self.write(b"".join(early))
        return not self._is_over

    def _read(self) -> None:
        """Deliver what has come, in one piece; it is no longer than one read of the socket.

        What OpenSSL has to say to it is sent: nothing, where each record held data.
        """
        tls = self._tls
        assert tls is not None
        pieces: list[bytes] = []
        broken: Failure | None = None
        owes = False
        while self._whole:
            self._whole -= 1
            try:
                pieces.append(read_record(tls))
                continue
            except SSL.WantReadError:
                pass  # It was a word of TLS itself.
            except SSL.ZeroReturnError:
                self._heard_end = True
            except SSL.Error:
                broken = Failure()
            self._whole, owes = 0, True
        if pieces:
            self.inner.dataReceived(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._is_over:
            return
        if self._heard_end:
            self._say_end()
            self._end(None)
        elif broken is not None:
            self._end(broken)
        elif owes:
            self._flush()

    def _release(self) -> None:
        """Once: give back what the handshake made of the buffers, when they are empty."""
        if not self._is_over and self._tls is not None:
            self._is_released = release_buffers(self._tls)

    def _flush(self) -> None:
        """Send what OpenSSL has made."""
        if self._tls is not None and self._outlet is not None and not self._is_over:
            self._outlet.write(take_ciphertext(self._tls))

    def _say_end(self) -> None:
        if self._tls is None:
            return
        try:
            is_mutual = self._tls.shutdown()
        except SSL.Error:
            is_mutual = False
        self._flush()
        if is_mutual:
            self._leave()

    def _end(self, reason: Failure | None) -> None:
        """TLS is over; the socket ends when it has taken the last word (an alert, perhaps)."""
        self._reason = self._reason or reason
        self._flush()
        self._is_over = True
        self._leave()

    def _leave(self) -> None:
        assert self._outlet is not None
        self._outlet.finish()
        self.transport.loseConnection()
