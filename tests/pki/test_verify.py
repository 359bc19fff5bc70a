"""The verifier of chains: what it accepts, and the many things that it does not."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

from svc.model.certificate import CertificateRefused
from svc.model.principal import HOLDERS, Role
from svc.pki import profile
from svc.pki.issue import der
from svc.pki.root import new_key
from svc.pki.verify import MAX_REMEMBERED, ChainVerifier, ca_pin, root_cluster
from tests.pki.candidate import as_candidate
from tests.pki.support import AGENT, ALL, BEGIN, CLUSTER, GOOD, ID, VerifierTests, World, forged

#: URIs that must name nobody, and a word of the refusal that says why.
BAD_URIS = (
    (f"SPIFFE://{CLUSTER}/proxy/{ID}", "scheme"),
    (f"Spiffe://{CLUSTER}/proxy/{ID}", "scheme"),
    (f"https://{CLUSTER}/proxy/{ID}", "scheme"),
    (f"spiffe:/{CLUSTER}/proxy/{ID}", "scheme"),
    (f"//{CLUSTER}/proxy/{ID}", "scheme"),
    (f" spiffe://{CLUSTER}/proxy/{ID}", "scheme"),
    (f"spiffe://C1.example.test/proxy/{ID}", "trust domain"),
    (f"spiffe://{CLUSTER}:443/proxy/{ID}", "trust domain"),
    (f"spiffe://{CLUSTER}./proxy/{ID}", "trust domain"),
    (f"spiffe:///proxy/{ID}", "trust domain"),
    (f"spiffe://c1_example.test/proxy/{ID}", "trust domain"),
    (f"spiffe://{CLUSTER}\0.evil.test/proxy/{ID}", "trust domain"),
    (f"spiffe://*.example.test/proxy/{ID}", "trust domain"),
    (f"spiffe://user@{CLUSTER}/proxy/{ID}", "user information"),
    (f"spiffe://{CLUSTER}/proxy/%2e%2e/{ID}", "escapes"),
    (f"spiffe://{CLUSTER}/proxy/{ID}?x=1", "query"),
    (f"spiffe://{CLUSTER}/proxy/{ID}#x", "fragment"),
    (f"spiffe://{CLUSTER}\\proxy\\{ID}", "escapes"),
    (f"spiffe://{CLUSTER}/../proxy/{ID}", "path"),
    (f"spiffe://{CLUSTER}/proxy/./{ID}", "path"),
    (f"spiffe://{CLUSTER}/proxy/..", "id does not"),
    (f"spiffe://{CLUSTER}/proxy/{ID}/", "path"),
    (f"spiffe://{CLUSTER}//proxy/{ID}", "path"),
    (f"spiffe://{CLUSTER}", "path"),
    (f"spiffe://{CLUSTER}/", "path"),
    (f"spiffe://{CLUSTER}/proxy", "path"),
    (f"spiffe://{CLUSTER}/PROXY/{ID}", "role"),
    (f"spiffe://{CLUSTER}/root/{ID}", "role"),
    (f"spiffe://{CLUSTER}/proxy/transport", "id does not"),
    (f"spiffe://{CLUSTER}/user/grant", "id does not"),
    (f"spiffe://{CLUSTER}/proxy/{ID.upper()}", "id does not"),
    (f"spiffe://{CLUSTER}/proxy/{ID}\0", "id does not"),
    (f"spiffe://{CLUSTER}/proxy/{'a' * 2048}", "2048"),
)


class AcceptedTests(VerifierTests):
    """Chains that are good."""

    def test_every_role(self) -> None:
        """Each role's certificate is accepted, with and without the root, parsed or not."""
        for role in HOLDERS:
            key = new_key()
            issued = self.world.issued(role, key, generation=7)
            for chain in (
                issued.chain,
                (*issued.chain, self.world.keys.root_der),
                tuple(x509.load_der_x509_certificate(each) for each in issued.chain),
            ):
                fresh = ChainVerifier(CLUSTER, self.world.keys.root_der, self.world.now)
                facts = fresh.verify(chain, frozenset({role}))
                self.assertEqual(facts.principal, issued.facts.principal)
                self.assertEqual((facts.generation, facts.sha256), (7, issued.facts.sha256))
                self.assertEqual(facts.public_key, key.public_key())
                self.assertIs(facts.public_key, facts.public_key)  # made once

    def test_remembered_leaf(self) -> None:
        """A leaf seen before is judged by its time and role again, not by memory alone."""
        issued = self.world.issued(Role.PROXY, new_key(), lifetime=10)
        self.verifier.verify(issued.chain, ALL)
        self.assertRefused("role", issued.chain, frozenset({Role.USER}))
        self.world.clock.advance(10)
        self.assertRefused("expired", issued.chain)

    def test_memory_is_bounded(self) -> None:
        """However many certificates are shown, the verifier remembers a fixed number."""
        chain = self.world.issued(Role.PROXY, new_key()).chain
        facts = self.verifier.verify(chain, ALL)
        for number in range(MAX_REMEMBERED + 10):
            self.verifier._leafs[b"%d" % number] = facts
        other = self.world.issued(Role.PROXY, new_key()).chain
        size = len(self.verifier._leafs)
        self.verifier.verify(other, ALL)
        self.assertEqual(len(self.verifier._leafs), size)

    def test_chain_narrows(self) -> None:
        """A leaf is good no longer than its issuing CA."""
        chain = forged(self.world, uris=[GOOD], end=BEGIN + 400 * profile.DAY)
        facts = self.verifier.verify(chain, ALL)
        self.assertEqual(facts.not_after, BEGIN + profile.ISSUER_LIFETIME)
        self.world.clock.advance(profile.ISSUER_LIFETIME)
        self.assertRefused("expired", chain)


class NameTests(VerifierTests):
    """Whom a certificate may name, and how."""

    def test_forger_is_good(self) -> None:
        """The forger's plain certificate is good: what is refused below is what each changes."""
        self.verifier.verify(forged(self.world, uris=[GOOD]), ALL)

    def test_bad_uris(self) -> None:
        """Each malformed SPIFFE URI is refused, and the refusal says what is wrong."""
        for uri, word in BAD_URIS:
            error = self.refusal(forged(self.world, uris=[uri]))
            self.assertEqual(error.reason, "certificate_name", uri)
            self.assertIn(word, error.text, uri)

    def test_count_of_uris(self) -> None:
        """No URI, two URIs, and the same URI twice are refused."""
        for uris in ([], [GOOD, f"spiffe://{CLUSTER}/connector/{ID}"], [GOOD, GOOD]):
            self.assertRefused("name", forged(self.world, uris=uris))

    def test_other_names(self) -> None:
        """A node may carry host names; nobody carries other sorts of name."""
        self.verifier.verify(forged(self.world, uris=[GOOD], names=[x509.DNSName("a.test")]), ALL)
        mail = x509.RFC822Name("a@a.test")
        self.assertRefused("name", forged(self.world, uris=[GOOD], names=[mail]))
        user = f"spiffe://{CLUSTER}/user/{ID}"
        chain = forged(self.world, kind="spiffe", uris=[user], names=[x509.DNSName("a.test")])
        self.assertRefused("name", chain)

    def test_other_cluster(self) -> None:
        """A certificate that names another cluster is refused, though our own CA signed it."""
        chain = forged(self.world, uris=[f"spiffe://other.test/proxy/{ID}"])
        self.assertRefused("cluster", chain)


_IDS = {Role.PURPOSE: "grant", Role.CA: "transport", Role.AGENT: AGENT}


class RoleTests(VerifierTests):
    """Which issuing CA may sign which role."""

    def test_kind_and_role(self) -> None:
        """An issuing CA's word is nothing for a role that is not its own."""
        for kind, row in profile.ISSUERS.items():
            for role in ALL - row.roles:
                id = _IDS.get(role, ID)
                chain = forged(
                    self.world, kind=kind, uris=[f"spiffe://{CLUSTER}/{role.value}/{id}"]
                )
                self.assertRefused("role", chain)

    def test_role_asked_for(self) -> None:
        """A certificate of one role does not pass where another is asked for."""
        chain = self.world.issued(Role.CONNECTOR, new_key()).chain
        for role in ALL - {Role.CONNECTOR}:
            self.assertRefused("role", chain, frozenset({role}))


class UsageTests(VerifierTests):
    """What a leaf may be used for."""

    def test_leaf_as_authority(self) -> None:
        """A leaf that says it is a CA, or may sign certificates, is refused."""
        self.assertRefused("usage", forged(self.world, uris=[GOOD], ca=True))
        usage = profile.key_usage(authority=True)
        self.assertRefused("usage", forged(self.world, uris=[GOOD], key_usage=usage))

    def test_extended_usages(self) -> None:
        """Extended key usages other than exactly the role's are refused."""
        for usages in (
            [Usage.CLIENT_AUTH],
            [Usage.CLIENT_AUTH, Usage.SERVER_AUTH, Usage.CODE_SIGNING],
            [Usage.ANY_EXTENDED_KEY_USAGE],
        ):
            self.assertRefused("usage", forged(self.world, uris=[GOOD], usages=usages))
        chain = forged(
            self.world,
            kind="spiffe",
            uris=[f"spiffe://{CLUSTER}/user/{ID}"],
            usages=[Usage.CLIENT_AUTH, Usage.SERVER_AUTH],
        )
        self.assertRefused("usage", chain)

    def test_other_keys(self) -> None:
        """A leaf with a key that is not on P-256 is refused."""
        for key in (
            ed25519.Ed25519PrivateKey.generate(),
            ec.generate_private_key(ec.SECP384R1()),
            rsa.generate_private_key(65537, 2048),
        ):
            self.assertRefused("usage", forged(self.world, uris=[GOOD], key=key))

    def test_unknown_critical_extension(self) -> None:
        """An extension that must be understood and is not refuses the certificate."""
        extension = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\5\0")
        self.assertRefused("malformed", forged(self.world, uris=[GOOD], extra=[(extension, True)]))
        self.verifier.verify(forged(self.world, uris=[GOOD], extra=[(extension, False)]), ALL)

    def test_unreadable_extension(self) -> None:
        """A name of a sort that cannot be read refuses the certificate, and is no fault of ours."""
        x400 = bytes.fromhex("3004a3023000")
        names = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, x400)
        self.assertRefused("malformed", forged(self.world, uris=[], extra=[(names, False)]))

    def test_version(self) -> None:
        """A certificate of another version than 3 is refused, and is no fault of ours."""
        leaf, *above = forged(self.world, uris=[GOOD])
        second = leaf.replace(bytes.fromhex("a003020102"), bytes.fromhex("a003020101"), 1)
        self.assertNotEqual(second, leaf)
        self.assertRefused("malformed", (second, *above))

    def test_generation(self) -> None:
        """A leaf without a renewal generation, or with one of no sense, is refused."""
        for values in ((), ("1", "1"), ("0",), ("01",), ("-1",), ("x",), ("9" * 19,)):
            self.assertRefused("malformed", forged(self.world, uris=[GOOD], generations=values))
        self.verifier.verify(forged(self.world, uris=[GOOD], generations=("9",)), ALL)

    def test_candidate(self) -> None:
        """A leaf as an earlier candidate made it is refused, and the refusal says what it is."""
        leaf = x509.load_der_x509_certificate(self.world.issued(Role.PROXY, new_key()).chain[0])
        transport = self.world.keys.issuers["transport"]
        chain = (der(as_candidate(leaf, transport.key)), der(transport.certificate))
        self.assertRefused("malformed", chain)
        self.assertIn("candidate", self.refusal(chain).text)


class TimeTests(VerifierTests):
    """When a certificate is good."""

    def test_window(self) -> None:
        """A certificate is good from its first second until just before its last."""
        chain = forged(self.world, uris=[GOOD], begin=BEGIN + 10, end=BEGIN + 20)
        self.assertRefused("not_yet_valid", chain)
        self.world.clock.advance(10)
        self.verifier.verify(chain, ALL)
        self.world.clock.advance(9.9)
        self.verifier.verify(chain, ALL)
        self.world.clock.advance(0.1)
        self.assertRefused("expired", chain)

    def test_before_the_chain(self) -> None:
        """A leaf backdated to before its issuing CA is not good then."""
        chain = forged(self.world, uris=[GOOD], begin=BEGIN - 9000)
        verifier = ChainVerifier(CLUSTER, self.world.keys.root_der, lambda: BEGIN - 5000)
        error = self.assertRaises(CertificateRefused, verifier.verify, chain, ALL)
        self.assertEqual(error.reason, "certificate_not_yet_valid")


class ChainTests(VerifierTests):
    """What stands between a leaf and the root."""

    def test_other_root(self) -> None:
        """A chain of another root is refused, though it names the same cluster."""
        other = World().issued(Role.PROXY, new_key())
        self.assertRefused("chain", other.chain)

    def test_shapes(self) -> None:
        """A chain too short, too long, doubled or out of order is refused."""
        leaf, issuer = self.world.issued(Role.PROXY, new_key()).chain
        root = self.world.keys.root_der
        other = World().keys.root_der
        for chain in (
            (),
            (leaf,),
            (leaf, root),
            (leaf, leaf),
            (issuer, leaf),
            (leaf, issuer, other),
            (leaf, issuer, issuer),
            (leaf, issuer, root, root),
        ):
            self.assertRefused("chain", chain)

    def test_authority_as_leaf(self) -> None:
        """An issuing CA and the root do not pass for anyone's certificate."""
        issuer = self.world.issued(Role.PROXY, new_key()).chain[1]
        for chain in ((issuer,), (self.world.keys.root_der,), (issuer, issuer)):
            self.refusal(chain)

    def test_leaf_as_issuer(self) -> None:
        """A certificate signed by a leaf is refused."""
        key = new_key()
        leaf, _ = self.world.issued(Role.PROXY, key).chain
        self.assertRefused("chain", (leaf, leaf))
        self.assertRefused("chain", (self.world.issued(Role.PROXY, new_key()).chain[0], leaf))

    def test_garbage(self) -> None:
        """Bytes that are no certificate, cut or changed ones, and huge ones are refused."""
        leaf, issuer = self.world.issued(Role.PROXY, new_key()).chain
        changed = bytes((*leaf[:-1], leaf[-1] ^ 1))
        for first in (b"", b"\0", leaf[:-1], leaf + b"\0", changed, b"\x30" * 9000):
            self.refusal((first, issuer))
        for second in (b"", issuer[:-1], b"\x30" * 9000):
            self.refusal((leaf, second))

    def test_refusals_are_not_remembered(self) -> None:
        """A leaf refused with a wrong chain is accepted with its right one."""
        issued = self.world.issued(Role.PROXY, new_key())
        self.assertRefused("chain", issued.chain[:1])
        self.verifier.verify(issued.chain, ALL)

    def test_root(self) -> None:
        """A verifier is made only of a root of its cluster; pin and name are read from it."""
        keys = self.world.keys
        self.assertEqual(root_cluster(keys.root_der), CLUSTER)
        self.assertEqual(len(ca_pin(keys.root_der)), 64)
        issuer = der(keys.issuers["transport"].certificate)
        for root, cluster in ((keys.root_der, "other.test"), (issuer, CLUSTER), (b"x", CLUSTER)):
            self.assertRaises(CertificateRefused, ChainVerifier, cluster, root, self.world.now)
