"""The checks every decoder shares: size before parse, form after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from svc.errors import Malformed

_M = TypeVar("_M", bound=Message)

MAX_SIGNED_BYTES = 16 * 1024
MAX_CHAIN_CERTIFICATES = 4
MAX_CERTIFICATE_BYTES = 8 * 1024
MAX_HEAD_BYTES = 32 * 1024
"""Of a signed head of the audit log, as a line with its certificate."""

MAX_HEADS = 16
DIGEST_BYTES = 32
MAX_SIGNATURE_BYTES = 512

FORMAT = 1
"""Of what is signed; see ADR 29 before changing it.  0 has no number, and says less."""

UID_BYTES = 16


def parse(message_type: type[_M], data: bytes, limit: int, what: str) -> _M:
    """*data* as a message of this type.

    Raises:
        Malformed: it is longer than *limit* bytes or not of that type.
    """
    if len(data) > limit:
        raise Malformed(f"{what}: {len(data)} bytes, more than the {limit} allowed")
    try:
        return message_type.FromString(data)
    except DecodeError:
        raise Malformed(f"{what}: it is not a message of its type") from None


def text(value: str, limit: int, what: str, *, empty: bool = False) -> str:
    """A string field, bounded in characters; empty only where *empty* says so."""
    if len(value) > limit:
        raise Malformed(f"{what}: it is longer than {limit} characters")
    if not value and not empty:
        raise Malformed(f"{what}: missing")
    return value


def exactly(value: bytes, size: int, what: str) -> bytes:
    """A bytes field of one size."""
    if len(value) != size:
        raise Malformed(f"{what}: not {size} bytes")
    return value


def uid(value: bytes, what: str) -> str:
    """A random id: 16 bytes on the wire, 32 hex digits inside."""
    return exactly(value, UID_BYTES, what).hex()


def texts(values: Sequence[str], count: int, limit: int, what: str) -> tuple[str, ...]:
    """A bounded list of bounded strings."""
    if len(values) > count:
        raise Malformed(f"{what}: more than {count}")
    return tuple([text(value, limit, what) for value in values])


def certificates(values: Iterable[bytes], what: str, *, empty: bool = False) -> tuple[bytes, ...]:
    """A bounded chain of DER certificates, leaf first; not looked into here."""
    chain = tuple(values)
    if not chain and not empty:
        raise Malformed(f"{what}: missing")
    if len(chain) > MAX_CHAIN_CERTIFICATES:
        raise Malformed(f"{what}: more than {MAX_CHAIN_CERTIFICATES} certificates")
    for der in chain:
        if not 0 < len(der) <= MAX_CERTIFICATE_BYTES:
            raise Malformed(f"{what}: a certificate is empty or too long")
    return chain


def head(value: bytes, what: str) -> bytes:
    """The line of a signed head, limited in size but not decoded here; empty if there is none."""
    if len(value) > MAX_HEAD_BYTES:
        raise Malformed(f"{what}: more than {MAX_HEAD_BYTES} bytes")
    return value


def heads(values: Iterable[bytes], what: str) -> tuple[bytes, ...]:
    """A bounded list of signed heads' lines."""
    found = tuple(values)
    if len(found) > MAX_HEADS:
        raise Malformed(f"{what}: more than {MAX_HEADS}")
    return tuple(head(each, what) for each in found)


def signed_part(
    payload: bytes, signature: bytes, what: str, most: int = MAX_SIGNED_BYTES
) -> tuple[bytes, bytes]:
    """Signed bytes and their signature, bounded and both there."""
    if not payload or len(payload) > most:
        raise Malformed(f"{what}: the signed part is missing or too long")
    if not signature or len(signature) > MAX_SIGNATURE_BYTES:
        raise Malformed(f"{what}: the signature is missing or too long")
    return payload, signature


def check_format(declared: int, what: str) -> None:
    """Refuse a format that this build does not know."""
    if declared > FORMAT:
        raise Malformed(
            f"{what}: it has format {declared}, but this build knows formats up to {FORMAT}; "
            "run the same version of svc on both sides",
            reason="unknown_format",
        )


def check_form(came: bytes, ours: bytes, what: str) -> None:
    """Refuse what we would have written otherwise: a field that we do not know may limit it."""
    if came != ours:
        raise Malformed(
            f"{what}: it has a field that this build does not know, or is not in canonical form; "
            "run the same version of svc on both sides",
            reason="unknown_format",
        )
