"""An endpoint that runs TLS, with HTTP/1.1 in it, over what another connects."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from svc.kinds.verified_tls import verified_tls


@implementer(IStreamClientEndpoint)
@frozen(kw_only=True)
class VerifiedTlsEndpoint:
    """Runs TLS, with HTTP/1.1 in it, over what another endpoint connects.

    Attributes:
        server_name: What the certificate must be for.
        ca_file: Of the authorities that may have signed it; empty: the system's.
    """

    below: IStreamClientEndpoint
    server_name: str
    ca_file: str

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Fires before the handshake is done: an ``IHandshakeListener`` is told of that."""
        options = verified_tls(self.server_name, self.ca_file, b"http/1.1")
        factory = TLSMemoryBIOFactory(options, isClient=True, wrappedFactory=protocolFactory)
        connecting: Any = self.below.connect(factory)
        return connecting.addCallback(lambda tls: tls.wrappedProtocol)  # type: ignore[no-any-return]
