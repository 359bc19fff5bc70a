"""TLS for gRPC where a listener is dialed: begun as soon as the socket stands."""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IAddress,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory
from zope.interface import implementer

from svc.rpc.tls import Begin, TlsTransport


class TlsClient(TlsTransport):
    """The dialing side."""

    def connectionMade(self) -> None:
        """Speak first."""
        super().connectionMade()
        if not self._is_over:
            self._begun()
            self._shake_hands()


@implementer(IStreamClientEndpoint)
class TlsEndpoint:
    """An endpoint with TLS for gRPC over what another endpoint connects.

    Args:
        begin: Makes what one connection needs.
        below: Where the stream comes from.
    """

    def __init__(self, begin: Begin, below: IStreamClientEndpoint) -> None:
        self._begin = begin
        self._below = below

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Fires with what *protocolFactory* built, before the handshake is done."""
        wrapping = Factory()
        wrapping.noisy = False
        wrapping.doStart = protocolFactory.doStart  # type: ignore[method-assign]
        wrapping.doStop = protocolFactory.doStop  # type: ignore[method-assign]

        def build(address: IAddress) -> TlsClient | None:
            inner = protocolFactory.buildProtocol(address)
            return None if inner is None else TlsClient(self._begin, inner)

        wrapping.buildProtocol = build  # type: ignore
        connecting = cast("Deferred[TlsClient]", self._below.connect(wrapping))
        return connecting.addCallback(lambda tls: cast(IProtocol, tls.inner))
