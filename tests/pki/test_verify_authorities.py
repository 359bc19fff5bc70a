"""What stands under the root: issuing CAs signed amiss, purpose keys and what they sign."""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import evolve
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage
from cryptography.x509.oid import NameOID

from svc.model.certificate import CertificateRefused
from svc.model.principal import Role
from svc.model.signing import BadSignature, Purpose, Signed, sign
from svc.pki import profile
from svc.pki.issue import der
from svc.pki.root import new_key
from tests.pki.support import ALL, BEGIN, CLUSTER, GOOD, VerifierTests, World, forged


def under_root(
    world: World,
    *extensions: tuple[x509.ExtensionType, bool],
    key: ec.EllipticCurvePrivateKey | None = None,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate that the root itself signed, with just these extensions."""
    key = key or new_key()
    root_key = world.keys.root_key
    assert root_key is not None
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "forged")]))
        .issuer_name(world.keys.root.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(BEGIN - 60, UTC))
        .not_valid_after(datetime.fromtimestamp(BEGIN + 3600, UTC))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(root_key, SHA256()), key


def uri(*texts: str) -> tuple[x509.ExtensionType, bool]:
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(t) for t in texts]), False


class IssuingAuthorityTests(VerifierTests):
    """Issuing CAs that the root signed by mistake."""

    def chain(self, **changes):  # type: ignore[no-untyped-def]
        """A Proxy's chain under an issuing CA that is good but for *changes*."""
        parts = {
            "constraints": (x509.BasicConstraints(True, 0), True),
            "usage": (profile.key_usage(authority=True), True),
            "name": uri(f"spiffe://{CLUSTER}/ca/transport"),
        } | changes
        key = parts.pop("key", None)
        issuer, key = under_root(self.world, *filter(None, parts.values()), key=key)
        transport = evolve(self.world.keys.issuers["transport"], certificate=issuer, key=key)
        good, self.world.keys = (
            self.world.keys,
            evolve(self.world.keys, issuers={"transport": transport}),
        )
        chain = forged(self.world, uris=[GOOD])
        self.world.keys = good
        return chain

    def test_good(self) -> None:
        """The issuing CA that the tests below change is accepted as it is."""
        self.verifier.verify(self.chain(), ALL)

    def test_bad(self) -> None:
        """One that is no CA, may have others below it, or signs more or less is refused."""
        for reason, changes in (
            ("usage", {"constraints": (x509.BasicConstraints(False, None), True)}),
            ("usage", {"constraints": (x509.BasicConstraints(True, 1), True)}),
            ("usage", {"constraints": (x509.BasicConstraints(True, None), True)}),
            ("usage", {"constraints": None}),
            ("usage", {"usage": (profile.key_usage(authority=False), True)}),
            ("usage", {"usage": None}),
            ("usage", {"key": ec.generate_private_key(ec.SECP384R1())}),
            ("cluster", {"name": uri("spiffe://other.test/ca/transport")}),
            ("name", {"name": uri(f"spiffe://{CLUSTER}")}),
            ("name", {"name": uri(f"spiffe://{CLUSTER}/ca")}),
            ("name", {"name": uri(f"spiffe://{CLUSTER}/ca/Transport")}),
            ("name", {"name": uri(f"spiffe://{CLUSTER}/ca/transport/x")}),
            ("name", {"name": uri(f"spiffe://{CLUSTER}/ca/transport", f"spiffe://{CLUSTER}")}),
            ("name", {"name": None}),
            ("role", {"name": uri(GOOD)}),
            ("role", {"name": uri(f"spiffe://{CLUSTER}/ca/unknown")}),
            ("role", {"name": uri(f"spiffe://{CLUSTER}/ca/grant")}),
            ("role", {"name": uri(f"spiffe://{CLUSTER}/ca/spiffe")}),
            ("role", {"name": uri(f"spiffe://{CLUSTER}/purpose/transport")}),
            ("role", {"name": uri(f"spiffe://{CLUSTER}/purpose/grant")}),
        ):
            self.assertRefused(reason, self.chain(**changes))


class PurposeTests(VerifierTests):
    """Bytes signed by purpose keys."""

    def signed(self, purpose: Purpose = Purpose.GRANT) -> Signed:
        return self.world.keys.signer(purpose)(b"bytes")

    def test_good(self) -> None:
        """What a purpose key signed for its purpose is accepted."""
        for purpose in profile.SIGNED_BY:
            facts = self.verifier.verify_signed(self.signed(purpose), purpose)
            self.assertEqual(facts.principal.id, profile.SIGNED_BY[purpose])

    def test_other_purpose(self) -> None:
        """A purpose key's signature for another purpose is refused, whatever it signed.

        That of the grant key for its other purpose, the extension of a grant, by its prefix.
        """
        for made in profile.SIGNED_BY:
            for asked in set(Purpose) - {made}:
                if profile.SIGNED_BY.get(asked) == profile.SIGNED_BY[made]:
                    refused: type[Exception] = BadSignature
                else:
                    refused = CertificateRefused
                error = self.assertRaises(
                    refused, self.verifier.verify_signed, self.signed(made), asked
                )
                if isinstance(error, CertificateRefused):
                    self.assertEqual(error.reason, "certificate_role")

    def test_other_signer(self) -> None:
        """A node's signature is no purpose key's, and another cluster's key is none of ours."""
        key = new_key()
        chain = self.world.issued(Role.PROXY, key).chain
        node = Signed(b"bytes", sign(key, Purpose.GRANT, b"bytes"), chain)
        foreign = World().keys.signer(Purpose.GRANT)(b"bytes")
        for signed in (node, foreign):
            self.assertRaises(
                CertificateRefused, self.verifier.verify_signed, signed, Purpose.GRANT
            )

    def test_usages(self) -> None:
        """A purpose certificate of any usage but document signing alone is refused."""
        signing = profile.PURPOSE_USAGE
        for usages in (
            [signing],
            [Usage.SERVER_AUTH],
            [Usage.CLIENT_AUTH],
            [Usage.CODE_SIGNING],
            [Usage.ANY_EXTENDED_KEY_USAGE],
            [signing, Usage.CLIENT_AUTH],
            [signing, Usage.ANY_EXTENDED_KEY_USAGE],
        ):
            certificate, key = under_root(
                self.world,
                (x509.BasicConstraints(False, None), True),
                (profile.key_usage(authority=False), True),
                (x509.ExtendedKeyUsage(usages), True),
                uri(f"spiffe://{CLUSTER}/purpose/grant"),
            )
            signature = sign(key, Purpose.GRANT, b"bytes")
            signed = Signed(b"bytes", signature, (der(certificate),))
            if usages == [signing]:
                self.verifier.verify_signed(signed, Purpose.GRANT)
            else:
                self.assertRefused("usage", signed.chain)

    def test_node_under_the_root(self) -> None:
        """A node's or a CA's name directly under the root is refused: the root signs no leafs."""
        for name in (
            GOOD,
            f"spiffe://{CLUSTER}/purpose/unknown",
            f"spiffe://{CLUSTER}/ca/transport",
            f"spiffe://{CLUSTER}/ca/grant",
        ):
            certificate, _ = under_root(
                self.world,
                (x509.BasicConstraints(False, None), True),
                (profile.key_usage(authority=False), True),
                (x509.ExtendedKeyUsage([Usage.CLIENT_AUTH, Usage.SERVER_AUTH]), True),
                uri(name),
            )
            self.assertRefused("chain", (der(certificate),))

    def test_changed(self) -> None:
        """Changed bytes, and another's signature under the right certificate, are refused."""
        good = self.signed()
        snapshot = self.signed(Purpose.SNAPSHOT)
        for signed in (
            Signed(b"other", good.signature, good.chain),
            Signed(b"bytes", snapshot.signature, good.chain),
            Signed(b"bytes", b"", good.chain),
        ):
            self.assertRaises(BadSignature, self.verifier.verify_signed, signed, Purpose.GRANT)

    def test_expired(self) -> None:
        """A purpose key signs nothing that counts after its certificate's end."""
        signed = self.signed()
        self.verifier.verify_signed(signed, Purpose.GRANT)
        self.world.clock.advance(profile.PURPOSE_LIFETIME)
        self.assertRaises(CertificateRefused, self.verifier.verify_signed, signed, Purpose.GRANT)
