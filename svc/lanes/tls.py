"""TLS that can end one direction and keep the other, for end-to-end sessions.

Twisted's TLS answers the peer's ``close_notify`` with a full close, so ``nc -N`` or a database
dump through it would lose its answer.  TLS 1.3 ends each direction by itself (RFC 8446 6.1): here
``loseWriteConnection`` sends our ``close_notify`` and goes on reading, and the peer's becomes
``readConnectionLost`` for protocols that know half-close.  The end is thereby authenticated: who
carries the bytes cannot fake it.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from OpenSSL.SSL import Error, WantReadError, ZeroReturnError
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import BufferingTLSTransport, TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.interfaces.rpc import IHalfCloseableTransport


@implementer(IHalfCloseableTransport)
class HalfCloseTLS(BufferingTLSTransport):
    """One TLS connection whose directions end one by one."""

    _read_ended = False
    _write_ended = False

    def loseWriteConnection(self) -> None:
        """Send what is queued, then our end; reading goes on.  Idempotent."""
        if self._write_ended or self.disconnecting or not self.connected:
            return
        self._aggregator.flush()
        self._write_ended = True
        self.write = _drop  # type: ignore[method-assign]
        if not self._appSendBuffer:
            self._send_end()

    @property
    def _stock(self) -> Any:
        """Twisted's own methods, which have no annotations."""
        return self

    def _send_end(self) -> None:
        if self._read_ended:
            self.loseConnection()
        else:
            self._tlsConnection.shutdown()
            self._stock._flushSendBIO()

    def _unbufferPendingWrites(self) -> None:
        # Writes from before the handshake: the end waits behind them.
        stock: Any = super()
        stock._unbufferPendingWrites()
        if self._write_ended and not self._appSendBuffer and not self.disconnecting:
            self._send_end()

    def _flushReceiveBIO(self) -> None:
        while not self._lostTLSConnection and not self._read_ended:
            try:
                data = self._tlsConnection.recv(2**15)
            except WantReadError:
                break
            except ZeroReturnError:
                self._peer_ended()
            except Error:
                self._stock._tlsShutdownFinished(Failure())
            else:
                if not self._aborted:
                    ProtocolWrapper.dataReceived(self, data)
        self._stock._flushSendBIO()

    def _peer_ended(self) -> None:
        both = self._write_ended or self.disconnecting
        if both or not IHalfCloseableProtocol.providedBy(self.wrappedProtocol):
            self._stock._shutdownTLS()
            self._stock._tlsShutdownFinished(None)
            return
        self._read_ended = True
        self.wrappedProtocol.readConnectionLost()


def _drop(_data: bytes) -> None:
    """Nothing is written after the end of writing."""


class HalfCloseTLSFactory(TLSMemoryBIOFactory):
    """Puts :class:`HalfCloseTLS` under what the wrapped factory builds.

    Takes what Twisted's factory takes: ``(options, is_client, factory, clock)``.
    """

    protocol = HalfCloseTLS


@implementer(IStreamClientEndpoint)
@frozen
class HalfCloseTLSEndpoint:
    """Like ``wrapClientTLS``, with half-close.

    Args:
        options: What ``optionsForClientTLS`` gives, or any connection creator.
        endpoint: What carries the TLS.
        clock: Times the joining of small writes.
    """

    options: Any
    endpoint: IStreamClientEndpoint
    clock: IReactorTime

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect; fires with the application's protocol, before the handshake is done."""
        factory = HalfCloseTLSFactory(self.options, True, protocolFactory, self.clock)
        connecting: Deferred[Any] = self.endpoint.connect(factory)
        return connecting.addCallback(lambda wrapper: wrapper.wrappedProtocol)
