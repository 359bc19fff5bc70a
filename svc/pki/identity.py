"""Our own identity while the process runs: the current material, and who follows its changes.

The material is swapped whole.  TLS contexts ask for it at each new connection,
so a renewed leaf is used by the next handshake and no connection is dropped.
A process must look at its own clock: past the leaf's end nothing here signs,
and the TLS factories refuse to begin a handshake on either side (X-48).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from zope.interface import implementer

from svc.errors import ConfigError
from svc.interfaces.identity import IIdentity
from svc.model.certificate import CertificateFacts, CertificateRefused
from svc.model.signing import Purpose, Signed, sign
from svc.pki import profile
from svc.pki.identity_store import IdentityStore
from svc.pki.verify import ChainVerifier, require_valid, root_cluster


@frozen
class IdentityMaterial:
    """One leaf with its key and chain, checked against the root when it was made."""

    key: ec.EllipticCurvePrivateKey = field(repr=False, eq=False)
    chain: tuple[bytes, ...] = field(repr=False)
    facts: CertificateFacts

    @property
    def certificates(self) -> tuple[x509.Certificate, ...]:
        """The chain, parsed."""
        return tuple(x509.load_der_x509_certificate(each) for each in self.chain)


def check_material(
    key: ec.EllipticCurvePrivateKey, chain: tuple[bytes, ...], verifier: ChainVerifier
) -> IdentityMaterial:
    """The material of *key* and *chain*; its validity period is not checked here.

    Raises:
        CertificateRefused: for a chain that does not verify, or another's leaf.
    """
    facts = verifier.examine(chain)
    if facts.public_key != key.public_key():
        raise CertificateRefused("the certificate is for another key")
    return IdentityMaterial(key, chain, facts)


@implementer(IIdentity)
class TransportIdentity:
    """The identity of one role in one process.

    Args:
        material: As :func:`check_material` gave it.
        verifier: Judges our peers, and our own new material.
        now: Wall time.

    Attributes:
        material: What is current, valid or not; :meth:`usable` gives it to whoever uses it.
        principal: Who we are; the same for the life of the identity.
    """

    def __init__(
        self, material: IdentityMaterial, verifier: ChainVerifier, now: profile.WallTime
    ) -> None:
        self._now = now
        self._on_renewed: list[Callable[[CertificateFacts], object]] = []
        self._use(material)
        self.principal = material.facts.principal
        self._roles = frozenset({self.principal.role})
        self.verifier = verifier

    @classmethod
    def load(
        cls, store: IdentityStore, now: profile.WallTime, cluster: str | None = None
    ) -> TransportIdentity:
        """The identity on disk, expired or not.  Blocks for the disk; called at start.

        Args:
            cluster: The configuration's word; None takes the root's.

        Raises:
            ConfigError: naming what is wrong.
        """
        stored = store.load()
        try:
            verifier = ChainVerifier(cluster or root_cluster(stored.root), stored.root, now)
            return cls(check_material(stored.key, stored.chain, verifier), verifier, now)
        except CertificateRefused as refused:
            raise ConfigError("state_dir", f"the identity in it: {refused.text}") from None

    def usable(self) -> IdentityMaterial:
        """What a handshake or a signature may use now.

        Raises:
            CertificateRefused: our leaf has expired, or is not valid yet (X-48).
        """
        facts, now = self.facts, self._now()
        if not facts.not_before <= now < facts.not_after:
            require_valid(facts, now, self._roles)  # which says what is wrong
        return self.material

    @property
    def expired(self) -> bool:
        """Whether the leaf must not be used now; before its beginning, too."""
        return self.problem is not None

    @property
    def problem(self) -> CertificateRefused | None:
        """Why the leaf must not be used now; None: it may."""
        try:
            self.usable()
        except CertificateRefused as refusal:
            return refusal
        return None

    def seconds_left(self) -> float:
        return self.facts.seconds_left(self._now())

    def sign(self, purpose: Purpose, data: bytes) -> Signed:
        material = self.usable()
        return Signed(data, sign(material.key, purpose, data), material.chain)

    def on_renewed(self, callback: Callable[[CertificateFacts], object]) -> None:
        self._on_renewed.append(callback)

    def accept(self, key: ec.EllipticCurvePrivateKey, chain: tuple[bytes, ...]) -> IdentityMaterial:
        """Check material that should replace ours; changes nothing.

        Raises:
            CertificateRefused: another root, key or holder, not valid now, or
                of a generation that is not newer.
        """
        offered = check_material(key, chain, self.verifier)
        if offered.facts.principal != self.principal:
            raise CertificateRefused(
                "the new certificate is for a different identity", reason="certificate_name"
            )
        require_valid(offered.facts, self._now(), self._roles)
        if offered.facts.generation <= self.facts.generation:
            raise CertificateRefused("the new certificate does not have a newer generation")
        return offered

    def replace(self, material: IdentityMaterial) -> None:
        """Activate accepted material and notify the followers."""
        self._use(material)
        for callback in self._on_renewed:
            callback(material.facts)

    def _use(self, material: IdentityMaterial) -> None:
        self.material, self.facts, self.chain = material, material.facts, material.chain
