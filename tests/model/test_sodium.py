"""libsodium beside OpenSSL: a signature is good if, and only if, it is good by OpenSSL."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.signing import BadSignature, Purpose, sign, verify
from svc.model.sodium import as_strict, is_surely_good
from tests.model.edwards import (
    BASE,
    NEUTRAL,
    ORDER,
    SMALL,
    P,
    Point,
    add,
    challenge,
    number,
    read,
    times,
    written,
)
from tests.support.examples import examples

_RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155",
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac",
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
"""Seed, key, text and both halves of the signature (section 7.1, tests 1 to 3)."""

_SECRET, _NONCE = 2**251 + 12345, 2**250 + 6789
_KEY = times(_SECRET, BASE)
_PREFIX = b"svc-audit-row-v1\0"


def _by_openssl(key: bytes, text: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except InvalidSignature:
        return False
    return True


def _by_us(key: bytes, data: bytes, signature: bytes) -> bool:
    try:
        verify(Ed25519PublicKey.from_public_bytes(key), Purpose.AUDIT_ROW, data, signature)
    except BadSignature:
        return False
    return True


def _signed(nonce: Point, key: bytes, data: bytes) -> bytes:
    """As the owner of the secret signs, but with any point in the places of nonce and key."""
    begin = written(nonce)
    return begin + number((_NONCE + challenge(begin, key, _PREFIX + data) * _SECRET) % ORDER)


def _odd_signatures() -> Iterator[tuple[str, bytes, bytes, bytes]]:
    """What it is, key, data and signature."""
    key, nonce = written(_KEY), times(_NONCE, BASE)
    yield "honest", key, b"data", _signed(nonce, key, b"data")
    for count in range(1, 8):
        part = times(count, SMALL)
        yield f"a nonce with part {count}", key, b"data", _signed(add(nonce, part), key, b"data")
        mixed = written(add(_KEY, part))
        for n in range(16):
            data = b"data %d" % n
            yield f"a key with part {count}", mixed, data, _signed(nonce, mixed, data)
    good = _signed(nonce, key, b"data")
    larger = int.from_bytes(good[32:], "little") + ORDER
    yield "a number that is not reduced", key, b"data", good[:32] + number(larger)
    for what, begin in (("", written(NEUTRAL)), (", not in its one form", number(P + 1))):
        by = challenge(begin, key, _PREFIX + b"data") * _SECRET % ORDER
        yield f"the neutral nonce{what}", key, b"data", begin + number(by)
    not_in_form = [number(P + 1), number(1 | 1 << 255), number(P + 1 | 1 << 255)]
    for small in [*(written(times(count, SMALL)) for count in range(8)), *not_in_form]:
        for n in range(16):
            yield "a key of small order", small, b"data %d" % n, written(NEUTRAL) + bytes(32)


class SodiumTests(SynchronousTestCase):
    """What is accepted."""

    def test_published(self) -> None:
        """The signatures of RFC 8032 are accepted, and are what we make."""
        for seed, key, text, *halves in (map(bytes.fromhex, each) for each in _RFC_8032):
            signature = b"".join(halves)
            self.assertTrue(is_surely_good(key, text, signature))
            self.assertEqual(Ed25519PrivateKey.from_private_bytes(seed).sign(text), signature)
            self.assertFalse(is_surely_good(key, text + b"x", signature))

    def test_odd(self) -> None:
        """Of keys and nonces that no honest signer has, we accept what OpenSSL does: no more."""
        verdicts: dict[str, set[tuple[bool, bool]]] = {}
        for what, key, data, signature in _odd_signatures():
            text = _PREFIX + data
            due = _by_openssl(key, text, signature)
            self.assertEqual(_by_us(key, data, signature), due, what)
            surely = is_surely_good(key, text, signature)
            self.assertLessEqual(surely, due, what)
            verdicts.setdefault(what, set()).add((due, surely))
        # Without these the comparison says little: OpenSSL accepts, libsodium does not.
        self.assertIn((True, False), verdicts["a key of small order"])
        self.assertEqual(verdicts["the neutral nonce"], {(True, False)})
        self.assertEqual(verdicts["honest"], {(True, True)})
        self.assertEqual(verdicts["a nonce with part 1"], {(False, False)})

    def test_moved(self) -> None:
        """Bytes at the end of a signature are never a part of the text, nor the other way round."""
        key = Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes_raw()
        signature = key.sign(b"longer text")
        self.assertFalse(is_surely_good(public, b" text", signature + b"longer"))
        self.assertFalse(is_surely_good(public, signature[-1:] + b"longer text", signature[:-1]))
        self.assertFalse(is_surely_good(public, b"longer text", b""))

    def test_another_equation(self) -> None:
        """A library that accepts a part of small order, as RFC 8032 allows, is not asked."""

        def by_cofactor(signed: bytes, public_key: bytes) -> bool:
            nonce, key = read(signed[:32]), read(public_key)
            by = challenge(signed[:32], public_key, signed[64:])
            left = times(8 * int.from_bytes(signed[32:64], "little"), BASE)
            return left == add(times(8, nonce), times(8 * by, key))

        key, data = written(_KEY), b"data"
        mixed = _signed(add(times(_NONCE, BASE), SMALL), key, data) + _PREFIX + data
        honest = _signed(times(_NONCE, BASE), key, data) + _PREFIX + data
        self.assertTrue(by_cofactor(honest, key))
        self.assertTrue(by_cofactor(mixed, key))
        self.assertFalse(as_strict(by_cofactor)(honest, key))
        self.assertFalse(as_strict(by_cofactor)(mixed, key))

    @settings(deadline=None, max_examples=examples(300))
    @given(st.binary(min_size=32, max_size=32), st.binary(max_size=200), st.data())
    def test_altered(self, seed: bytes, data: bytes, draw: st.DataObject) -> None:
        """An honest signature is good by both; what both make of an altered one is the same."""
        key = Ed25519PrivateKey.from_private_bytes(seed)
        public, signature = key.public_key().public_bytes_raw(), sign(key, Purpose.AUDIT_ROW, data)
        self.assertTrue(is_surely_good(public, _PREFIX + data, signature))
        at = draw.draw(st.integers(0, len(signature) - 1))
        bit = draw.draw(st.integers(0, 7))
        altered = bytearray(signature)
        altered[at] ^= 1 << bit
        length = draw.draw(st.integers(0, 72))
        for tried in (bytes(altered), (signature + bytes(8))[:length]):
            due = _by_openssl(public, _PREFIX + data, tried)
            self.assertEqual(_by_us(public, data, tried), due)
            self.assertLessEqual(is_surely_good(public, _PREFIX + data, tried), due)
