"""The keys of a cluster, in memory: root, issuing CAs, purpose keys.

Where they lie on disk is ``svc.pki.keyring``'s matter.  The root key may be
absent (kept off-line after ``svc init``): everything but making new issuing
CAs and purpose keys goes on without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from svc.errors import SvcError
from svc.model.ids import Entropy
from svc.model.principal import Role
from svc.model.signing import PrivateKey, Purpose, Signed, sign
from svc.pki import issue, profile
from svc.pki.verify import ca_pin


class WrongPurpose(SvcError):
    """A purpose key was asked for a signature of another purpose: a bug in svc."""

    reason = "wrong_purpose"


@frozen
class PurposeKey:
    """One purpose key with its certificate."""

    word: str
    certificate: x509.Certificate
    key: PrivateKey = field(repr=False, eq=False)

    @property
    def begins_at(self) -> float:
        """When its certificate begins, in seconds since the epoch: what it signs before is void."""
        return self.certificate.not_valid_before_utc.timestamp()

    @property
    def ends_at(self) -> float:
        """When its certificate ends, in seconds since the epoch: what it signs later is void."""
        return self.certificate.not_valid_after_utc.timestamp()

    def sign(self, purpose: Purpose, data: bytes) -> Signed:
        """Sign for a purpose that this key is for.

        Raises:
            WrongPurpose: for any other.
        """
        if purpose not in profile.PURPOSES[self.word].signs:
            raise WrongPurpose(f"the key {self.word} does not sign {purpose.value}")
        signature = sign(self.key, purpose, data)
        return Signed(data, signature, (issue.der(self.certificate),))


@frozen
class ClusterKeys:
    """Everything an Authority signs with.

    Attributes:
        purposes: By word; :meth:`take` puts a newer one in the place of the one before.
    """

    cluster: str
    root: x509.Certificate
    root_key: ec.EllipticCurvePrivateKey | None = field(repr=False, eq=False)
    issuers: Mapping[str, issue.IssuingAuthority]
    purposes: MutableMapping[str, PurposeKey]

    @property
    def root_der(self) -> bytes:
        """DER of the root: what everyone of this cluster pins."""
        return issue.der(self.root)

    @property
    def ca_pin(self) -> str:
        """What an operator gives a joiner to know this cluster by."""
        return ca_pin(self.root_der)

    def issuer_for(self, role: Role) -> issue.IssuingAuthority:
        """The issuing CA that signs *role*; KeyError for purposes."""
        return self.issuers[profile.kind_of(role) or role.value]

    def signer(self, purpose: Purpose) -> Callable[[bytes], Signed]:
        """What ``compose`` hands to rooms that sign: bytes in, signature and chain out.

        It signs with whichever key of that purpose is the newest as it is called.
        """
        word = profile.SIGNED_BY[purpose]
        return lambda data: self.purposes[word].sign(purpose, data)

    def take(self, newer: PurposeKey) -> None:
        """Sign with *newer* from now on; on the reactor's thread."""
        self.purposes[newer.word] = newer


def make_cluster(
    cluster: str,
    now: profile.WallTime,
    entropy: Entropy,
    issuer_lifetime: float = profile.ISSUER_LIFETIME,
) -> ClusterKeys:
    """Make every key of a new cluster, in memory.

    Args:
        issuer_lifetime: Seconds that its issuing CAs are good for.

    Raises:
        CertificateRefused: for a name that no cluster can have.
    """
    root_key = new_key()
    root = issue.make_root(cluster, root_key, now(), entropy)
    issuers = {}
    for kind in profile.ISSUERS:
        key = new_key()
        made = issue.make_issuer(
            kind, cluster, key, root, root_key, now(), entropy, issuer_lifetime
        )
        issuers[kind] = issue.IssuingAuthority(
            kind=kind,
            cluster=cluster,
            certificate=made,
            key=key,
            root=root,
            now=now,
            entropy=entropy,
        )
    purposes = {
        word: make_purpose_key(word, cluster, root, root_key, now(), entropy)
        for word in profile.PURPOSES
    }
    return ClusterKeys(
        cluster=cluster, root=root, root_key=root_key, issuers=issuers, purposes=purposes
    )


def make_purpose_key(
    word: str,
    cluster: str,
    root: x509.Certificate,
    root_key: ec.EllipticCurvePrivateKey,
    now: float,
    entropy: Entropy,
    kept: PrivateKey | None = None,
) -> PurposeKey:
    """A purpose key with a new certificate; a new key, unless one is *kept*."""
    is_edwards = profile.PURPOSES[word].ed25519
    signer = kept or (ed25519.Ed25519PrivateKey.generate() if is_edwards else new_key())
    certificate = issue.make_purpose(
        word, cluster, signer.public_key(), root, root_key, now, entropy
    )
    return PurposeKey(word, certificate, signer)


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new P-256 key, from OpenSSL's own randomness."""
    return ec.generate_private_key(ec.SECP256R1())
