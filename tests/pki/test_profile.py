"""What certificates look like: readable by every stock library, each saying what it is for."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.certificate import CertificateRefused
from svc.model.cluster.token import TokenGrant
from svc.model.principal import HOLDERS, NODE_ROLES, Principal, Role, parse_principal
from svc.pki import profile
from svc.pki.enroll import CertificateIssuer, HolderStanding
from svc.pki.issue import der, make_request
from svc.pki.root import new_key
from tests.pki.candidate import as_candidate
from tests.pki.support import CLUSTER, World

LARGEST_ARC = 2**31 - 1
"""Go's crypto/x509 refuses to parse a certificate with an object identifier's arc above it."""

DOCUMENT_SIGNING = x509.ObjectIdentifier("1.3.6.1.5.5.7.3.36")


def identifiers(data: bytes) -> Iterator[tuple[int, ...]]:
    """Every object identifier in DER, at any depth, inside octet strings as well."""
    at = 0
    while at < len(data):
        tag, at = data[at], at + 1
        length, at = data[at], at + 1
        if length > 0x80:
            size, length = length & 0x7F, 0
            for _ in range(size):
                length, at = length << 8 | data[at], at + 1
        value, at = data[at : at + length], at + length
        assert len(value) == length, "cut DER"
        if tag == 0x06:
            yield arcs(value)
        elif tag & 0x20 or (tag == 0x04 and value[:1] == b"\x30"):
            yield from identifiers(value)


def arcs(value: bytes) -> tuple[int, ...]:
    """The arcs of an object identifier; the first two come as one number."""
    found, number = list[int](), 0
    for octet in value:
        number = number << 7 | octet & 0x7F
        if not octet & 0x80:
            found.append(number)
            number = 0
    return tuple(found)


def every_certificate(world: World) -> dict[str, x509.Certificate]:
    """One of each sort that the product makes."""
    made = {"root": world.keys.root}
    made |= {kind: each.certificate for kind, each in world.keys.issuers.items()}
    made |= {word: each.certificate for word, each in world.keys.purposes.items()}
    for role in HOLDERS:
        names = ("gate.example.org", "192.0.2.1", "2001:db8::1") if role.is_node else ()
        chain = world.issued(role, new_key(), names=names).chain
        made[role.value] = x509.load_der_x509_certificate(chain[0])
    return made


class IdentifierTests(SynchronousTestCase):
    """No object identifier that a stock library cannot hold."""

    def setUp(self) -> None:
        self.world = World()

    def test_walker(self) -> None:
        """The walk over DER finds what stands in nested extensions, large arcs included."""
        keys = self.world.keys
        assert keys.root_key is not None
        old = as_candidate(keys.purposes["grant"].certificate, keys.root_key)
        found = max(max(each) for each in identifiers(der(old)))
        self.assertGreater(found, LARGEST_ARC)
        root = set(identifiers(der(keys.root)))
        self.assertIn((85, 29, 17), root)  # subjectAltName
        self.assertIn((42, 840, 10045, 4, 3, 2), root)  # ecdsa-with-SHA256

    def test_every_certificate(self) -> None:
        """No arc in any certificate that we issue is above 31 bits, nor stands under 2.25."""
        for name, certificate in every_certificate(self.world).items():
            found = list(identifiers(der(certificate)))
            self.assertGreater(len(found), 5, name)
            for each in found:
                self.assertLessEqual(max(each), LARGEST_ARC, name)
                self.assertNotEqual(each[0], 2 * 40 + 25, name)

    def test_request(self) -> None:
        """Nor does a certificate request hold such an arc."""
        found = list(identifiers(make_request(new_key())))
        self.assertLessEqual(max(max(each) for each in found), LARGEST_ARC)

    @given(st.sampled_from(sorted(HOLDERS, key=str)), st.integers(1, profile.MAX_GENERATION))
    def test_every_leaf(self, role: Role, generation: int) -> None:
        """Whatever generation a leaf is of, its arcs are small and its generation is read back."""
        issued = WORLD.issued(role, KEY, generation=generation)
        for data in issued.chain:
            for each in identifiers(data):
                self.assertLessEqual(max(each), LARGEST_ARC)
        facts = WORLD.verifier.examine(issued.chain)
        self.assertEqual(facts.generation, generation)


WORLD, KEY = World(), new_key()


class ContentTests(SynchronousTestCase):
    """What each certificate says of itself, in fields of the standards."""

    def setUp(self) -> None:
        self.made = every_certificate(World())

    def uris(self, name: str) -> list[str]:
        value = self.made[name].extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return value.value.get_values_for_type(x509.UniformResourceIdentifier)

    def test_uris(self) -> None:
        """One SPIFFE URI in each: the root names the cluster, the others what they are."""
        self.assertEqual(self.uris("root"), [f"spiffe://{CLUSTER}"])
        for kind in profile.ISSUERS:
            self.assertEqual(self.uris(kind), [f"spiffe://{CLUSTER}/ca/{kind}"])
        for word in profile.PURPOSES:
            self.assertEqual(self.uris(word), [f"spiffe://{CLUSTER}/purpose/{word}"])
        for role in HOLDERS:
            (uri,) = self.uris(role.value)
            self.assertEqual(parse_principal(uri).role, role)

    def test_usages(self) -> None:
        """A purpose certificate is for signing documents alone: no TLS library serves with it."""
        for name, certificate in self.made.items():
            if name == "root" or name in profile.ISSUERS:
                with self.assertRaises(x509.ExtensionNotFound):
                    certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
                continue
            usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
            expected = {DOCUMENT_SIGNING}
            if name not in profile.PURPOSES:
                is_node = Role(name) in NODE_ROLES
                expected = {Usage.CLIENT_AUTH} | ({Usage.SERVER_AUTH} if is_node else set())
            self.assertEqual(set(usage.value), expected, name)

    def test_extensions_are_known(self) -> None:
        """Every extension is one that a library of X.509 knows."""
        for certificate in self.made.values():
            for each in certificate.extensions:
                self.assertNotIsInstance(each.value, x509.UnrecognizedExtension)

    def test_subjects(self) -> None:
        """Only a leaf's subject carries a serialNumber: its renewal generation."""
        for name, certificate in self.made.items():
            found = certificate.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)
            is_leaf = name in {role.value for role in HOLDERS}
            self.assertEqual([each.value for each in found], ["1"] if is_leaf else [], name)


class GenerationTests(SynchronousTestCase):
    """The generation in a leaf's subject: one form, and no other."""

    def read(self, *values: str) -> int:
        name = x509.NameAttribute(NameOID.COMMON_NAME, "42")
        numbers = [x509.NameAttribute(NameOID.SERIAL_NUMBER, each) for each in values]
        return profile.read_generation(x509.Name([name, *numbers]))

    def test_read(self) -> None:
        """The first, an ordinary and the last one are read as they were written."""
        for generation in (1, 7, 10, 2**31, profile.MAX_GENERATION):
            subject = x509.Name([profile.generation_attribute(generation)])
            self.assertEqual(profile.read_generation(subject), generation)

    def test_refused(self) -> None:
        """Leading zeros, signs, spaces, other digits, other numbers and doubles are refused."""
        for values in (
            (),
            ("1", "1"),
            ("1", "2"),
            *((each,) for each in ("0", "01", "+1", "-1", " 1", "1 ", "1\n", "1.0", "1e3", "0x1")),
            ("\u0661",),
            ("1_0",),
            ("x",),
            (str(profile.MAX_GENERATION + 1),),
            ("9" * 40,),
        ):
            with self.assertRaises(Malformed, msg=repr(values)):
                self.read(*values)


class FactorTimeTests(SynchronousTestCase):
    """When a person presented a second factor: in a person's certificate, in one form."""

    def test_read(self) -> None:
        """It is read as it was written; a certificate without one says nothing."""
        world = World()
        for at in (None, 1, 1_800_000_000):
            issued = world.issued(Role.USER, new_key(), factor_at=at)
            self.assertEqual(issued.facts.factor_at, at)
            self.assertEqual(world.verifier.verify(issued.chain, {Role.USER}).factor_at, at)

    def test_only_of_people(self) -> None:
        """No node, agent or operator has one."""
        world = World()
        for role in HOLDERS - {Role.USER}:
            with self.assertRaises(CertificateRefused):
                world.issued(role, new_key(), factor_at=7)

    def test_renewed(self) -> None:
        """No renewal makes it younger (R35)."""
        world = World()
        issuer, key = CertificateIssuer(world.keys, 60, 60), new_key()
        grant = TokenGrant("", Role.USER, subject_id="a" * 26, name="ada")
        first = issuer.admit(grant, make_request(key), factor_at=7)
        standing = HolderStanding(first.facts.generation, first.key_sha256)
        renewed = issuer.renew(first.facts, make_request(new_key()), standing)
        self.assertEqual((renewed.facts.generation, renewed.facts.factor_at), (2, 7))

    def test_refused(self) -> None:
        """Another form, and a second one, are refused."""
        for values in (("0",), ("07",), ("-7",), ("7.5",), ("x",), ("7", "7"), ("9" * 13,)):
            numbers = [x509.NameAttribute(NameOID.DN_QUALIFIER, each) for each in values]
            with self.assertRaises(Malformed, msg=repr(values)):
                profile.read_factor(x509.Name(numbers))


class PrincipalTests(SynchronousTestCase):
    """Names of CAs and purposes are no names of persons or nodes, and the reverse."""

    def test_holders(self) -> None:
        """Whoever can be at the other end of a connection is neither a CA nor a purpose."""
        self.assertEqual(set(Role) - HOLDERS, {Role.CA, Role.PURPOSE})
        for role in (Role.CA, Role.PURPOSE):
            self.assertIsNone(profile.kind_of(role))

    def test_words(self) -> None:
        """A CA or purpose is named by its word; a word is no node's or person's id."""
        for role in (Role.CA, Role.PURPOSE):
            principal = Principal(CLUSTER, role, "transport")
            self.assertEqual(parse_principal(principal.uri), principal)
        for role in HOLDERS:
            with self.assertRaises(Malformed):
                parse_principal(Principal(CLUSTER, role, "transport").uri)
