r"""Spool rows: their place, their signature, their hash.

An instance that may not append to the chain (a Proxy, an Authority that
follows) seals records as the leader does and numbers them in a spool of its
own (rule R11).  The place is a part of the record, so the chain keeps it for
ever, and the signature over the record's bytes covers it.  A spool is one life
of one instance: a disk that was put back never uses the same number for two
rows.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from attrs import field, frozen
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ed25519

from svc.errors import Malformed
from svc.model.audit.ledger import GENESIS, PersonalValue
from svc.model.canonical import Json, decode
from svc.model.ids import is_opaque_id, is_random_id
from svc.model.signing import BadSignature, Purpose, sign, signed_text, verify
from svc.model.sodium import question

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_N = 1
AUDIT_KEY_BYTES = 32
_ROW_DOMAIN = b"svc-audit-row-hash-v1\0"
LARGEST_N = 2**53 - 1
_HASH_HEX = 64


@frozen
class SpoolPlace:
    """The place of a row among the rows of its origin.

    Attributes:
        spool_id: 32 hex digits, random, new at each start of the origin.
        n: 1 for the spool's first row, and no number is left out.
        prev: :func:`row_hash` of the row before; ``GENESIS`` before the first.
    """

    spool_id: str
    n: int
    prev: bytes = field(default=GENESIS, repr=False)

    def form(self) -> dict[str, Json]:
        """The member ``spool`` of the record."""
        return {"id": self.spool_id, "n": self.n, "prev": self.prev.hex()}


@frozen
class SpoolRow:
    """A sealed record on its way to the chain.

    Attributes:
        canonical: The record, its place included, as it will stand in the chain.
        personal: The values that it holds as salted hashes.
        key_id: :func:`audit_key_id` of the signer; empty where it is unsigned.
        signature: Ed25519, over *canonical* for the purpose ``audit-row``.
    """

    canonical: bytes
    personal: tuple[PersonalValue, ...] = ()
    key_id: str = ""
    signature: bytes = field(default=b"", repr=False)

    @property
    def is_signed(self) -> bool:
        """Whether it carries a signature at all."""
        return bool(self.key_id and self.signature)


def audit_key_id(public_key: bytes) -> str:
    """How rows name the audit key of a node: SHA-256 of its 32 raw bytes, in hex."""
    return sha256(public_key).hexdigest()


def row_hash(canonical: bytes) -> bytes:
    """What the origin's next row names as the one before it."""
    return sha256(_ROW_DOMAIN + canonical).digest()


def row_digest(row: SpoolRow) -> bytes:
    """The digest that identifies this row, over its record and its signature."""
    return sha256(sha256(row.canonical).digest() + row.signature).digest()


def row_signer(key: ed25519.Ed25519PrivateKey) -> Callable[[bytes], bytes]:
    """Signs rows with the node's audit key; it takes about 30 µs a row."""
    return lambda canonical: sign(key, Purpose.AUDIT_ROW, canonical)


def prove_audit_key(key: ed25519.Ed25519PrivateKey, csr: bytes) -> bytes:
    """What a node that joins shows of its audit key: a signature over its certificate request."""
    return sign(key, Purpose.AUDIT_KEY, csr)


def verify_audit_key(public_key: bytes, csr: bytes, proof: bytes) -> None:
    """Return if the maker of *csr* has the audit key whose raw bytes are *public_key*.

    Raises:
        BadSignature: it was not shown, or they are no key.
    """
    verify(
        _audit_key(public_key, "audit-key: this is not an Ed25519 key"),
        Purpose.AUDIT_KEY,
        csr,
        proof,
    )


def verify_row(row: SpoolRow, public_key: bytes) -> None:
    """Return if *row* was signed with the audit key whose raw bytes are *public_key*.

    Raises:
        BadSignature: it was not, or they are no key.
    """
    key = _audit_key(public_key, "audit-row: the registered audit key is not an Ed25519 key")
    verify(key, Purpose.AUDIT_ROW, row.canonical, row.signature)


def row_question(row: SpoolRow, public_key: bytes) -> bytes:
    """What :func:`svc.model.sodium.answers` is asked of *row*; 1 says that it verifies."""
    return question(public_key, signed_text(Purpose.AUDIT_ROW, row.canonical), row.signature)


@lru_cache(maxsize=256)
def _audit_key(public_key: bytes, otherwise: str) -> ed25519.Ed25519PublicKey:
    try:
        return ed25519.Ed25519PublicKey.from_public_bytes(public_key)
    except (ValueError, UnsupportedAlgorithm):
        raise BadSignature(otherwise) from None


def read_place(canonical: bytes) -> tuple[str, SpoolPlace]:
    """The origin of a row and its place, as its record says.

    Raises:
        Malformed: it is no record, or one without a place.
    """
    return place_of(decode(canonical))


def place_of(form: Json) -> tuple[str, SpoolPlace]:
    """As :func:`read_place`, of a record that is decoded."""
    origin = form.get("origin") if isinstance(form, dict) else None
    place = form.get("spool") if isinstance(form, dict) else None
    if not isinstance(origin, str) or not is_opaque_id(origin) or not isinstance(place, dict):
        raise Malformed("audit row: it names no origin or no place in a spool")
    spool_id, n, prev = place.get("id"), place.get("n"), place.get("prev")
    if not isinstance(spool_id, str) or not is_random_id(spool_id) or len(place) != 3:
        raise Malformed("audit row: it names no spool")
    if not isinstance(n, int) or isinstance(n, bool) or not FIRST_N <= n <= LARGEST_N:
        raise Malformed("audit row: its number is missing or wrong")
    return origin, SpoolPlace(spool_id, n, _hash(prev))


def _hash(text: object) -> bytes:
    try:
        if not isinstance(text, str) or len(text) != _HASH_HEX or text != text.lower():
            raise ValueError
        return bytes.fromhex(text)
    except ValueError:
        raise Malformed("audit row: the hash of the previous row is missing or wrong") from None
