"""Issuing: nothing of a request counts but its proven key."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.interfaces.identity import ICertificateAuthority, IChainVerifier, IIdentity
from svc.model.certificate import CertificateRefused, CertificateRequest
from svc.model.cluster.token import TokenGrant
from svc.model.principal import Principal, Role
from svc.pki import profile
from svc.pki.enroll import CertificateIssuer, CloneSuspected, HolderStanding, IdentityRevoked
from svc.pki.issue import make_request, prove_key
from svc.pki.root import new_key
from tests.pki.support import BEGIN, CLUSTER, PERSON, World
from tests.support.proof import proves

ID = "a" * 26


def greedy_request(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A request that asks for all it must not get."""
    names = x509.SubjectAlternativeName(
        [
            x509.UniformResourceIdentifier(f"spiffe://{CLUSTER}/authority/{ID}"),
            x509.DNSName("evil.test"),
        ]
    )
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
        .add_extension(x509.BasicConstraints(True, None), critical=True)
        .add_extension(profile.key_usage(authority=True), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=True)
        .sign(key, SHA256())
        .public_bytes(Encoding.DER)
    )


class IssueTests(SynchronousTestCase):
    """One issuing CA and what it makes."""

    def setUp(self) -> None:
        self.world = World()
        self.transport = self.world.keys.issuers["transport"]

    def sign(self, csr: bytes, role: Role = Role.PROXY, **kept):  # type: ignore[no-untyped-def]
        kept.setdefault("lifetime", 60.0)
        principal = Principal(kept.pop("cluster", CLUSTER), role, ID)
        return self.transport.sign(CertificateRequest(csr, principal, **kept))

    def refusal(self, csr: bytes, *args, **kept) -> str:  # type: ignore[no-untyped-def]
        return str(self.assertRaises(CertificateRefused, self.sign, csr, *args, **kept).reason)

    def test_interfaces(self) -> None:
        """The authority, the verifier and an identity keep the interfaces they promise."""
        verifyObject(ICertificateAuthority, self.transport)
        verifyObject(IChainVerifier, self.world.verifier)
        verifyObject(IIdentity, self.world.identity(Role.PROXY))

    def test_names_and_usages_asked_for_are_ignored(self) -> None:
        """Names, CA flag and usages in a request have no effect on the certificate."""
        issued = self.sign(greedy_request(new_key()), names=("gw.example.test", "192.0.2.1"))
        facts = self.world.verifier.verify(issued.chain, frozenset({Role.PROXY}))
        self.assertEqual(facts, issued.facts)
        leaf = x509.load_der_x509_certificate(issued.chain[0])
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        self.assertEqual(
            [str(name.value) for name in names],
            [f"spiffe://{CLUSTER}/proxy/{ID}", "gw.example.test", "192.0.2.1"],
        )

    def test_keys(self) -> None:
        """Keys other than P-256 are refused."""
        builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
        for key, algorithm in (
            (ec.generate_private_key(ec.SECP384R1()), SHA256()),
            (ec.generate_private_key(ec.SECP256K1()), SHA256()),
            (rsa.generate_private_key(65537, 2048), SHA256()),
            (ed25519.Ed25519PrivateKey.generate(), None),
        ):
            csr = builder.sign(key, algorithm).public_bytes(Encoding.DER)
            self.assertEqual(self.refusal(csr), "certificate_key")

    def test_requests(self) -> None:
        """A request changed, cut, too long or of another form is refused."""
        csr = make_request(new_key())
        changed = bytes((*csr[:-1], csr[-1] ^ 1))
        for bad in (b"", csr[:-1], changed, csr + b"\0" * 5000, csr.hex().encode()):
            self.assertEqual(self.refusal(bad), "certificate_malformed")

    def test_what_it_may_sign(self) -> None:
        """Another CA's role, another cluster, a name that is none and no life are refused."""
        csr = make_request(new_key())
        self.assertEqual(self.refusal(csr, Role.USER), "certificate_role")
        self.assertEqual(self.refusal(csr, cluster="other.test"), "certificate_cluster")
        self.assertEqual(self.refusal(csr, names=("*.evil.test",)), "certificate_name")
        self.assertEqual(self.refusal(csr, names=("Upper.test",)), "certificate_name")
        self.assertEqual(self.refusal(csr, lifetime=0), "certificate_malformed")
        self.assertEqual(self.refusal(csr, generation=0), "certificate_malformed")

    def test_seconds(self) -> None:
        """A leaf of three seconds is good at once, for three seconds, and then no more."""
        self.world.clock.advance(0.5)
        issued = self.sign(make_request(new_key()), lifetime=3)
        facts = self.world.verifier.verify(issued.chain, frozenset(Role))
        self.assertEqual((facts.not_before, facts.not_after), (BEGIN - 60, BEGIN + 4))
        self.world.clock.advance(2.9)
        self.world.verifier.verify(issued.chain, frozenset(Role))
        self.world.clock.advance(1.1)
        self.assertRaises(
            CertificateRefused, self.world.verifier.verify, issued.chain, frozenset(Role)
        )

    def test_end_of_issuer(self) -> None:
        """A leaf never outlives its issuing CA, and an expired one signs no more."""
        self.world.clock.advance(profile.ISSUER_LIFETIME - 100)
        issued = self.sign(make_request(new_key()), lifetime=profile.DAY)
        self.assertEqual(issued.facts.not_after, BEGIN + profile.ISSUER_LIFETIME)
        self.world.clock.advance(100)
        self.assertEqual(self.refusal(make_request(new_key())), "certificate_expired")


class DeskTests(SynchronousTestCase):
    """Who gets which certificate at Authority."""

    def setUp(self) -> None:
        self.world = World()
        self.issuer = CertificateIssuer(self.world.keys, node_lifetime=100, person_lifetime=50)
        self.key = new_key()
        self.csr = make_request(self.key)

    @proves("G-IDN-01")
    def test_node(self) -> None:
        """A node is named by its key, whatever the token's other fields say."""
        grant = TokenGrant("t" * 16, Role.CONNECTOR, name="c-1", names=("c1.test",))
        issued = self.issuer.admit(grant, self.csr)
        other = self.issuer.admit(grant, make_request(new_key()))
        self.assertEqual(issued.facts.principal.role, Role.CONNECTOR)
        self.assertNotEqual(issued.facts.principal.id, other.facts.principal.id)
        self.assertEqual(issued.facts.generation, 1)
        self.assertEqual(issued.key_sha256, prove_key(self.csr).sha256)
        self.world.verifier.verify(issued.chain, frozenset({Role.CONNECTOR}))

    def test_person(self) -> None:
        """A person gets the id the registry chose, signed by the CA for persons."""
        issued = self.issuer.admit(TokenGrant("t" * 16, Role.USER, PERSON), self.csr)
        self.assertEqual(issued.facts.principal, Principal(CLUSTER, Role.USER, PERSON))
        facts = self.world.verifier.verify(issued.chain, frozenset({Role.USER}))
        self.assertEqual(facts.not_after, BEGIN + 50)

    def test_no_holder(self) -> None:
        """A token that names no person, or a purpose, gives nothing."""
        for grant in (TokenGrant("t", Role.USER), TokenGrant("t", Role.PURPOSE, "grant")):
            self.assertRaises(CertificateRefused, self.issuer.admit, grant, self.csr)

    def test_bad_request_first(self) -> None:
        """A bad request can be refused before its token is spent."""
        self.assertRaises(CertificateRefused, self.issuer.examine, b"no request")

    def renewed(self, shown, key, standing):  # type: ignore[no-untyped-def]
        return self.issuer.renew(shown.facts, make_request(key), standing)

    def test_renewal(self) -> None:
        """A renewal keeps the name, counts up, and takes the new key."""
        first = self.issuer.admit(TokenGrant("t", Role.PROXY), self.csr)
        standing = HolderStanding(1, first.key_sha256, ("gw.test",))
        second = self.renewed(first, new_key(), standing)
        self.assertEqual(second.facts.principal, first.facts.principal)
        self.assertEqual(second.facts.generation, 2)
        self.assertNotEqual(second.key_sha256, first.key_sha256)

    def test_lost_answer(self) -> None:
        """A node that never got its renewed certificate asks again with the same key."""
        first = self.issuer.admit(TokenGrant("t", Role.PROXY), self.csr)
        pending = new_key()
        second = self.renewed(first, pending, HolderStanding(1, first.key_sha256))
        again = self.renewed(first, pending, HolderStanding(2, second.key_sha256))
        self.assertEqual(again.facts.generation, 2)
        self.assertEqual(again.key_sha256, second.key_sha256)

    def test_clone(self) -> None:
        """Whoever renews from an older generation with another key is a clone."""
        first = self.issuer.admit(TokenGrant("t", Role.PROXY), self.csr)
        second = self.renewed(first, new_key(), HolderStanding(1, first.key_sha256))
        standing = HolderStanding(2, second.key_sha256)
        self.assertRaises(CloneSuspected, self.renewed, first, new_key(), standing)
        older = HolderStanding(3, second.key_sha256)
        self.assertRaises(CloneSuspected, self.renewed, first, self.key, older)
        newer = HolderStanding(0, first.key_sha256)
        self.assertRaises(CloneSuspected, self.renewed, first, new_key(), newer)

    def test_revoked(self) -> None:
        """A revoked holder renews nothing."""
        first = self.issuer.admit(TokenGrant("t", Role.PROXY), self.csr)
        standing = HolderStanding(1, first.key_sha256, revoked=True)
        self.assertRaises(IdentityRevoked, self.renewed, first, new_key(), standing)
