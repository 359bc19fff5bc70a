"""Creates certificates: the only place where a certificate is built and signed.

Nothing of a request is copied but its public key, after its signature proved
that the asker holds the private one; names, role and lifetime are the
registry's word.  Signing a leaf takes about 100 microseconds and no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from datetime import UTC, datetime
from hashlib import sha256
from ipaddress import ip_address

from attrs import evolve, field, frozen
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from zope.interface import implementer

from svc.interfaces.identity import ICertificateAuthority
from svc.model.certificate import (
    CertificateFacts,
    CertificateRefused,
    CertificateRequest,
    NewCertificate,
    TrustBundle,
)
from svc.model.ids import Entropy, is_cluster_name
from svc.model.principal import Principal, Role
from svc.model.signing import PublicKey, is_p256, key_info
from svc.pki import profile

MAX_CSR_BYTES = 4096


@frozen
class ProvenKey:
    """A public key whose private half the asker was seen to hold.

    Attributes:
        info: Its DER SubjectPublicKeyInfo; a node's id is made from it.
    """

    key: ec.EllipticCurvePublicKey = field(eq=False)
    info: bytes

    @property
    def sha256(self) -> bytes:
        """How the registry remembers the key."""
        return sha256(self.info).digest()


def prove_key(csr: bytes) -> ProvenKey:
    """Check a DER certificate request and take its key.

    Raises:
        CertificateRefused: ``certificate_malformed`` or ``certificate_key``.
    """
    if len(csr) > MAX_CSR_BYTES:
        raise _bad_request("it is longer than 4096 bytes")
    try:
        request = x509.load_der_x509_csr(csr)
        key = request.public_key()
        if not is_p256(key):
            raise CertificateRefused(
                "certificate request: its key is not P-256", reason="certificate_key"
            )
        if not request.is_signature_valid:
            raise _bad_request("its signature does not verify")
    except (ValueError, UnsupportedAlgorithm, InvalidSignature):
        raise _bad_request("it is not a readable PKCS #10 request") from None
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return ProvenKey(key, key_info(key))


def make_request(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The request of a node or person for *key*: DER, and nothing in it but the key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


def _bad_request(what: str) -> CertificateRefused:
    return CertificateRefused(f"certificate request: {what}", reason="certificate_malformed")


@implementer(ICertificateAuthority)
@frozen
class IssuingAuthority:
    """One issuing CA with its key."""

    kind: str
    cluster: str
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False, eq=False)
    root: x509.Certificate
    now: profile.WallTime = field(repr=False, eq=False)
    entropy: Entropy = field(repr=False, eq=False)

    @property
    def roles(self) -> Set[Role]:
        """The roles this authority signs."""
        return profile.ISSUERS[self.kind].roles

    async def issue(self, request: CertificateRequest) -> NewCertificate:
        """See ICertificateAuthority; here it never waits."""
        return self.sign(request)

    async def bundle(self) -> TrustBundle:
        return TrustBundle(self.cluster, der(self.root), (der(self.certificate),))

    def sign(self, request: CertificateRequest) -> NewCertificate:
        """Sign a leaf, synchronously: what a store transaction may call.

        Raises:
            CertificateRefused: see ICertificateAuthority.
        """
        proven = prove_key(request.csr)
        self._may_sign(request)
        now = self.now()
        end = min(math.ceil(now + request.lifetime), _end(self.certificate))
        if end <= now:
            raise CertificateRefused(
                f"the issuing CA {self.kind} has expired", reason="certificate_expired"
            )
        if request.ends_by is not None:
            end = min(end, math.floor(request.ends_by))
        if end <= now:
            raise CertificateRefused(
                "the certificate would have ended already", reason="certificate_expired"
            )
        principal = request.principal
        attributes = [profile.generation_attribute(request.generation)]
        if request.factor_at is not None:
            attributes.append(profile.factor_attribute(request.factor_at))
        subject = _name(principal.id, *attributes)
        builder = _begin(subject, self.certificate, proven.key, now, end, self.entropy)
        leaf = (
            builder.add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(profile.key_usage(authority=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage(sorted_oids(profile.leaf_usages(principal.role))),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.UniformResourceIdentifier(principal.uri), *general_names(request.names)]
                ),
                critical=False,
            )
            .sign(self.key, SHA256())
        )
        facts = evolve(
            facts_of(leaf, principal, request.generation, proven.key), factor_at=request.factor_at
        )
        return NewCertificate((der(leaf), der(self.certificate)), facts, proven.sha256)

    def _may_sign(self, request: CertificateRequest) -> None:
        principal = request.principal
        if principal.cluster != self.cluster:
            raise CertificateRefused(
                "the name belongs to another cluster", reason="certificate_cluster"
            )
        if principal.role not in self.roles:
            raise CertificateRefused(
                f"the issuing CA {self.kind} does not sign this role", reason="certificate_role"
            )
        if request.names and not principal.role.is_node:
            raise CertificateRefused(
                "only a node's certificate may contain host names", reason="certificate_name"
            )
        if request.factor_at is not None and principal.role is not Role.USER:
            raise CertificateRefused(
                "only a person's certificate may name a second factor", reason="certificate_name"
            )
        if request.lifetime <= 0 or not 1 <= request.generation <= profile.MAX_GENERATION:
            raise _bad_request(
                "lifetime and generation must be above 0, and the generation below 2^63"
            )


def make_root(
    cluster: str, key: ec.EllipticCurvePrivateKey, now: float, entropy: Entropy
) -> x509.Certificate:
    """A cluster's root: self-signed, path length 1, naming the trust domain."""
    if not is_cluster_name(cluster):
        raise CertificateRefused("this is not a valid cluster name", reason="certificate_cluster")
    public = key.public_key()
    builder = _begin(
        _name(f"svc root {_short(public)}"),
        None,
        public,
        now,
        now + profile.ROOT_LIFETIME,
        entropy,
    )
    return _as_authority(builder, f"spiffe://{cluster}", 1).sign(key, SHA256())


def make_issuer(
    kind: str,
    cluster: str,
    key: ec.EllipticCurvePrivateKey,
    root: x509.Certificate,
    root_key: ec.EllipticCurvePrivateKey,
    now: float,
    entropy: Entropy,
    lifetime: float = profile.ISSUER_LIFETIME,
) -> x509.Certificate:
    """An issuing CA of *kind* under the root, of path length 0; it does not outlive the root."""
    public = key.public_key()
    end = min(now + lifetime, _end(root))
    subject = _name(f"svc {kind} {_short(public)}")
    builder = _begin(subject, root, public, now, end, entropy)
    uri = Principal(cluster, Role.CA, kind).uri
    return _as_authority(builder, uri, 0).sign(root_key, SHA256())


def make_purpose(
    word: str,
    cluster: str,
    key: PublicKey,
    root: x509.Certificate,
    root_key: ec.EllipticCurvePrivateKey,
    now: float,
    entropy: Entropy,
) -> x509.Certificate:
    """The certificate of one purpose key, directly under the root; it never serves TLS."""
    uri = Principal(cluster, Role.PURPOSE, word).uri
    end = min(now + profile.PURPOSE_LIFETIME, _end(root))
    return (
        _begin(_name(f"svc purpose {word}"), root, key, now, end, entropy)
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(profile.key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([profile.PURPOSE_USAGE]), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), critical=False
        )
        .sign(root_key, SHA256())
    )


def general_names(names: Iterable[str]) -> list[x509.GeneralName]:
    """DNS names and IP addresses as a certificate holds them.

    Raises:
        CertificateRefused: for a name that is neither; wildcards are neither.
    """
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ip_address(name)))
        except ValueError:
            if not is_cluster_name(name):
                raise CertificateRefused(
                    "a host name in a certificate must be a DNS name or an IP address, in lower "
                    "case",
                    reason="certificate_name",
                ) from None
            found.append(x509.DNSName(name))
    return found


def facts_of(
    leaf: x509.Certificate, principal: Principal, generation: int, key: PublicKey
) -> CertificateFacts:
    """A certificate's facts, its own validity alone; the verifier narrows it to the chain's."""
    return CertificateFacts(
        principal=principal,
        sha256=leaf.fingerprint(SHA256()),
        serial=f"{leaf.serial_number:x}",
        not_before=leaf.not_valid_before_utc.timestamp(),
        not_after=_end(leaf),
        generation=generation,
        key_info=key_info(key),
    )


def der(certificate: x509.Certificate) -> bytes:
    """A certificate's DER, encoded at each call."""
    return certificate.public_bytes(Encoding.DER)


def sorted_oids(oids: Iterable[x509.ObjectIdentifier]) -> list[x509.ObjectIdentifier]:
    """In one order, so that equal certificates are built of equal bytes."""
    return sorted(oids, key=lambda oid: oid.dotted_string)


def _end(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def _short(key: PublicKey) -> str:
    return x509.SubjectKeyIdentifier.from_public_key(key).digest.hex()[:8]


def _name(common_name: str, *further: x509.NameAttribute[str]) -> x509.Name:
    """A subject; the common name is for people, never for programs."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name), *further])


def _begin(
    subject: x509.Name,
    issuer: x509.Certificate | None,
    key: PublicKey,
    now: float,
    end: float,
    entropy: Entropy,
) -> x509.CertificateBuilder:
    """What every certificate has."""
    if issuer is None:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    else:
        authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
            issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key)
        .serial_number(int.from_bytes(b"\x40" + entropy(15), "big"))
        .not_valid_before(datetime.fromtimestamp(math.floor(now - profile.BACKDATE), UTC))
        .not_valid_after(datetime.fromtimestamp(math.ceil(end), UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(authority, critical=False)
    )


def _as_authority(
    builder: x509.CertificateBuilder, uri: str, path_length: int
) -> x509.CertificateBuilder:
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
    return (
        builder.add_extension(x509.BasicConstraints(True, path_length), critical=True)
        .add_extension(profile.key_usage(authority=True), critical=True)
        .add_extension(names, critical=False)
    )
