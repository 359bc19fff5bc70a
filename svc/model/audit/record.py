"""The audit record and what chains one to the next.

Frozen values and pure functions that every room may know: the record a room
writes (:class:`AuditRecord`), the form in which the store keeps it
(:class:`SealedRecord`), the row the store gives back (:class:`AuditRow`), the
signed statement about the whole log (:class:`SignedHead`) and the hash that
links row to row (:func:`chain_hash`).  Turning a record into its sealed form
is ``svc.audit.log.record``; this module must not hold policy about contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType

from attrs import frozen

from svc.errors import SvcError
from svc.model.audit.ledger import GENESIS, PersonalValue
from svc.model.audit.spool import SpoolPlace
from svc.model.audit.state import StateChange
from svc.model.canonical import Json
from svc.model.policy.access import AccessRequest
from svc.model.signing import Signed

__all__ = [
    "CHAIN_DOMAIN",
    "FIRST_SEQ",
    "GENESIS",
    "Actor",
    "AuditRecord",
    "Event",
    "EventClass",
    "Field",
    "Head",
    "SealedRecord",
    "Sensitivity",
    "Severity",
    "Shape",
    "SignedHead",
    "chain_hash",
    "chain_hashes",
    "rfc3339",
]

FIRST_SEQ = 1
"""Sequence numbers start here and have no holes."""

CHAIN_DOMAIN = b"svc-audit-v1\0"
NOTHING: Mapping[str, Json] = MappingProxyType({})

END_OF_TIME = 253402300799
"""In seconds since the epoch: no record is of then or later."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Sensitivity(Enum):
    """How a field's value may be recorded; there is no default."""

    PUBLIC = "public"
    PERSONAL = "personal"
    SECRET = "secret"


class Shape(Enum):
    """The form of a field in ``details``: flat, so that nothing unnamed hides inside."""

    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    TEXTS = "texts"


class EventClass(Enum):
    """What an event is about; operators route and retain by it."""

    ACCESS = "access"
    IDENTITY = "identity"
    POLICY = "policy"
    SYSTEM = "system"


class Severity(Enum):
    """How much an event asks for a person's eye; the last letter of its code."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@frozen
class Field:
    """One field of an event's ``details``.

    Facts of a request are classified by :mod:`svc.model.policy.terms`.
    """

    name: str
    sensitivity: Sensitivity
    meaning: str
    shape: Shape = Shape.TEXT


@frozen
class Event:
    """One sort of audit event.  All of ours are in ``svc.model.audit.events``."""

    name: str
    code: str
    event_class: EventClass
    severity: Severity
    meaning: str
    fields: tuple[Field, ...] = ()


@frozen
class Actor:
    """Who did it, by opaque id; names are joined when a record is read.

    ``kind`` is ``person``, ``agent``, ``node``, ``operator``, ``service`` or ``anonymous``.
    """

    kind: str
    id: str


@frozen(kw_only=True)
class AuditRecord:
    """What one room says happened, before classification and hashing.

    A field that does not apply is ``None`` (or empty) and is then absent from
    the canonical bytes.  ``seq``, ``prev_hash`` and ``hash`` are given by the
    store when the record is appended.
    """

    event_id: str
    time: float
    """Seconds since the epoch, as ``now()`` gives them."""
    event: Event
    actor: Actor
    origin: str
    """The instance that wrote the record (a node id)."""
    key_id: str | None = None
    node_id: str | None = None
    resource_id: str | None = None
    resource_kind: str | None = None
    session_uid: str | None = None
    action: str | None = None
    cedar_action: str | None = None
    decision: str | None = None
    decision_id: str | None = None
    policies: tuple[str, ...] = ()
    policy_version: int | None = None
    catalog_version: int | None = None
    reason: str | None = None
    trace_id: str | None = None
    request: AccessRequest | None = None
    entities_digest: str | None = None
    details: Mapping[str, Json] = NOTHING
    batch: Mapping[str, Json] | None = None
    """What a row commits to of requests that stand beside it; see ``svc.model.audit.batch``."""
    state: StateChange | None = None
    """The protected rows it changes; such a record is signed (rule R8)."""
    spool: SpoolPlace | None = None
    """Its place among the rows of an origin that may not append by itself (rule R11)."""


@frozen
class SealedRecord:
    """What the store appends: ``tx.audit.append(sealed.canonical, sealed.personal)``."""

    canonical: bytes
    personal: tuple[PersonalValue, ...] = ()


@frozen(kw_only=True)
class Head:
    """What the leader states about the log while it has ``tree_size`` records."""

    cluster: str
    log_id: str
    tree_size: int
    root: bytes
    """RFC 6962 Merkle tree hash of the first ``tree_size`` leaves."""
    last_hash: bytes
    time: str
    lease_epoch: int
    leader: str
    previous_head_hash: bytes
    key_id: str
    """SHA-256 of the anchor certificate, in hex."""


@frozen
class RestoredProof:
    """The last record of a head, which says that an older store was restored on purpose.

    ``record`` is canonical JSON, ``before`` the right edge of the tree without it.  Neither is
    signed; together they fold to the signed ``root``.
    """

    record: bytes
    before: tuple[bytes, ...]


@frozen
class SignedHead:
    """A head with the signature over its canonical bytes.

    ``edge`` is the right edge of the tree, largest subtree first.  It is not
    signed; it folds to the signed ``root``, so it may be trusted after that check.
    ``pruned`` is how many heads before it are kept no more; not signed either, it
    only says that their absence is no accident.  ``restored`` is there where the log goes on
    from an older store: see ``svc.audit.checkpoint.rewind``.
    """

    head: Head
    signed: Signed
    edge: tuple[bytes, ...] = ()
    pruned: int = 0
    restored: RestoredProof | None = None

    @property
    def hash(self) -> bytes:
        """What the next head names as its previous one."""
        return sha256(self.signed.payload + self.signed.signature).digest()


def chain_hash(seq: int, prev: bytes, canonical: bytes) -> bytes:
    """The hash of row *seq* whose predecessor's hash is *prev*.

    SHA-256 over the domain, the sequence number (8 bytes, big-endian), the 32
    bytes of *prev*, the length of *canonical* (4 bytes) and *canonical*.
    """
    return sha256(
        CHAIN_DOMAIN + seq.to_bytes(8, "big") + prev + len(canonical).to_bytes(4, "big") + canonical
    ).digest()


def chain_hashes(first: int, prevs: Iterable[bytes], records: Iterable[bytes]) -> list[bytes]:
    """As :func:`chain_hash`, of each of the rows from *first* on."""
    return [
        sha256(
            CHAIN_DOMAIN
            + seq.to_bytes(8, "big")
            + prev
            + len(canonical).to_bytes(4, "big")
            + canonical
        ).digest()
        for seq, (prev, canonical) in enumerate(zip(prevs, records, strict=True), first)
    ]


def rfc3339(unix_time: float) -> str:
    """*unix_time* in UTC with six digits of a second: 27 characters, sortable as text.

    Raises:
        SvcError: the time is not a number a calendar knows.
    """
    if not 0 <= unix_time < END_OF_TIME:
        raise SvcError("audit record: the time is outside the years 1970 to 9999")
    second, micros = divmod(round(unix_time * 1_000_000), 1_000_000)
    return f"{_second(second)}.{micros:06d}Z"


@lru_cache(16)
def _second(second: int) -> str:
    """Many records are of the same second."""
    moment = _EPOCH + timedelta(seconds=second)
    return moment.isoformat(timespec="seconds").removesuffix("+00:00")
