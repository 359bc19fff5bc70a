"""Signatures: one key, one purpose, the very bytes."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.signing import MAX_SIGNATURE_BYTES, BadSignature, Purpose, Signed, sign, verify

P256 = ec.generate_private_key(ec.SECP256R1())
ED25519 = ed25519.Ed25519PrivateKey.generate()


class SigningTests(SynchronousTestCase):
    """Both sorts of key."""

    @settings(deadline=None)
    @given(st.sampled_from([P256, ED25519]), st.sampled_from(Purpose), st.binary())
    def test_round_trip(self, key, purpose: Purpose, data: bytes) -> None:  # type: ignore[no-untyped-def]
        """What was signed verifies, within the length a reader allows."""
        signature = sign(key, purpose, data)
        self.assertLessEqual(len(signature), MAX_SIGNATURE_BYTES)
        verify(key.public_key(), purpose, data, signature)

    def test_other_purpose(self) -> None:
        """A signature for one purpose is worth nothing for any other."""
        for key in (P256, ED25519):
            for made in Purpose:
                signature = sign(key, made, b"data")
                for asked in set(Purpose) - {made}:
                    with self.assertRaises(BadSignature):
                        verify(key.public_key(), asked, b"data", signature)

    def test_prefix(self) -> None:
        """The signed text begins with the purpose, as other implementations must spell it."""
        signature = sign(ED25519, Purpose.SESSION_REQUEST, b"data")
        ED25519.public_key().verify(signature, b"svc-session-request-v1\0data")

    def test_changed(self) -> None:
        """Changed bytes, another key, no signature and one too long are refused alike."""
        other = ec.generate_private_key(ec.SECP256R1()).public_key()
        signature = sign(P256, Purpose.GRANT, b"data")
        texts = set()
        for key, data, tried in (
            (P256.public_key(), b"dat", signature),
            (other, b"data", signature),
            (ED25519.public_key(), b"data", signature),
            (P256.public_key(), b"data", b""),
            (P256.public_key(), b"data", signature + b"\0" * 100),
        ):
            with self.assertRaises(BadSignature) as caught:
                verify(key, Purpose.GRANT, data, tried)
            texts.add(caught.exception.text)
        self.assertEqual(len(texts), 1)

    def test_other_keys(self) -> None:
        """Keys of other sorts neither sign nor verify."""
        for key in (
            ec.generate_private_key(ec.SECP384R1()),
            rsa.generate_private_key(65537, 2048),
        ):
            with self.assertRaises(BadSignature):
                sign(key, Purpose.GRANT, b"data")  # type: ignore[arg-type]
            with self.assertRaises(BadSignature):
                verify(key.public_key(), Purpose.GRANT, b"data", b"x")  # type: ignore[arg-type]

    def test_repr(self) -> None:
        """A signed value in a log shows no signature and no certificate."""
        text = repr(Signed(b"payload", b"SIGNATURE", (b"CHAIN",)))
        self.assertNotIn("SIGNATURE", text)
        self.assertNotIn("CHAIN", text)
