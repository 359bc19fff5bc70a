"""Verifies certificate chains: TLS peers, session requests and grants all pass through here.

A chain is exactly leaf, issuing CA, root, or purpose certificate, root; the
root may be left out.  What is checked: signatures, CA flags and path lengths,
key usages, the issuing CA's kind against the leaf's role, the cluster, one
SPIFFE URI that says what the certificate is for, validity now.  A leaf once
verified is remembered by its SHA-256, so looking at it again costs microseconds;
its time and role are checked each time all the same.  Nothing that was refused
is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from hashlib import sha256
from typing import TypeVar

from attrs import define, evolve, field, frozen
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import SignatureAlgorithmOID
from OpenSSL import crypto
from zope.interface import implementer

from svc.errors import Malformed
from svc.interfaces.identity import Certificates, IChainVerifier
from svc.model.certificate import (
    EXPIRED,
    NOT_YET_VALID,
    CertificateFacts,
    CertificateRefused,
)
from svc.model.clocks import since, utc
from svc.model.principal import Principal, Role, parse_principal
from svc.model.signing import Purpose, Signed, is_p256
from svc.model.signing import verify as verify_signature
from svc.pki import profile
from svc.pki.issue import der, facts_of

MAX_CERTIFICATE_BYTES = 8192
MAX_REMEMBERED = 4096

Shown = Certificates | Sequence[bytes | crypto.X509]
"""A chain as it comes to hand, from OpenSSL too; above a leaf that is known nothing is read."""

_LONGEST_CHAIN = 3
_PURPOSES = frozenset({Role.PURPOSE})
_Kept = TypeVar("_Kept")
_Extension = TypeVar("_Extension", bound=x509.ExtensionType)


@frozen
class _Issuer:
    certificate: x509.Certificate
    kind: str
    not_before: float
    not_after: float


@implementer(IChainVerifier)
@define
class ChainVerifier:
    """See the module; one an identity, shared by whoever trusts the same root.

    Args:
        cluster: The only cluster whose certificates are accepted.
        root: DER of the pinned root; refused at once unless it is a root of
            that cluster.
        now: Wall time.
    """

    cluster: str
    root: bytes = field(repr=False)
    now: profile.WallTime = field(repr=False)
    _root: x509.Certificate = field(init=False, repr=False)
    _leafs: dict[bytes, CertificateFacts] = field(init=False, factory=dict, repr=False)
    _issuers: dict[bytes, _Issuer] = field(init=False, factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        self._root = check_root(self.root, self.cluster)

    def verify(self, chain: Shown, roles: Set[Role]) -> CertificateFacts:
        facts, at = self._known(chain) or self.examine(chain), self.now()
        if facts.principal.role not in roles or not facts.not_before <= at < facts.not_after:
            require_valid(facts, at, roles)  # which says why not
        return facts

    def verify_signed(self, signed: Signed, purpose: Purpose) -> CertificateFacts:
        return self.verify_signed_at(signed, purpose, self.now())

    def verify_signed_at(self, signed: Signed, purpose: Purpose, at: float) -> CertificateFacts:
        """As :meth:`verify_signed`, with the time of what was signed in place of now.

        Raises:
            CertificateRefused: for the chain; BadSignature: for the signature.
        """
        facts = self._known(signed.chain) or self.examine(signed.chain)
        require_valid(facts, at, _PURPOSES)
        if facts.principal.id != profile.SIGNED_BY.get(purpose):
            raise _refused("role", f"this purpose key does not sign {purpose.value}")
        verify_signature(facts.public_key, purpose, signed.payload, signed.signature)
        return facts

    def _known(self, chain: Shown) -> CertificateFacts | None:
        """The facts of a leaf that was examined before, in as few calls as may be."""
        leaf = chain[0] if 1 <= len(chain) <= _LONGEST_CHAIN else None
        if isinstance(leaf, x509.Certificate):
            leaf = der(leaf)
        return self._leafs.get(sha256(leaf).digest()) if isinstance(leaf, bytes) else None

    def examine(self, chain: Shown) -> CertificateFacts:
        """The facts of the chain's leaf whatever the time: for showing, never for trusting.

        Raises:
            CertificateRefused: for everything but time and role.
        """
        if not 1 <= len(chain) <= _LONGEST_CHAIN:
            raise _refused(
                "chain", "a chain must be leaf, issuing CA and root, or purpose and root"
            )
        leaf = der_of(chain[0])
        digest = sha256(leaf).digest()
        facts = self._leafs.get(digest)
        if facts is None:
            facts = self._read(leaf, [der_of(each) for each in chain[1:]])
            _remember(self._leafs, digest, facts)
        return facts

    def _read(self, leaf: bytes, above: list[bytes]) -> CertificateFacts:
        if above and above[-1] == self.root:
            above.pop()
        if len(above) > 1:
            raise _refused(
                "chain", "the chain has more certificates than leaf, issuing CA and our root"
            )
        certificate = _load(leaf)
        if not above:
            _issued_by(certificate, self._root)
            return _narrowed(_read_purpose(certificate, self.cluster), self._root)
        issuer = self._issuer(above[0])
        _issued_by(certificate, issuer.certificate)
        facts = _read_leaf(certificate, self.cluster, issuer.kind)
        return evolve(
            facts,
            not_before=max(facts.not_before, issuer.not_before),
            not_after=min(facts.not_after, issuer.not_after),
        )

    def _issuer(self, data: bytes) -> _Issuer:
        digest = sha256(data).digest()
        issuer = self._issuers.get(digest)
        if issuer is None:
            issuer = self._read_issuer(_load(data))
            _remember(self._issuers, digest, issuer)
        return issuer

    def _read_issuer(self, certificate: x509.Certificate) -> _Issuer:
        _issued_by(certificate, self._root)
        extensions = _extensions(certificate)
        _check_authority(certificate, extensions, 0)
        principal = _principal(extensions, self.cluster)
        if principal.role is not Role.CA or principal.id not in profile.ISSUERS:
            raise _refused("role", "the URI of the issuing CA names an unknown kind of CA")
        _check_names(extensions, hosts=False)
        return _Issuer(
            certificate=certificate,
            kind=principal.id,
            not_before=max(_begin(certificate), _begin(self._root)),
            not_after=min(_end(certificate), _end(self._root)),
        )


def require_valid(facts: CertificateFacts, at: float, roles: Set[Role]) -> None:
    """Check again what changes with time and use (R13); costs about a microsecond.

    Raises:
        CertificateRefused: not of *roles*, expired, or not yet valid; it is refused for its
            time only where all else is as it should be.
    """
    if facts.principal.role not in roles:
        raise _refused("role", "the certificate is for another role")
    if at >= facts.not_after:
        raise CertificateRefused(
            f"the certificate expired at {utc(facts.not_after)}, "
            f"{since(at - facts.not_after)} ago by this machine's clock",
            reason=EXPIRED,
        )
    if at < facts.not_before:
        raise CertificateRefused(
            f"this machine's clock says {utc(at)} and is at least "
            f"{since(facts.issued_at - at)} behind: the certificate begins at "
            f"{utc(facts.not_before)}; set the clock",
            reason=NOT_YET_VALID,
        )


@frozen
class RootIssued:
    """A certificate directly under the root: an issuing CA's kind or a purpose's word."""

    word: str
    not_before: float
    not_after: float


def check_standing(data: bytes, root: bytes, cluster: str) -> RootIssued:
    """Check an issuing CA or a purpose certificate whatever the time: for key directories.

    Raises:
        CertificateRefused: where it is neither, or not under *root*.
    """
    verifier = ChainVerifier(cluster, root, lambda: 0.0)
    if _only(_extensions(_load(data)), x509.BasicConstraints, "usage").ca:
        issuer = verifier._issuer(data)
        return RootIssued(issuer.kind, issuer.not_before, issuer.not_after)
    facts = verifier.examine((data,))
    return RootIssued(facts.principal.id, facts.not_before, facts.not_after)


def check_root(data: bytes, cluster: str) -> x509.Certificate:
    """The root in *data*, if it is one of *cluster*'s and signed by itself.

    Raises:
        CertificateRefused: otherwise.
    """
    root = _load(data)
    _issued_by(root, root)
    extensions = _extensions(root)
    _check_authority(root, extensions, 1)
    if _uris(extensions) != [f"spiffe://{cluster}"]:
        raise _refused("cluster", "the root belongs to another cluster")
    return root


def root_cluster(data: bytes) -> str:
    """The cluster a root names.

    Raises:
        CertificateRefused: where it is no root.
    """
    uris = _uris(_extensions(_load(data)))
    if len(uris) != 1 or not uris[0].startswith("spiffe://"):
        raise _refused("name", "the root names no cluster")
    cluster = uris[0].removeprefix("spiffe://")
    check_root(data, cluster)
    return cluster


def der_of(certificate: bytes | x509.Certificate | crypto.X509) -> bytes:
    """The DER of a certificate, however it comes to hand."""
    if isinstance(certificate, bytes):
        return certificate
    if isinstance(certificate, crypto.X509):
        return crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate)
    return der(certificate)


def ca_pin(root: bytes) -> str:
    """How an operator names a root to a joiner: SHA-256 of its DER in hex."""
    return sha256(root).hexdigest()


def _read_leaf(certificate: x509.Certificate, cluster: str, kind: str) -> CertificateFacts:
    extensions = _extensions(certificate)
    principal = _principal(extensions, cluster)
    if principal.role not in profile.ISSUERS[kind].roles:
        raise _refused("role", f"the issuing CA {kind} does not sign {principal.role.value}")
    _check_leaf(extensions, profile.leaf_usages(principal.role))
    _check_names(extensions, hosts=principal.role.is_node)
    key = certificate.public_key()
    if not is_p256(key):
        raise _refused("usage", "the leaf's key is not P-256")
    try:
        generation = profile.read_generation(certificate.subject)
        factor_at = profile.read_factor(certificate.subject)
    except profile.UNREADABLE:
        raise _refused("malformed", "its subject cannot be read") from None
    except Malformed as malformed:
        raise _refused("malformed", malformed.text) from None
    if factor_at is not None and principal.role is not Role.USER:
        raise _refused("malformed", "only a person presents a second factor")
    found = facts_of(certificate, principal, generation, key)  # type: ignore[arg-type]
    return evolve(found, factor_at=factor_at)


def _read_purpose(certificate: x509.Certificate, cluster: str) -> CertificateFacts:
    extensions = _extensions(certificate)
    principal = _principal(extensions, cluster)
    row = profile.PURPOSES.get(principal.id)
    if principal.role is not Role.PURPOSE or row is None:
        raise _refused("chain", "only purpose certificates may be signed by the root directly")
    _check_leaf(extensions, frozenset({profile.PURPOSE_USAGE}))
    _check_names(extensions, hosts=False)
    key = certificate.public_key()
    if not (isinstance(key, ed25519.Ed25519PublicKey) if row.ed25519 else is_p256(key)):
        raise _refused("usage", "the purpose key has the wrong key type")
    return facts_of(certificate, principal, 0, key)  # type: ignore[arg-type]


def _principal(extensions: x509.Extensions, cluster: str) -> Principal:
    uris = _uris(extensions)
    if len(uris) != 1:
        raise _refused("name", "the certificate must name its holder with exactly one URI")
    try:
        principal = parse_principal(uris[0])
    except Malformed as malformed:
        raise _refused("name", malformed.text) from None
    if principal.cluster != cluster:
        raise _refused("cluster", "the certificate belongs to another cluster")
    return principal


def _uris(extensions: x509.Extensions) -> list[str]:
    names = _only(extensions, x509.SubjectAlternativeName, "name")
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def _check_names(extensions: x509.Extensions, *, hosts: bool) -> None:
    """A leaf's other names are host names, and only a node has them."""
    allowed = (x509.DNSName, x509.IPAddress) if hosts else ()
    for name in _only(extensions, x509.SubjectAlternativeName, "name"):
        if not isinstance(name, (x509.UniformResourceIdentifier, *allowed)):
            raise _refused("name", "it has a subject alternative name that its role may not have")


def _check_leaf(extensions: x509.Extensions, usages: Set[x509.ObjectIdentifier]) -> None:
    if _only(extensions, x509.BasicConstraints, "usage").ca:
        raise _refused("usage", "the leaf certificate says that it is a CA")
    if _only(extensions, x509.KeyUsage, "usage") != profile.key_usage(authority=False):
        raise _refused("usage", "the leaf's key usage must be digital signature, and nothing else")
    if set(_only(extensions, x509.ExtendedKeyUsage, "usage")) != usages:
        raise _refused("usage", "its extended key usages are not those of its role")


def _check_authority(
    certificate: x509.Certificate, extensions: x509.Extensions, path_length: int
) -> None:
    constraints = _only(extensions, x509.BasicConstraints, "usage")
    if not constraints.ca or constraints.path_length != path_length:
        raise _refused("usage", "the CA's basic constraints do not match its position in the chain")
    if _only(extensions, x509.KeyUsage, "usage") != profile.key_usage(authority=True):
        raise _refused("usage", "the CA's key usage must be signing certificates, and nothing else")
    if not is_p256(certificate.public_key()):
        raise _refused("usage", "the CA's key is not P-256")


def _only(extensions: x509.Extensions, sort: type[_Extension], word: str) -> _Extension:
    try:
        return extensions.get_extension_for_class(sort).value
    except x509.ExtensionNotFound:
        raise _refused(word, f"the certificate lacks the extension {sort.__name__}") from None


def _extensions(certificate: x509.Certificate) -> x509.Extensions:
    """The extensions, if each can be read and none unknown is critical."""
    try:
        extensions = certificate.extensions
    except profile.UNREADABLE:
        raise _refused("malformed", "its extensions cannot be read") from None
    if profile.is_of_candidate(certificate):
        raise _refused("malformed", f"the certificate {profile.OF_CANDIDATE}")
    for each in extensions:
        if each.critical and isinstance(each.value, x509.UnrecognizedExtension):
            raise _refused("malformed", "it has a critical extension that svc does not know")
    return extensions


def _issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> None:
    try:
        if certificate.signature_algorithm_oid != SignatureAlgorithmOID.ECDSA_WITH_SHA256:
            raise InvalidSignature
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, *profile.UNREADABLE):
        raise _refused(
            "chain", "the certificate was not signed by the issuer in the chain"
        ) from None


def _load(data: bytes) -> x509.Certificate:
    if len(data) > MAX_CERTIFICATE_BYTES:
        raise _refused("malformed", "the certificate is longer than 8192 bytes")
    try:
        return x509.load_der_x509_certificate(data)
    except profile.UNREADABLE:
        raise _refused("malformed", "this is not an X.509 certificate") from None


def _narrowed(facts: CertificateFacts, root: x509.Certificate) -> CertificateFacts:
    return evolve(
        facts,
        not_before=max(facts.not_before, _begin(root)),
        not_after=min(facts.not_after, _end(root)),
    )


def _remember(cache: dict[bytes, _Kept], digest: bytes, value: _Kept) -> None:
    if len(cache) >= MAX_REMEMBERED:
        del cache[next(iter(cache))]
    cache[digest] = value


def _begin(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def _end(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def _refused(word: str, text: str) -> CertificateRefused:
    return CertificateRefused(text, reason=f"certificate_{word}")
