"""What libsodium does here: it verifies Ed25519 signatures, and seals to a public key.

It verifies in half the time that OpenSSL takes, and never answers no.  The two libraries do not
refuse the same: libsodium refuses keys and nonces of small order and keys that are not in their one
form, OpenSSL does not.  Whatever it does not accept is for OpenSSL to judge, so a signature is good
here if, and only if, it is good by OpenSSL, and so by everybody who verifies the log without us.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

KEY_BYTES, SIGNATURE_BYTES = 32, 64
_LENGTH = 4

_KEY = bytes.fromhex("89908d9e48a4077644e71a40e317be1f0f19e944db92b2e9e60d5b2994c64057")
_TEXT = b"svc"
_MIXED_ORDER = bytes.fromhex(
    "047f6dccec980967e5c7cc830ad8380547e1fdadb9ce37c3c63de3b91e32788d"
    "37011b38134e55137136b8ec17de019ce03bec9dea7fd37c67fb6ff1641c8f0d"
)
"""Over the text above, its nonce with a part of small order: good by the equation of RFC 8032
(5.1.7) that multiplies by the cofactor, and not by the one without it, which OpenSSL takes."""

_NOT_REDUCED = bytes.fromhex(
    "56087d640c7dbcaad39cbb5212f80c510277724056ff65763f9b14b42286a214"
    "c0a5ad7300c080736775fa86c628ebca5d88690f2ec5df3d966961341877e217"
)
"""A good one but for its second half, which is larger than the order of the group."""


def is_surely_good(public_key: bytes, text: bytes, signature: bytes) -> bool:
    """Whether libsodium accepts the signature; where it does not, ask OpenSSL.

    Args:
        public_key: Its 32 raw bytes.
    """
    # libsodium gets both in one piece: a signature of another length would move the text.
    return len(signature) == SIGNATURE_BYTES and _opener()(signature + text, public_key)


def question(public_key: bytes, text: bytes, signature: bytes) -> bytes:
    """A signature as :func:`answers` reads it; empty for one that libsodium does not accept."""
    if len(public_key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return b""
    return public_key + len(text).to_bytes(_LENGTH, "big") + signature + text


def answers(questions: bytes) -> bytes:
    """For each of *questions*, joined: 1 where :func:`is_surely_good`, 0 where not.

    For another process, which needs to import no more than this module.
    """
    found, at = bytearray(), 0
    while at < len(questions):
        key_end = at + KEY_BYTES
        begin = key_end + _LENGTH
        end = begin + SIGNATURE_BYTES + int.from_bytes(questions[key_end:begin], "big")
        found.append(_opener()(questions[begin:end], questions[at:key_end]))
        at = end
    return bytes(found)


Opens = Callable[[bytes, bytes], bool]
"""``opens(signed, public_key)``: whether a text with its signature before it is good."""


def as_strict(opens: Opens) -> Opens:
    """*opens*, unless it accepts what OpenSSL refuses, as another build of the library may."""
    if any(opens(each + _TEXT, _KEY) for each in (_MIXED_ORDER, _NOT_REDUCED)):
        return lambda _signed, _key: False
    return opens


@cache
def _opener() -> Opens:
    # Here, not above: it takes some milliseconds, and most programs verify no such signature.
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import BadSignatureError

    def opens(signed: bytes, public_key: bytes) -> bool:
        try:
            crypto_sign_open(signed, public_key)
        except BadSignatureError:
            return False
        return True

    return as_strict(opens)


class NotOpened(ValueError):
    """What is no sealed box for this key, or was altered; or a key that none is."""


def public_half(private_key: bytes) -> bytes:
    """The public X25519 key of a private one, both raw."""
    from nacl.public import PrivateKey

    found: bytes = PrivateKey(private_key).public_key.encode()
    return found


def seal_to(public_key: bytes, text: bytes) -> bytes:
    """*text* in a sealed box (X25519): nobody but the key's owner opens it, its maker included.

    Raises:
        NotOpened: no such key can be.
    """
    from nacl.exceptions import CryptoError
    from nacl.public import PublicKey, SealedBox

    try:
        sealed: bytes = SealedBox(PublicKey(public_key)).encrypt(text)
    except (CryptoError, ValueError, TypeError):
        raise NotOpened from None
    return sealed


def open_sealed(private_key: bytes, sealed: bytes) -> bytes:
    """What is in a sealed box.

    Raises:
        NotOpened: nothing for this key.
    """
    from nacl.exceptions import CryptoError
    from nacl.public import PrivateKey, SealedBox

    try:
        opened: bytes = SealedBox(PrivateKey(private_key)).decrypt(sealed)
    except (CryptoError, ValueError, TypeError):
        raise NotOpened from None
    return opened
