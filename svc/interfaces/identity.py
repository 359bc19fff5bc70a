"""The seam of identities: who we are, whom we trust, who signs certificates.

Rooms that need an identity (roles, tunnel, audit, rpc) know this page and the
frozen values of ``svc.model.certificate``; they never import ``svc.pki``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from cryptography import x509
from zope.interface import Attribute, Interface

from svc.model.certificate import (
    CertificateFacts,
    CertificateRefused,
    CertificateRequest,
    NewCertificate,
    TrustBundle,
)
from svc.model.principal import Role
from svc.model.signing import Purpose, Signed

Certificates = Sequence[bytes | x509.Certificate]
"""A chain, leaf first, root last or left out; DER or parsed, as it comes to hand."""


class IChainVerifier(Interface):
    """Verifies certificates against one pinned root. Synchronous; does no I/O."""

    cluster: str = Attribute("The cluster every accepted certificate belongs to.")
    root: bytes = Attribute("DER of the pinned root.")

    def verify(chain: Certificates, roles: Set[Role]) -> CertificateFacts:
        """The facts of the chain's leaf, if it is valid now and its role is among *roles*.

        Called at each handshake and again at each RPC (R13): a leaf seen
        before costs a few microseconds; time and role are checked each time.

        Raises:
            CertificateRefused: with a reason word.
        """

    def verify_signed(signed: Signed, purpose: Purpose) -> CertificateFacts:
        """Check bytes signed by a purpose key (grant, snapshot, audit head).

        The chain must be the one purpose certificate that signs *purpose*.

        Raises:
            CertificateRefused: for the chain; BadSignature: for the signature.
        """

    def verify_signed_at(signed: Signed, purpose: Purpose, at: float) -> CertificateFacts:
        """As :meth:`verify_signed`, with the time of what was signed in place of now."""


class IIdentity(Interface):
    """Our own certificate and key: renewed in the background, and replaced together."""

    facts: CertificateFacts = Attribute("Of the current leaf; changes at each renewal.")
    chain: tuple[bytes, ...] = Attribute("DER: current leaf, its issuing CA.")

    problem: CertificateRefused | None = Attribute("Why the leaf is no good now; None: it is.")

    def seconds_left() -> float:
        """Seconds until the current leaf ends; negative afterwards (the gauge's value)."""

    def sign(purpose: Purpose, data: bytes) -> Signed:
        """Sign with the current leaf's key; the chain goes along.

        Raises:
            CertificateRefused: once the leaf has expired.
        """

    def on_renewed(callback: Callable[[CertificateFacts], object]) -> None:
        """Call *callback* each time new material is active (listeners already use it)."""


class ICertificateAuthority(Interface):
    """Signs one sort of certificates.  May be remote: so it is awaited."""

    kind: str = Attribute("``transport``, ``spiffe``, …: the word operators and metrics see.")
    roles: Set[Role] = Attribute("The roles this authority signs; no verifier accepts others.")

    async def issue(request: CertificateRequest) -> NewCertificate:
        """Sign a leaf.

        Raises:
            CertificateRefused: for a request that is malformed or of a weak key.
            CertificateRefused: ``certificate_role`` for a role that is not of ``roles``.
        """

    async def bundle() -> TrustBundle:
        """What relying parties keep."""
