r"""Signatures with a purpose, pure over ``cryptography`` and libsodium.

One key, one purpose (rule R14): what is signed is always
``svc-<purpose>-v1\0`` followed by the bytes, so a signature made for one
purpose is worth nothing for another, whoever holds the key.  This module
knows no certificate and no message: who may sign what is decided by the
verifier of chains in ``svc.pki``.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

from attrs import field, frozen
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from svc.errors import Fault, SvcError
from svc.model.sodium import is_surely_good

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

MAX_SIGNATURE_BYTES = 72
"""The longest signature there is: a DER-coded ECDSA one over P-256."""

_ECDSA = ec.ECDSA(SHA256())
_SORTS: tuple[type, ...] = (
    ed25519.Ed25519PrivateKey,
    ed25519.Ed25519PublicKey,
    ec.EllipticCurvePrivateKey,
    ec.EllipticCurvePublicKey,
)


class Purpose(Enum):
    """What a signature is for; the words are part of every signed text and never change."""

    SESSION_REQUEST = "session-request"
    SESSION_ANSWER = "session-answer"
    SESSION_CHECKPOINT = "session-checkpoint"
    WHY_REQUEST = "why-request"
    ACCESS_CALL = "access-call"
    REGISTRATION = "registration"
    HEALTH_REPORT = "health-report"
    GRANT = "grant"
    GRANT_EXTENSION = "grant-extension"
    SNAPSHOT = "snapshot"
    SIGN_IN_PROFILE = "sign-in-profile"
    SIGN_IN_RENEWAL = "sign-in-renewal"
    AUDIT_HEAD = "audit-head"
    AUDIT_ORIGIN = "audit-origin"
    AUDIT_ROW = "audit-row"
    AUDIT_KEY = "audit-key"
    APPROVAL = "approval"
    POLICY_PROPOSAL = "policy-proposal"
    JWT = "jwt"
    ONWARD_SSH = "onward-ssh"
    RECEIVER = "receiver"
    ROOT_ACK = "root-ack"
    ROOT_CANCEL = "root-cancel"

    __hash__ = object.__hash__  # as that of a role


_PREFIX = {purpose: b"svc-" + purpose.value.encode() + b"-v1\0" for purpose in Purpose}


class BadSignature(SvcError):
    """A signature that does not verify, or a key of a sort that may not sign here."""

    fault = Fault.UNAUTHENTICATED
    reason = "bad_signature"


@frozen
class Signed:
    """Bytes, the signature over them, and who signed.

    Attributes:
        payload: The very bytes that were signed; decode only after verifying.
        signature: As :func:`sign` made it.
        chain: The signer's certificates in DER, leaf first, without the root.
    """

    payload: bytes
    signature: bytes = field(repr=False)
    chain: tuple[bytes, ...] = field(default=(), repr=False)


def sign(key: PrivateKey, purpose: Purpose, data: bytes) -> bytes:
    """Sign *data* for *purpose*: ECDSA with SHA-256 for P-256, or Ed25519.

    ECDSA signatures differ each time; never compare or look up by them.

    Raises:
        BadSignature: for a key that is neither P-256 nor Ed25519.
    """
    text = _PREFIX[purpose] + data
    signer: Any = key
    sort = _sort_of(type(key))
    signature: bytes
    if sort is ed25519.Ed25519PrivateKey:
        signature = signer.sign(text)
        return signature
    if sort is ec.EllipticCurvePrivateKey and isinstance(signer.curve, ec.SECP256R1):
        signature = signer.sign(text, _ECDSA)
        return signature
    raise BadSignature("the key is neither P-256 nor Ed25519")


def verify(public_key: PublicKey, purpose: Purpose, data: bytes, signature: bytes) -> None:
    """Return if *signature* is the key's signature over *data* for *purpose*.

    Raises:
        BadSignature: in every other case, with one text for all of them.
    """
    text = _PREFIX[purpose] + data
    key: Any = public_key
    sort = _sort_of(type(public_key))
    try:
        if len(signature) > MAX_SIGNATURE_BYTES:
            raise InvalidSignature
        if sort is ed25519.Ed25519PublicKey:
            if not is_surely_good(key.public_bytes_raw(), text, signature):
                key.verify(signature, text)
        elif sort is ec.EllipticCurvePublicKey and isinstance(key.curve, ec.SECP256R1):
            key.verify(signature, text, _ECDSA)
        else:
            raise InvalidSignature
    except InvalidSignature:
        raise BadSignature(f"{purpose.value}: the signature does not verify") from None


def signed_text(purpose: Purpose, data: bytes) -> bytes:
    """The bytes that a signature over *data* for *purpose* is of."""
    return _PREFIX[purpose] + data


def key_info(key: PublicKey) -> bytes:
    """A public key as DER (SubjectPublicKeyInfo)."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def read_public_key(info: bytes) -> PublicKey:
    """The key that :func:`key_info` wrote."""
    key: Any = load_der_public_key(info)
    return key  # type: ignore[no-any-return]


def is_p256(key: object) -> bool:
    """Whether *key* is a public key on the one curve that TLS identities may use."""
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)


@lru_cache(maxsize=32)
def _sort_of(kind: type) -> type | None:
    """Which sort of key a class is of.  Asked once: abstract classes answer slowly."""
    return next((sort for sort in _SORTS if issubclass(kind, sort)), None)
