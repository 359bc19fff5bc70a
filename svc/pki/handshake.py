"""Verifies the peer inside the TLS handshake, so that no byte passes before the verdict.

OpenSSL builds the chain and checks its signatures against our one root; our
own verifier then has the last word in the same callback, by our own clock.  An
issuing CA that OpenSSL has verified is not verified again by the same context.  A
refusal there is a TLS alert, and the application's protocol sees nothing but
the end of its connection.  A second look when the handshake is done catches
every way around the callback (a resumed session, a peer without certificate).

Each connection is of OpenSSL's context for our material of that moment; past the end of our own
certificate none begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

from attrs import define, field, frozen
from cryptography import x509
from OpenSSL import SSL, crypto
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from svc.errors import SvcError
from svc.model.certificate import CertificateRefused
from svc.pki.identity import IdentityMaterial, TransportIdentity
from svc.pki.peers import PeerCheck
from svc.pki.verify import Shown, der_of

_log = Logger(namespace="svc_pki")

# OpenSSL's X509_V_ERR_*: times are judged by our clock, not by the system's.
_NOT_YET_VALID, _EXPIRED, _SELF_SIGNED_IN_CHAIN = 9, 10, 19

_WHOLE = 3
"""Leaf, issuing CA and root."""

_PARTIAL_WRITE = 0x1
"""SSL_MODE_ENABLE_PARTIAL_WRITE of SSL_CTX_set_mode(3)."""

_SUITES = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
_SUITES_12 = (
    b"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:"
    b"ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305"
)
"""Of TLS 1.2 what HTTP/2 permits: ephemeral keys, authenticated encryption (RFC 9113 9.2.2)."""

MUST_SHOW: int = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
"""Of a peer that is not served without a certificate."""

Refused = Callable[[SvcError], object]
"""Hears why a peer was refused; the peer itself learns no more than a TLS alert."""


def log_refusal(error: SvcError) -> None:
    """The listener for refusals if there is no other."""
    _log.info("TLS handshake refused", reason=error.reason, error=error.text)


@frozen(kw_only=True)
class PeerVerifier:
    """Decides on peers.

    Attributes:
        check: Decides on the peer's chain; None where no certificate is asked for.
        required: Whether a peer without certificate is refused.
        alpn: The protocols of which one must have been agreed; empty lets any pass.
        refused: Hears why.
    """

    check: PeerCheck | None
    required: bool
    alpn: tuple[bytes, ...]
    refused: Refused

    def on_certificate(
        self, state: HandshakeState, certificate: crypto.X509, error: int, depth: int
    ) -> bool:
        """A certificate of the chain, root first, leaf last; False ends the handshake.

        Args:
            error: What OpenSSL has against it, 0 for nothing.
        """
        try:
            return self._hears(state, certificate, error, depth)
        except Exception:
            # Whatever a strange certificate brings about is a no; it must not pass through OpenSSL.
            _log.failure("a peer's certificate cannot be checked")
            self.refused(CertificateRefused("the peer's certificate cannot be checked"))
            return False

    def _hears(
        self, state: HandshakeState, certificate: crypto.X509, error: int, depth: int
    ) -> bool:
        if self.check is None:
            return False
        if error:
            return error in (_NOT_YET_VALID, _EXPIRED) or (
                error == _SELF_SIGNED_IN_CHAIN and self.check.trusts(der_of(certificate))
            )
        state.chain[depth] = certificate
        if depth > 0:
            return True
        found, state.chain = state.chain, {}
        chain = [found[depth] for depth in sorted(found)]
        state.accepted = self._verdict(self.check, chain)
        state.issuer = chain[1] if len(chain) == _WHOLE else None
        return state.accepted

    def on_done(self, connection: SSL.Connection, state: HandshakeState) -> None:
        """The handshake is over: catch every way around :meth:`on_certificate`.

        Raises:
            CertificateRefused: *refused* has heard why.
        """
        if not state.accepted and (self.required or connection.get_peer_certificate() is not None):
            self._refuse("the peer's certificate was not checked")
        elif self.alpn and connection.get_alpn_proto_negotiated() not in self.alpn:
            self._refuse("no application protocol was agreed")

    def _verdict(self, check: PeerCheck, chain: Shown) -> bool:
        try:
            check.accept(chain)
        except SvcError as error:
            self.refused(error)
            return False
        return True

    def _refuse(self, text: str) -> None:
        error = CertificateRefused(text)
        self.refused(error)
        raise error


@define(eq=False)
class HandshakeState:
    """One handshake that is being verified."""

    verifier: PeerVerifier
    chain: dict[int, crypto.X509] = field(factory=dict)
    accepted: bool = False
    issuer: crypto.X509 | None = None
    """Of the peer's certificate, where OpenSSL has just verified it by the root."""


class Contexts:
    """One OpenSSL context for each material an identity has had, made when first needed.

    OpenSSL's callbacks are a context's, and lead from here to the verifier of each connection: one
    of each sort for a connection would weigh kilobytes for as long as the connection lives.

    Args:
        identity: Whose certificate is shown; None shows none.
        server_name: Sent as SNI where a front routes by it; a DNS name.
        mode: What OpenSSL asks of a peer, as ``SSL_CTX_set_verify`` takes it; a client that takes
            whoever answers asks for nothing.
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
        server_name: str | None = None,
        mode: int = MUST_SHOW,
    ) -> None:
        self._identity = identity
        self._mode = mode
        self._server_name = server_name
        self._server = server
        self._alpn = tuple(alpn)
        self._send_root = send_root
        self._also_tls12 = also_tls12
        self._anchor = anchor if identity is None else identity.verifier.root
        self._made: dict[bool, tuple[IdentityMaterial | None, SSL.Context]] = {}
        self._prepared: tuple[SSL.Context, SSL.Connection] | None = None
        self._open: WeakKeyDictionary[SSL.Connection, HandshakeState] = WeakKeyDictionary()

    def begin(self, verifier: PeerVerifier) -> Handshake:
        """A handshake that whoever runs it confirms once it is done.

        OpenSSL tells of some twenty steps to get there, and of none of them here.
        """
        return Handshake(self.connection(verifier, watched=False), self)

    def connection(self, verifier: PeerVerifier | None, *, watched: bool = True) -> SSL.Connection:
        """A connection of the current material, its side set.

        It fails at its first step where our own certificate is not valid now (X-48).

        Args:
            verifier: Decides on its peer; None, which only contexts that ask for no certificate let
                pass: nobody does.
            watched: Whether the end of the handshake is heard of here, for Twisted's protocols,
                which know no verifiers; otherwise whoever runs it calls :meth:`confirm`.
        """
        material = None
        if self._identity is not None:
            try:
                material = self._identity.usable()
            except CertificateRefused as problem:
                return self._refusing(problem, verifier)
        context = self._context(material, watched)
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[0] is context:
            connection = prepared[1]
        else:
            connection = self._sided(context)
        if verifier is not None:
            self._open[connection] = HandshakeState(verifier)
        return connection

    def prepare(self) -> None:
        """Make the keys and the first flight of the next client that :meth:`begin` begins.

        They are of our present material, and good for that one connection.
        """
        if self._prepared is not None or self._identity is None:
            return
        with suppress(SvcError, SSL.Error):
            context = self._context(self._identity.usable(), watched=False)
            connection = self._sided(context)
            try:
                connection.do_handshake()
            except SSL.WantReadError:
                self._prepared = context, connection

    def _context(self, material: IdentityMaterial | None, watched: bool) -> SSL.Context:
        made = self._made.get(watched)
        if made is None or made[0] is not material:
            made = self._made[watched] = material, self._make(material, watched)
        return made[1]

    def confirm(self, connection: SSL.Connection) -> None:
        """The second look, when the handshake is done and before a byte of the peer's is read.

        Raises:
            CertificateRefused: the peer is not served, or nobody was put in charge of it.
        """
        state = self._open.pop(connection, None)
        if state is None:
            raise CertificateRefused("nothing checks this connection's peer")
        state.verifier.on_done(connection, state)
        if state.issuer is not None and self._anchor is not None:
            self._anchor_at(connection.get_context(), state.issuer)

    @staticmethod
    def _anchor_at(context: SSL.Context, issuer: crypto.X509) -> None:
        """Let OpenSSL's chains end at an issuing CA that it has verified: it is verified once.

        Our own verifier goes by the root all the same, and by the times of every certificate.
        There are as many as there are kinds of CA and renewals of them.
        """
        store = context.get_cert_store()
        assert store is not None
        store.add_cert(issuer)

    def _sided(self, context: SSL.Context) -> SSL.Connection:
        connection = SSL.Connection(context, None)
        if self._server:
            connection.set_accept_state()
        else:
            connection.set_connect_state()
            if self._server_name is not None:
                connection.set_tlsext_host_name(self._server_name.encode("ascii"))
        return connection

    def _refusing(
        self, problem: CertificateRefused, verifier: PeerVerifier | None
    ) -> SSL.Connection:
        """A connection that fails at its first step.

        Raising instead would leave the socket and whoever waits for it hanging:
        Twisted asks for the connection before it has a transport to close.
        """
        text = f"our own certificate is not valid now, so no TLS connection begins: {problem.text}"
        refused = log_refusal if verifier is None else verifier.refused
        refused(CertificateRefused(text, reason=problem.reason))
        context = _bare_context()
        context.set_options(SSL.OP_NO_TLSv1_3)
        return self._sided(context)

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
            store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
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
        context.set_verify(self._mode, self._on_certificate)
        if watched:
            context.set_info_callback(self._on_state)
        return context

    def _choose(self, _: SSL.Connection, offered: list[bytes]) -> bytes:
        for protocol in self._alpn:
            if protocol in offered:
                return protocol
        # An SSL.Error is what Twisted's TLS layer expects of a failed handshake.
        raise SSL.Error([("svc", "alpn", "no application protocol in common")])

    def _on_certificate(
        self, connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, ok: int
    ) -> bool:
        state = self._open.get(connection)
        if state is None:
            return False  # Nobody verifies it.
        # OpenSSL goes on naming an error that was borne further up.
        return state.verifier.on_certificate(state, certificate, 0 if ok else error, depth)

    def _on_state(self, connection: SSL.Connection, where: int, _: int) -> None:
        if where & SSL.SSL_CB_HANDSHAKE_DONE and connection in self._open:
            try:
                self.confirm(connection)
            except SvcError:
                # What the connection serves, as whoever asked for it said: Twisted, or a session.
                tls: TLSMemoryBIOProtocol = connection.get_app_data()
                tls.failVerification(Failure())


@frozen
class Handshake:
    """One connection, of either side; see :class:`svc.rpc.tls.VerifiedHandshake`."""

    connection: SSL.Connection
    _contexts: Contexts

    def confirm(self) -> None:
        """See there."""
        self._contexts.confirm(self.connection)


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
