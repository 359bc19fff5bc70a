"""What a security key or passkey registers and asserts (WebAuthn), judged; pure.

A key works for this cluster and for this program: the relying party is the cluster's name,
and the origin has a scheme that no browser gives to a page, so what a page has a key sign
is of no use here.  A passkey works for the public name, and for pages under it alone.  The
challenge is of one attempt, and so of the certificate's key.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, TypeVar, cast

from attrs import field, frozen
from cryptography.exceptions import InvalidSignature
from fido2 import cbor
from fido2.cose import CoseKey
from fido2.webauthn import AttestationObject, AuthenticatorData, CollectedClientData

from svc.authority.signin.refusals import SignInRefused
from svc.model.canonical import decode, encode

ALGORITHMS = (-7, -8)
"""ES256 and EdDSA, of COSE."""

PASSKEY_ALGORITHMS = (-7, -8, -257)
"""And RS256, which the TPMs of many laptops have alone."""

MAX_CLIENT_DATA = 4096
MAX_ATTESTATION = 16_384
_MAX_AUTHENTICATOR_DATA = 2048
_MAX_SIGNATURE = 512
_MAX_CREDENTIAL_ID = 1023
_SCHEME, _HTTPS = "svc", 443
_RS256, _MODULUS, _EXPONENT = -257, -1, -2
_MALFORMED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    NotImplementedError,
    RecursionError,
    struct.error,
)
_T = TypeVar("_T")


class KeyRefused(SignInRefused):
    """What a security key or passkey answered is not taken; ``reason`` says why."""


@frozen
class KeySite:
    """Who a key signs for.

    Attributes:
        rp_id: The relying party.
        origin: What the client data must name.
        algorithms: Those that are taken, of COSE.
    """

    rp_id: str
    origin: str
    algorithms: tuple[int, ...]

    @classmethod
    def of_cluster(cls, cluster: str) -> KeySite:
        """For keys that this program asks; no browser gives that origin to a page."""
        return cls(cluster, f"{_SCHEME}://{cluster}", ALGORITHMS)

    @classmethod
    def of_name(cls, host: str, port: int) -> KeySite:
        """For passkeys, which browsers use on pages of that name."""
        shown = host if port == _HTTPS else f"{host}:{port}"
        return cls(host, f"https://{shown}", PASSKEY_ALGORITHMS)


@frozen
class RegisteredKey:
    """A security key or passkey, as it is kept.

    Attributes:
        public: The public key, as COSE in CBOR.
    """

    credential_id: bytes
    public: bytes = field(repr=False)

    @property
    def kept(self) -> bytes:
        """What is sealed."""
        return encode({"id": self.credential_id.hex(), "key": self.public.hex()})

    @classmethod
    def read(cls, data: bytes) -> RegisteredKey:
        """The reverse."""
        found = decode(data)
        assert isinstance(found, dict)
        return cls(bytes.fromhex(str(found["id"])), bytes.fromhex(str(found["key"])))


@frozen
class KeyAnswer:
    """What a key asserted (WebAuthn, 5.1.4.2)."""

    credential_id: bytes
    client_data: bytes
    authenticator_data: bytes
    signature: bytes


def registered(
    site: KeySite, challenge: bytes, client_data: bytes, attestation: bytes
) -> tuple[RegisteredKey, int]:
    """The key of a registration, and its signature count.

    Nobody is asked who made the key: the attestation's statement is not read.

    Raises:
        KeyRefused: ``key_…``.
    """
    _check_sizes((client_data, MAX_CLIENT_DATA), (attestation, MAX_ATTESTATION))
    _check_client_data(site, challenge, client_data, "webauthn.create")
    made = _parsed(lambda: AttestationObject(attestation).auth_data)
    _check_authenticator(site, made)
    data = made.credential_data
    if data is None or not 0 < len(data.credential_id) <= _MAX_CREDENTIAL_ID:
        raise _refused("malformed", "there is no credential in it")
    if data.public_key.get(3) not in site.algorithms:
        raise _refused("algorithm", "its algorithm is none of those that were asked for")
    public = _parsed(lambda: cbor.encode(dict(data.public_key)))
    if not _is_of_fair_size(data.public_key) or not _is_usable(public):
        raise _refused("algorithm", "its public key is not one of its algorithm")
    return RegisteredKey(bytes(data.credential_id), public), made.counter


def asserted(
    site: KeySite, challenge: bytes, key: RegisteredKey, count: int | None, answer: KeyAnswer
) -> int:
    """The signature count of an assertion that is good.

    Raises:
        KeyRefused: ``key_…``.
    """
    _check_sizes(
        (answer.client_data, MAX_CLIENT_DATA),
        (answer.authenticator_data, _MAX_AUTHENTICATOR_DATA),
        (answer.signature, _MAX_SIGNATURE),
    )
    # First the signature, which costs most, whatever else is wrong.
    signed = answer.authenticator_data + sha256(answer.client_data).digest()
    is_signed = _is_signed(key.public, signed, answer.signature)
    _check_client_data(site, challenge, answer.client_data, "webauthn.get")
    made = _parsed(lambda: AuthenticatorData(answer.authenticator_data))
    _check_authenticator(site, made)
    if not compare_digest(key.credential_id, answer.credential_id):
        raise _refused("unknown", "it is not registered for this account")
    if not is_signed:
        raise _refused("signature", "its signature does not verify")
    if (made.counter or count) and made.counter <= (count or 0):
        raise _refused("count", "its signature count went back: there may be a copy of it")
    return made.counter


def _is_of_fair_size(public: Mapping[int, Any]) -> bool:
    """Whether the time to check a signature is as usual; that of RS256 grows with the key."""
    modulus, exponent = public.get(_MODULUS), public.get(_EXPONENT)
    if public.get(3) != _RS256:
        return True
    if not isinstance(modulus, bytes) or not isinstance(exponent, bytes):
        return False
    return 256 <= len(modulus) <= 512 and len(exponent) <= 4


def _is_usable(public: bytes) -> bool:
    """Whether a signature can be checked with a key, whatever comes of it."""
    try:
        CoseKey.parse(_cose(public)).verify(b"", b"")
    except InvalidSignature:
        return True
    except _MALFORMED:
        return False
    return False


def _is_signed(public: bytes, data: bytes, signature: bytes) -> bool:
    try:
        CoseKey.parse(_cose(public)).verify(data, signature)
    except (InvalidSignature, *_MALFORMED):
        return False
    return True


def _cose(public: bytes) -> Mapping[int, Any]:
    found = cbor.decode(public)
    if not isinstance(found, Mapping):
        raise TypeError("no COSE key")
    return cast("Mapping[int, Any]", found)


def _check_sizes(*sized: tuple[bytes, int]) -> None:
    for data, most in sized:
        if not 0 < len(data) <= most:
            raise _refused("malformed", "a part of it is missing or too long")


def _check_client_data(site: KeySite, challenge: bytes, data: bytes, type: str) -> None:
    found = _parsed(lambda: CollectedClientData(data))
    if found.type != type:
        raise _refused("type", "it answers to something else")
    if not compare_digest(found.challenge, challenge):
        raise _refused("challenge", "it answers to another attempt")
    if found.origin != site.origin or found.cross_origin:
        raise _refused("origin", "it was made for another page or another cluster")


def _check_authenticator(site: KeySite, made: AuthenticatorData) -> None:
    if not compare_digest(made.rp_id_hash, sha256(site.rp_id.encode()).digest()):
        raise _refused("relying_party", "it was made for another cluster")
    if not made.flags & AuthenticatorData.FLAG.UP:
        raise _refused("presence", "nobody touched the key")
    if not made.flags & AuthenticatorData.FLAG.UV:
        raise _refused("verification", "the key has not verified its holder by PIN or finger")


def _parsed(read: Callable[[], _T]) -> _T:
    try:
        return read()
    except _MALFORMED:
        raise _refused("malformed", "it cannot be read") from None


def _refused(word: str, text: str) -> KeyRefused:
    return KeyRefused(f"the answer of the key was refused: {text}", reason=f"key_{word}")
