"""TLS towards an application, whose certificate is verified: no setting leaves that out."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificates
from OpenSSL.crypto import FILETYPE_ASN1
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.ssl import (
    Certificate,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from svc.errors import SvcError

_MOST_BYTES = 1 << 20
"""Of a file of certificates."""


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
        try:
            options: Any = optionsForClientTLS(
                self.server_name,
                trustRoot=_authorities(self.ca_file) if self.ca_file else platformTrust(),
                acceptableProtocols=[b"http/1.1"],
            )
        except ValueError as error:
            raise SvcError(
                f"{self.server_name} cannot be in a certificate: {error}", reason="target_untrusted"
            ) from None
        factory = TLSMemoryBIOFactory(options, isClient=True, wrappedFactory=protocolFactory)
        connecting: Any = self.below.connect(factory)
        return connecting.addCallback(lambda tls: tls.wrappedProtocol)  # type: ignore[no-any-return]


def _authorities(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            found = load_pem_x509_certificates(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        raise SvcError(
            f"{path}: no file of certificates in PEM can be read there", reason="target_untrusted"
        ) from None
    return trustRootFromCertificates(
        [Certificate.load(one.public_bytes(Encoding.DER), FILETYPE_ASN1) for one in found]
    )
