"""TLS contexts for Twisted: TLS 1.3, our root only, the current leaf at each handshake.

A server may take TLS 1.2 as well where it is told so: the public listener, for stock clients and
fronts that have nothing newer.  Nothing else does, and our own clients never offer it.

What is made here provides Twisted's connection-creator interfaces; listeners
and endpoints take it once and never again, because each new connection is
built from the identity's material of that moment.  Sessions are never resumed.
An identity that has expired (or is not valid yet) begins no handshake.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from enum import Enum

from attrs import frozen
from cryptography import x509
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from twisted.protocols.tls import TLSMemoryBIOProtocol
from zope.interface import implementer

from svc.model.certificate import CertificateRefused
from svc.model.principal import HOLDERS, Role
from svc.pki.handshake import (
    Expect,
    HandshakeStates,
    KnownRoot,
    PeerCheck,
    PeerVerifier,
    Refused,
    anyone,
    log_refusal,
)
from svc.pki.identity import IdentityMaterial, TransportIdentity
from svc.pki.verify import ChainVerifier

H2 = (b"h2",)
_PARTIAL_WRITE = 0x1
"""SSL_MODE_ENABLE_PARTIAL_WRITE of SSL_CTX_set_mode(3)."""

TLS_ROLES: Set[Role] = HOLDERS
_SUITES = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
_SUITES_12 = (
    b"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:"
    b"ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305"
)
"""Of TLS 1.2 what HTTP/2 permits: ephemeral keys, authenticated encryption (RFC 9113 9.2.2)."""


class ClientCertificates(Enum):
    """What a server asks of those who connect; one that is shown must always be good."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


_MODES = {
    ClientCertificates.NONE: SSL.VERIFY_NONE,
    ClientCertificates.OPTIONAL: SSL.VERIFY_PEER,
    ClientCertificates.REQUIRED: SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
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
        asks=client_certificates,
    )
    asked = client_certificates is not ClientCertificates.NONE
    return ServerTLS(
        contexts=contexts,
        check=KnownRoot(identity.verifier, roles, expect) if asked else None,
        required=client_certificates is ClientCertificates.REQUIRED,
        alpn=alpn if alpn_required else (),
        refused=refused,
    )


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
    contexts = Contexts(identity, server=False, alpn=alpn, anchor=verifier.root)
    return ClientTLS(
        contexts=contexts,
        check=KnownRoot(verifier, roles, expect),
        alpn=alpn,
        server_name=server_name,
        refused=refused,
    )


class Contexts:
    """One OpenSSL context for each material an identity has had, made when first needed.

    Args:
        asks: What is asked of peers; a client that takes whoever answers asks for nothing.
    """

    def __init__(
        self,
        identity: TransportIdentity | None,
        *,
        server: bool,
        alpn: Sequence[bytes],
        send_root: bool = False,
        anchor: bytes | None = None,
        also_tls12: bool = False,
        asks: ClientCertificates = ClientCertificates.REQUIRED,
    ) -> None:
        self._identity = identity
        self._asks = asks
        self._handshakes = HandshakeStates()
        self._server = server
        self._alpn = tuple(alpn)
        self._send_root = send_root
        self._also_tls12 = also_tls12
        self._anchor = anchor if identity is None else identity.verifier.root
        self._made: dict[bool, tuple[IdentityMaterial | None, SSL.Context]] = {}

    @property
    def problem(self) -> CertificateRefused | None:
        """Why no handshake may begin now (X-48); None: one may."""
        return None if self._identity is None else self._identity.problem

    def confirm(self, connection: SSL.Connection) -> None:
        """See :meth:`svc.pki.handshake.HandshakeStates.confirm`, for those not watched."""
        self._handshakes.confirm(connection)

    def connection(self, verifier: PeerVerifier | None, *, watched: bool = True) -> SSL.Connection:
        """A connection of the current material, its side set.

        Args:
            watched: See :meth:`svc.pki.handshake.HandshakeStates.verify_handshakes`.
            verifier: Decides on its peer; None, which only contexts that ask for no certificate let
                pass: nobody does.
        """
        material = None if self._identity is None else self._identity.material
        made = self._made.get(watched)
        if made is None or made[0] is not material:
            made = self._made[watched] = material, self._make(material, watched)
        connection = SSL.Connection(made[1], None)
        if self._server:
            connection.set_accept_state()
        else:
            connection.set_connect_state()
        if verifier is not None:
            self._handshakes.open(connection, verifier)
        return connection

    def _make(self, material: IdentityMaterial | None, watched: bool) -> SSL.Context:
        context = _bare_context()
        if self._also_tls12:
            context.set_min_proto_version(SSL.TLS1_2_VERSION)
            context.set_cipher_list(_SUITES_12)
        if self._anchor is not None:
            store = context.get_cert_store()
            assert store is not None
            root = x509.load_der_x509_certificate(self._anchor)
            store.add_cert(crypto.X509.from_cryptography(root))
        if material is not None:
            leaf, *above = material.certificates
            context.use_certificate(leaf)
            context.use_privatekey(material.key)
            if self._send_root and self._anchor is not None:
                above.append(x509.load_der_x509_certificate(self._anchor))
            for each in above:
                context.add_extra_chain_cert(each)
        if self._alpn and self._server:
            context.set_alpn_select_callback(self._choose)
        elif self._alpn:
            context.set_alpn_protos(list(self._alpn))
        self._handshakes.verify_handshakes(context, _MODES[self._asks], watched=watched)
        return context

    def _choose(self, _: SSL.Connection, offered: list[bytes]) -> bytes:
        for protocol in self._alpn:
            if protocol in offered:
                return protocol
        # An SSL.Error is what Twisted's TLS layer expects of a failed handshake.
        raise SSL.Error([("svc", "alpn", "no application protocol in common")])


@frozen
class Handshake:
    """One connection, of either side; see :class:`svc.rpc.tls.VerifiedHandshake`."""

    connection: SSL.Connection
    _contexts: Contexts

    def confirm(self) -> None:
        """See there."""
        self._contexts.confirm(self.connection)


@implementer(IOpenSSLServerConnectionCreator)
class ServerTLS:
    """See :func:`server_context`."""

    def __init__(
        self,
        contexts: Contexts,
        check: PeerCheck | None,
        required: bool,
        alpn: tuple[bytes, ...],
        refused: Refused,
    ) -> None:
        self._contexts = contexts
        self._verifier = PeerVerifier(check=check, required=required, alpn=alpn, refused=refused)
        self._refused = refused

    def begin(self) -> Handshake:
        """Called by a listener of ours for each connection."""
        return Handshake(self._connection(watched=False), self._contexts)

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Called for each connection by Twisted, and inside a session."""
        connection = self._connection(watched=True)
        connection.set_app_data(tlsProtocol)
        return connection

    def _connection(self, *, watched: bool) -> SSL.Connection:
        problem = self._contexts.problem
        if problem is None:
            return self._contexts.connection(self._verifier, watched=watched)
        return _refusing(self._refused, problem, server=True)


@implementer(IOpenSSLClientConnectionCreator)
class ClientTLS:
    """See :func:`client_context`."""

    def __init__(
        self,
        contexts: Contexts,
        check: PeerCheck,
        alpn: tuple[bytes, ...],
        server_name: str | None,
        refused: Refused,
    ) -> None:
        self._contexts = contexts
        self._verifier = PeerVerifier(check=check, required=True, alpn=alpn, refused=refused)
        self._server_name = server_name
        self._refused = refused

    def begin(self) -> Handshake:
        """Called for each connection of ours that speaks gRPC."""
        return Handshake(self._connection(watched=False), self._contexts)

    def clientConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Called for each connection by Twisted, and inside a session."""
        connection = self._connection(watched=True)
        connection.set_app_data(tlsProtocol)
        return connection

    def _connection(self, *, watched: bool) -> SSL.Connection:
        problem = self._contexts.problem
        if problem is not None:
            return _refusing(self._refused, problem, server=False)
        connection = self._contexts.connection(self._verifier, watched=watched)
        if self._server_name is not None:
            connection.set_tlsext_host_name(self._server_name.encode("ascii"))
        return connection


def _bare_context() -> SSL.Context:
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.set_max_proto_version(SSL.TLS1_3_VERSION)
    context.set_tls13_ciphersuites(_SUITES)
    # A second handshake inside a connection (TLS 1.2 has one) would be judged by nobody.
    context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    # What is written goes to memory, which takes all of it: pyOpenSSL's mode for sockets would
    # have us come again for every 16 KiB.
    context.clear_mode(_PARTIAL_WRITE)
    return context


def _refusing(refused: Refused, problem: CertificateRefused, *, server: bool) -> SSL.Connection:
    """A connection that fails at its first step.

    Raising instead would leave the socket and whoever waits for it hanging:
    Twisted asks for the connection before it has a transport to close.
    """
    refused(
        CertificateRefused(
            f"our own certificate is not valid now, so no TLS connection begins: {problem.text}",
            reason=problem.reason,
        )
    )
    context = _bare_context()
    context.set_options(SSL.OP_NO_TLSv1_3)
    connection = SSL.Connection(context, None)
    if server:
        connection.set_accept_state()
    else:
        connection.set_connect_state()
    return connection
