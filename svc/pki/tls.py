"""TLS contexts for Twisted: TLS 1.3, our root only, the current leaf at each handshake.

A server may take TLS 1.2 as well where it is told so: the public listener, for stock clients and
fronts that have nothing newer.  Nothing else does, and our own clients never offer it.

What is made here provides Twisted's connection-creator interfaces; listeners
and endpoints take it once and never again, because each new connection is
built from the identity's material of that moment.  Sessions are never resumed.
An identity that has expired (or is not valid yet) begins no handshake.
"""

from __future__ import annotations

from collections.abc import Set
from enum import Enum

from attrs import frozen
from OpenSSL import SSL
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from twisted.protocols.tls import TLSMemoryBIOProtocol
from zope.interface import implementer

from svc.model.principal import HOLDERS, Role
from svc.pki.handshake import (
    MUST_SHOW,
    Contexts,
    Handshake,
    PeerVerifier,
    Refused,
    log_refusal,
)
from svc.pki.identity import TransportIdentity
from svc.pki.peers import Expect, KnownRoot, anyone
from svc.pki.verify import ChainVerifier

H2 = (b"h2",)

TLS_ROLES: Set[Role] = HOLDERS


class ClientCertificates(Enum):
    """What a server asks of those who connect; one that is shown must always be good."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


_MODES = {
    ClientCertificates.NONE: SSL.VERIFY_NONE,
    ClientCertificates.OPTIONAL: SSL.VERIFY_PEER,
    ClientCertificates.REQUIRED: MUST_SHOW,
}


def server_context(
    identity: TransportIdentity,
    client_certificates: ClientCertificates = ClientCertificates.OPTIONAL,
    *,
    roles: Set[Role] = TLS_ROLES,
    expect: Expect = anyone,
    alpn: tuple[bytes, ...] = H2,
    alpn_required: bool = False,
    send_root: bool = False,
    also_tls12: bool = False,
    refused: Refused = log_refusal,
) -> ServerTLS:
    """The TLS context for a listener.

    Args:
        identity: Whose current material each new connection uses.
        roles: Whose certificates are accepted.
        expect: A further check of a peer that showed a certificate.
        alpn: Protocols served, best first; a client that offers others only
            gets an alert.
        alpn_required: Whether a client that offers none is refused as well.
        send_root: Whether the root goes along; the join listener's clients
            know only its pin.
        also_tls12: Whether TLS 1.2 is taken too; nothing older ever is.
        refused: Hears why a peer, or our own identity, was refused.
    """
    contexts = Contexts(
        identity,
        server=True,
        alpn=alpn,
        send_root=send_root,
        also_tls12=also_tls12,
        mode=_MODES[client_certificates],
    )
    asked = client_certificates is not ClientCertificates.NONE
    verifier = PeerVerifier(
        check=KnownRoot(identity.verifier, roles, expect) if asked else None,
        required=client_certificates is ClientCertificates.REQUIRED,
        alpn=alpn if alpn_required else (),
        refused=refused,
    )
    return ServerTLS(contexts, verifier)


def client_context(
    verifier: ChainVerifier,
    identity: TransportIdentity | None,
    *,
    roles: Set[Role],
    expect: Expect = anyone,
    alpn: tuple[bytes, ...] = H2,
    server_name: str | None = None,
    refused: Refused = log_refusal,
) -> ClientTLS:
    """What TLS needs to connect to one of our own servers, ours or that of Twisted.

    The server is known by its chain to the pinned root, its role and what
    *expect* says of its principal; its host name proves nothing and is not
    checked.

    Args:
        identity: Whose certificate is shown; None shows none.
        server_name: Sent as SNI where a front routes by it; a DNS name.
    """
    contexts = Contexts(
        identity, server=False, alpn=alpn, anchor=verifier.root, server_name=server_name
    )
    check = KnownRoot(verifier, roles, expect)
    return ClientTLS(contexts, PeerVerifier(check=check, required=True, alpn=alpn, refused=refused))


@implementer(IOpenSSLServerConnectionCreator)
@frozen
class ServerTLS:
    """See :func:`server_context`; what a connection's peer must be stands in *verifier*."""

    contexts: Contexts
    verifier: PeerVerifier

    def begin(self) -> Handshake:
        """Called by a listener of ours for each connection, and inside a session."""
        return self.contexts.begin(self.verifier)

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Called for each connection by Twisted."""
        connection = self.contexts.connection(self.verifier)
        connection.set_app_data(tlsProtocol)
        return connection


@implementer(IOpenSSLClientConnectionCreator)
@frozen
class ClientTLS:
    """See :func:`client_context`; what the server must be stands in *verifier*."""

    contexts: Contexts
    verifier: PeerVerifier

    def begin(self) -> Handshake:
        """Called for each connection of ours that speaks gRPC, and inside a session."""
        return self.contexts.begin(self.verifier)

    def clientConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Called for each connection by Twisted."""
        connection = self.contexts.connection(self.verifier)
        connection.set_app_data(tlsProtocol)
        return connection
