"""Verifies the peer inside the TLS handshake, so that no byte passes before the verdict.

OpenSSL builds the chain and checks its signatures against our one root; our
own verifier then has the last word in the same callback, by our own clock.  A
refusal there is a TLS alert, and the application's protocol sees nothing but
the end of its connection.  A second look when the handshake is done catches
every way around the callback (a resumed session, a peer without certificate).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Protocol, overload
from weakref import WeakKeyDictionary

from attrs import define, field, frozen
from OpenSSL import SSL, crypto
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from svc.errors import SvcError
from svc.model.certificate import CertificateFacts, CertificateRefused
from svc.model.principal import Principal, Role
from svc.pki.verify import ChainVerifier, ca_pin

_log = Logger(namespace="svc_pki")

# OpenSSL's X509_V_ERR_*: times are judged by our clock, not by the system's.
_NOT_YET_VALID, _EXPIRED, _SELF_SIGNED_IN_CHAIN = 9, 10, 19

Expect = Callable[[CertificateFacts], None]
"""A further check of a verified peer; raises SvcError to refuse it."""

Refused = Callable[[SvcError], object]
"""Hears why a peer was refused; the peer itself learns no more than a TLS alert."""


class PeerCheck(Protocol):
    """What decides on a peer's chain: leaf first, root last."""

    def accept(self, chain: Sequence[bytes]) -> None:
        """Return to accept; raise SvcError to refuse.

        Args:
            chain: In DER; what is not looked at costs nothing.
        """

    def trusts(self, root: bytes) -> bool:
        """Whether a root that only the peer's chain contains may be trusted; its DER."""

    @property
    def anchor(self) -> bytes | None:
        """DER of the root that chains must end in; None while only its pin is known."""


@frozen
class KnownRoot:
    """Accepts chains to the pinned root whose leaf has one of *roles* and is as expected."""

    verifier: ChainVerifier
    roles: Set[Role]
    expect: Expect

    def accept(self, chain: Sequence[bytes]) -> None:
        """See PeerCheck."""
        self.expect(self.verifier.verify(chain, self.roles))

    def trusts(self, root: bytes) -> bool:
        """See PeerCheck."""
        return root == self.verifier.root

    @property
    def anchor(self) -> bytes | None:
        """See PeerCheck."""
        return self.verifier.root


@frozen
class PinnedRoot:
    """Accepts an authority of *cluster* whose chain ends in the root that *pin* names."""

    cluster: str
    pin: str
    now: Callable[[], float]

    def accept(self, chain: Sequence[bytes]) -> None:
        """See PeerCheck."""
        root = chain[-1]
        if not self.trusts(root):
            raise CertificateRefused("the chain does not end in the pinned root")
        ChainVerifier(self.cluster, root, self.now).verify(chain, frozenset({Role.AUTHORITY}))

    def trusts(self, root: bytes) -> bool:
        """See PeerCheck."""
        return ca_pin(root) == self.pin

    @property
    def anchor(self) -> bytes | None:
        """See PeerCheck."""
        return None


class _ShownChain(Sequence[bytes]):
    """A chain as OpenSSL has it; written out where it is looked at.

    Of a leaf that was verified before nobody looks at what is above it.
    """

    def __init__(self, shown: list[crypto.X509]) -> None:
        self._shown = shown

    def __len__(self) -> int:
        return len(self._shown)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [_der(one) for one in self._shown[index]]
        return _der(self._shown[index])


def _der(certificate: crypto.X509) -> bytes:
    return crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate)


def anyone(facts: CertificateFacts) -> None:
    """Expect nothing further of a verified peer."""


def exactly(principal: Principal) -> Expect:
    """Expect this one principal."""

    def check(facts: CertificateFacts) -> None:
        if facts.principal != principal:
            raise CertificateRefused(
                "the peer's certificate is for a different identity from the expected one",
                reason="certificate_name",
            )

    return check


def this_certificate(sha256: bytes) -> Expect:
    """Expect this one certificate, 32 bytes of SHA-256 over its DER."""

    def check(facts: CertificateFacts) -> None:
        if facts.sha256 != sha256:
            raise CertificateRefused(
                "the peer presented a different certificate from the expected one",
                reason="certificate_name",
            )

    return check


def log_refusal(error: SvcError) -> None:
    """The listener for refusals if there is no other."""
    _log.info("TLS handshake refused", reason=error.reason, error=error.text)


class PeerVerifier:
    """Decides on peers.

    Args:
        check: Decides on the peer's chain; None where no certificate is asked for.
        required: Whether a peer without certificate is refused.
        alpn: The protocols of which one must have been agreed; empty lets any pass.
        refused: Hears why.
    """

    def __init__(
        self, check: PeerCheck | None, required: bool, alpn: tuple[bytes, ...], refused: Refused
    ) -> None:
        self._check = check
        self._required = required
        self._alpn = alpn
        self._refused = refused

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
            self._refused(CertificateRefused("the peer's certificate cannot be checked"))
            return False

    def _hears(
        self, state: HandshakeState, certificate: crypto.X509, error: int, depth: int
    ) -> bool:
        if self._check is None:
            return False
        if error:
            return error in (_NOT_YET_VALID, _EXPIRED) or (
                error == _SELF_SIGNED_IN_CHAIN and self._check.trusts(_der(certificate))
            )
        state.chain[depth] = certificate
        if depth > 0:
            return True
        chain, state.chain = state.chain, {}
        shown = _ShownChain([chain[depth] for depth in sorted(chain)])
        state.accepted = self._verdict(self._check, shown)
        return state.accepted

    def on_done(self, connection: SSL.Connection, state: HandshakeState) -> None:
        """The handshake is over: catch every way around :meth:`on_certificate`.

        Raises:
            CertificateRefused: *refused* has heard why.
        """
        unseen = connection.get_peer_certificate() is None
        if not state.accepted and (self._required or not unseen):
            self._refuse("the peer's certificate was not checked")
        elif self._alpn and connection.get_alpn_proto_negotiated() not in self._alpn:
            self._refuse("no application protocol was agreed")

    def _verdict(self, check: PeerCheck, chain: Sequence[bytes]) -> bool:
        try:
            check.accept(chain)
        except SvcError as error:
            self._refused(error)
            return False
        return True

    def _refuse(self, text: str) -> None:
        error = CertificateRefused(text)
        self._refused(error)
        raise error


@define(eq=False)
class HandshakeState:
    """One handshake that is being verified."""

    verifier: PeerVerifier
    chain: dict[int, crypto.X509] = field(factory=dict)
    accepted: bool = False


class HandshakeStates:
    """The handshakes under way of some contexts.

    OpenSSL's callbacks are a context's, and lead from here to the verifier of each connection: one
    of each sort for a connection would weigh kilobytes for as long as the connection lives.
    """

    def __init__(self) -> None:
        self._open: WeakKeyDictionary[SSL.Connection, HandshakeState] = WeakKeyDictionary()

    def verify_handshakes(self, context: SSL.Context, mode: int, *, watched: bool) -> None:
        """Verify every handshake of *context*; call this before the first one.

        Args:
            mode: What OpenSSL asks of a peer, as ``SSL_CTX_set_verify`` takes it.
            watched: Whether the end of a handshake is heard of here, for Twisted's protocols,
                which know no verifiers; otherwise whoever runs it calls :meth:`confirm`.  OpenSSL
                tells of some twenty steps to get there.
        """
        context.set_verify(mode, self._on_certificate)
        if watched:
            context.set_info_callback(self._on_state)

    def open(self, connection: SSL.Connection, verifier: PeerVerifier) -> None:
        """Let *verifier* verify *connection*, whose handshake has not started yet."""
        self._open[connection] = HandshakeState(verifier)

    def confirm(self, connection: SSL.Connection) -> None:
        """The second look, when the handshake is done and before a byte of the peer's is read.

        Raises:
            CertificateRefused: the peer is not served, or nobody was put in charge of it.
        """
        state = self._open.pop(connection, None)
        if state is None:
            raise CertificateRefused("nothing checks this connection's peer")
        state.verifier.on_done(connection, state)

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
