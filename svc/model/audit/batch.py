r"""Batches of request records: their hashes, and how each part is bounded.

A batch is one row of a spool and one leaf of the log (rule R29, ADR 36).  The row is signed and
holds commitments alone: to the header of each session, and to the entries by the root of a tree
with prefixes of its own.  Headers, entries and personal values stand beside the row.  So a proof
shows one entry with the header of its session, and a personal value can be erased from one entry
while its leaf still verifies.  Pure; what an entry may say is ``svc.audit.ingest.requests``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import groupby, pairwise
from operator import attrgetter, gt
from typing import Any

from attrs import define, field, frozen

from svc.errors import Malformed
from svc.model.audit.entry_tree import RequestPlace, entries_root, entry_leaves
from svc.model.audit.hidden import hash_of_value, hidden_at
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.plain_json import read_items, write_plain
from svc.model.canonical import Json
from svc.model.ids import is_random_id

BATCH_EVENT = "request.batch"
MAX_ENTRIES = 256
MAX_ENTRY_BYTES = 48 * 1024
MAX_TEXT_BYTES = 96 * 1024
"""Of each of the three texts beside a row."""

SALT_BYTES = 16
SESSIONS, ENTRIES, VALUES = "batch.sessions", "batch.entries", "batch.personal"
BESIDE = (ENTRIES, VALUES, SESSIONS)
"""The texts beside a batch, as the paths of values that belong to a record."""

NO_SALT = bytes(SALT_BYTES)
"""Stands where the texts have no salt of their own: what is secret in them is salted inside."""

LARGEST = 2**53 - 1
_SESSION = b"svc-request-session-v1\0"
_HEADER = {"entities_digest", "policy_version", "resource_type", "salt", "session_uid"}
_PARTS = frozenset(["count", "last_id", "root", "sessions"])
_MAX_WORD, _MAX_PATH = 128, 256
_IS_HEX = re.compile("[0-9a-f]*+").fullmatch
_UID = re.compile(r'"session_uid":"([0-9a-f]{32})"')
_HEADER_TEXT = re.compile(
    r'(\{"entities_digest":"([0-9a-f]{64})","policy_version":(0|[1-9][0-9]{0,14}),'
    r'"resource_type":"([A-Za-z0-9_:]{1,128})","salt":"([0-9a-f]{32})",'
    r'"session_uid":"([0-9a-f]{32})"\})'
)


@define
class RequestHeader:
    """What the requests of a session have in common, as long as the policy stays the same.

    Nobody changes one; a frozen one would take three times as long to make, for each session of a
    batch.

    Attributes:
        entities_digest: Of the entities that the decisions were made over.
        resource_type: The Cedar type of the session's resource.
        salt: Keeps anybody who knows a session from finding it in the row.
    """

    session_uid: str
    policy_version: int
    entities_digest: str
    resource_type: str
    salt: bytes = field(repr=False)

    def form(self) -> dict[str, Json]:
        """The JSON form."""
        return {
            "entities_digest": self.entities_digest,
            "policy_version": self.policy_version,
            "resource_type": self.resource_type,
            "salt": self.salt.hex(),
            "session_uid": self.session_uid,
        }

    @classmethod
    def of(cls, form: Any) -> RequestHeader:
        """The header that :meth:`form` wrote.  Raises Malformed."""
        if type(form) is not dict or form.keys() != _HEADER:
            raise Malformed("request batch: a session header is malformed")
        uid, version, type_ = form["session_uid"], form["policy_version"], form["resource_type"]
        if not isinstance(uid, str) or not is_random_id(uid):
            raise Malformed("request batch: a session header names no session")
        if type(version) is not int or not 0 <= version <= LARGEST:
            raise Malformed("request batch: a policy version is not a number")
        if not isinstance(type_, str) or not 0 < len(type_) <= _MAX_WORD:
            raise Malformed("request batch: a session header names no type of resource")
        return cls(
            session_uid=uid,
            policy_version=version,
            entities_digest=str(_checked(form["entities_digest"])),
            resource_type=type_,
            salt=_hex(form["salt"], SALT_BYTES),
        )


@frozen
class RequestValue:
    """A personal value of one entry.

    Attributes:
        index: Of the entry in its batch.
        path: Where its hash stands, as in the record that the entry is shown as.
        value: Canonical JSON text.
    """

    index: int
    path: str
    salt: bytes = field(repr=False)
    value: str

    @classmethod
    def of(cls, form: Any) -> RequestValue:
        """The value of which a list says the members in order.  Raises Malformed."""
        if type(form) is not list or len(form) != 4:
            raise Malformed("request batch: a personal value is malformed")
        index, path, salt, value = form
        if type(index) is not int or index < 0:
            raise Malformed("request batch: a personal value is of no entry")
        if type(path) is not str or len(path) > _MAX_PATH or type(value) is not str:
            raise Malformed("request batch: a personal value is malformed")
        return cls(index=index, path=path, salt=_hex(salt, SALT_BYTES), value=value)


@frozen
class RequestBatch:
    """A batch whose commitments hold.

    Attributes:
        entries: In their order, each as its JSON form.
        texts: Their canonical bytes.
        personal: What is not erased, in the order of entries and paths.
    """

    place: RequestPlace
    headers: tuple[RequestHeader, ...]
    entries: tuple[Mapping[str, Any], ...]
    texts: tuple[bytes, ...] = field(repr=False)
    personal: tuple[RequestValue, ...] = field(repr=False)

    def values(self, index: int) -> tuple[RequestValue, ...]:
        """The personal values of one entry."""
        return self._of_entries.get(index, ())

    @cached_property
    def _of_entries(self) -> Mapping[int, tuple[RequestValue, ...]]:
        return {
            index: tuple(some) for index, some in groupby(self.personal, key=attrgetter("index"))
        }

    def header(self, index: int) -> RequestHeader:
        """The header of an entry's session."""
        return self.headers[int(self.entries[index]["session"])]

    def leaves(self) -> list[bytes]:
        """Of the inner tree."""
        return entry_leaves(self.place, self.texts)


# -- hashes


def session_commitment(header: bytes) -> bytes:
    """The commitment to the canonical bytes of a session's header."""
    return sha256(_SESSION + len(header).to_bytes(4, "big") + header).digest()


# -- forms


def batch_form(
    headers: Sequence[str],
    spans: Sequence[Sequence[int]],
    leaves: Sequence[bytes],
    last_id: str,
) -> dict[str, Json]:
    """The member ``batch`` of the signed row.

    Args:
        headers: The text of each.
        spans: First and last session_n of each header.
        last_id: No decision in the batch has a greater id.
    """
    sessions: list[Json] = [
        [session_commitment(header.encode()).hex(), first, last]
        for header, (first, last) in zip(headers, spans, strict=True)
    ]
    root = entries_root(leaves).hex()
    return {"count": len(leaves), "last_id": last_id, "root": root, "sessions": sessions}


def values_beside(
    headers: Sequence[str], texts: Sequence[str], values: Sequence[str]
) -> tuple[PersonalValue, ...]:
    """The three texts, as they travel and are kept: beside the row, in order of their paths.

    Args:
        headers: The text of each.
        texts: Of the entries.
        values: Of the personal values.
    """
    return (
        PersonalValue(ENTRIES, NO_SALT, f"[{','.join(texts)}]"),
        PersonalValue(VALUES, NO_SALT, f"[{','.join(values)}]"),
        PersonalValue(SESSIONS, NO_SALT, f"[{','.join(headers)}]"),
    )


def is_batch(record: Mapping[str, Any]) -> bool:
    """Whether a record is that of a batch."""
    return record.get("event") == BATCH_EVENT


def entries_claimed(record: Any) -> int:
    """How many entries a record says that it has, within the bound; 0 where it is no batch."""
    batch = record.get("batch") if isinstance(record, dict) and is_batch(record) else None
    count = batch.get("count") if isinstance(batch, dict) else None
    return count if type(count) is int and 0 < count <= MAX_ENTRIES else 0


def sessions_named(beside: Sequence[PersonalValue]) -> set[str]:
    """The sessions that what stands beside a row names; nothing is trusted, all is bounded."""
    found: set[str] = set()
    for one in beside:
        if one.path == SESSIONS and len(one.value) <= MAX_TEXT_BYTES:
            found.update(_UID.findall(one.value))
    return found


def read_batch(record: Mapping[str, Any], beside: Sequence[PersonalValue]) -> RequestBatch:
    """The batch of *record*, a row with a good place, and what stands beside it.

    Personal values may be missing: whoever needs them all compares with :func:`hidden_paths`.

    Raises:
        Malformed: a bound is passed, or what is beside the row is not what it commits to.
    """
    claims = BatchClaims.of(record)
    texts = texts_beside(beside)
    headers = read_headers(texts[SESSIONS], claims)
    entries, written = listed(texts[ENTRIES], claims.count)
    encoded = tuple(one.encode() for one in written)
    claims.check_entries(encoded)
    claims.check_numbers(
        (one.get("session"), one.get("session_n")) if type(one) is dict else (None, None)
        for one in entries
    )
    personal = _values(texts[VALUES], entries)
    return RequestBatch(
        place=claims.place,
        headers=headers,
        entries=tuple(entries),
        texts=encoded,
        personal=personal,
    )


@frozen
class BatchClaims:
    """What the signed row of a batch commits to.

    Attributes:
        spans: First and last number of the entries of each session.
        commitments: To the header of each session.
    """

    place: RequestPlace
    count: int
    spans: Sequence[tuple[int, int]]
    commitments: Sequence[bytes]
    root: bytes

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> BatchClaims:
        """Those of *record*, a row with a good place.  Raises Malformed."""
        form = record.get("batch")
        if type(form) is not dict or form.keys() != _PARTS or type(form["sessions"]) is not list:
            raise Malformed("request batch: its members are not those of a batch")
        count, sessions = form["count"], form["sessions"]
        if type(count) is not int or not 0 < len(sessions) <= count <= MAX_ENTRIES:
            raise Malformed(
                f"request batch: it has not 1 to {MAX_ENTRIES} entries, or more sessions"
            )
        if not isinstance(form["last_id"], str) or not is_random_id(form["last_id"]):
            raise Malformed("request batch: it does not say which decision id is its last")
        plain = _plain_sessions(sessions)
        spans, commitments = ([], []) if plain is None else plain
        for one in sessions if plain is None else ():
            if type(one) is not list or len(one) != 3:
                raise Malformed("request batch: a session is malformed")
            digest, first, last = one
            if type(first) is not int or type(last) is not int or not 0 < first <= last <= LARGEST:
                raise Malformed("request batch: the numbers of a session are malformed")
            spans.append((first, last))
            commitments.append(digest_of(digest))
        if sum(last - first + 1 for first, last in spans) != count:
            raise Malformed(
                "request batch: the numbers of its sessions do not add up to its entries"
            )
        return cls(
            place=_place(record),
            count=count,
            spans=spans,
            commitments=commitments,
            root=digest_of(form["root"]),
        )

    def check_entries(self, texts: Sequence[bytes]) -> None:
        """Return if *texts* are the entries.  Raises Malformed."""
        if len(texts) != self.count:
            raise Malformed("request batch: it has not as many entries as it says")
        if max(map(len, texts)) > MAX_ENTRY_BYTES:
            raise Malformed(f"request batch: an entry is longer than {MAX_ENTRY_BYTES} bytes")
        if entries_root(entry_leaves(self.place, texts)) != self.root:
            raise Malformed("request batch: an entry is not the one that was signed")

    def check_numbers(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Return if each entry is of a session of the batch, and no number is left out.

        Args:
            entries: Place of its session, and number, of each.

        Raises:
            Malformed: naming what is not.
        """
        due = [first for first, _ in self.spans]
        most = len(due)
        for at, number in entries:
            if type(at) is not int or not 0 <= at < most:
                raise Malformed("request batch: an entry is of no session of the batch")
            if type(number) is not int or number != due[at]:
                raise Malformed(
                    "request batch: an entry does not follow the one before in its session"
                )
            due[at] += 1
        if any(after != last + 1 for after, (_, last) in zip(due, self.spans, strict=True)):
            raise Malformed("request batch: an entry of a session is missing")


def texts_beside(beside: Sequence[PersonalValue]) -> Mapping[str, str]:
    """The texts beside a batch by their paths, each of bounded length.  Raises Malformed."""
    texts = {one.path: one.value for one in beside}
    if sorted(texts) != sorted(BESIDE) or len(beside) != len(BESIDE):
        raise Malformed("request batch: what belongs beside it is missing")
    if any(one.salt != NO_SALT for one in beside):
        raise Malformed("request batch: a text beside it has a salt")
    for text in texts.values():
        most = len(text) if text.isascii() else len(text.encode())
        if most > MAX_TEXT_BYTES:
            raise Malformed(f"request batch: a text is longer than {MAX_TEXT_BYTES} bytes")
    return texts


def read_headers(text: str, claims: BatchClaims) -> tuple[RequestHeader, ...]:
    """The headers that *claims* commits to.  Raises Malformed."""
    found = _HEADER_TEXT.findall(text)
    written = [one[0] for one in found]
    if f"[{','.join(written)}]" == text:
        headers = [
            RequestHeader(
                session_uid=uid,
                policy_version=int(version),
                entities_digest=digest,
                resource_type=type_,
                salt=bytes.fromhex(salt),
            )
            for _, digest, version, type_, salt, uid in found
        ]
    else:
        # Not as they are nearly always: what is wrong, if anything, is said here.
        forms, written = listed(text, claims.count)
        headers = list(map(RequestHeader.of, forms))
    if [session_commitment(one.encode()) for one in written] != claims.commitments:
        raise Malformed("request batch: a session header is not the one that was signed")
    return tuple(headers)


def _place(record: Mapping[str, Any]) -> RequestPlace:
    origin, spool = record.get("origin"), record.get("spool")
    if not isinstance(origin, str) or not isinstance(spool, dict):
        raise Malformed("request batch: it has no place in a spool")
    n = spool.get("n")
    if type(n) is not int or not 0 < n <= LARGEST or len(origin) > _MAX_WORD:
        raise Malformed("request batch: it has no place in a spool")
    _hex(spool.get("id"), 16)
    return RequestPlace(origin, str(spool["id"]), n)


def listed(text: str, most: int) -> tuple[list[Any], list[str]]:
    """A list in its one form, bounded before it is parsed; and the text of each item."""
    found, written = read_items(text)
    if len(found) > most:
        raise Malformed("request batch: a text beside it is not a list of that length")
    if write_plain(found) != text:
        raise Malformed("request batch: a text beside it is not in its one form")
    return found, written


def _values(text: str, entries: Sequence[Any]) -> tuple[RequestValue, ...]:
    found = [RequestValue.of(one) for one in listed(text, MAX_TEXT_BYTES)[0]]
    known = dict[tuple[str, str], bytes]()
    for one in found:
        if one.index >= len(entries):
            raise Malformed("request batch: a personal value is of no entry")
        hashed = hash_of_value(one.path, one.salt, one.value, known)
        if hidden_at(entries[one.index], one.path) != hashed:
            raise Malformed("request batch: a personal value is not the one that was hashed")
    if any((a.index, a.path) >= (b.index, b.path) for a, b in pairwise(found)):
        raise Malformed("request batch: its personal values are not in their order")
    return tuple(found)


def without(beside: Sequence[PersonalValue], index: int, path: str) -> PersonalValue | None:
    """The text of personal values without one of them; None where it is not among them."""
    for one in beside:
        if one.path == VALUES:
            kept = [each for each in json.loads(one.value) if each[:2] != [index, path]]
            text = write_plain(kept)
            return None if text == one.value else PersonalValue(VALUES, one.salt, text)
    return None


def _plain_sessions(
    sessions: list[Any],
) -> tuple[list[tuple[int, int]], list[bytes]] | None:
    """Spans and commitments, where nothing is wrong with any; whoever gets None looks at each."""
    if set(map(type, sessions)) != {list} or set(map(len, sessions)) != {3}:
        return None
    digests, firsts, lasts = zip(*sessions, strict=True)
    if set(map(type, digests)) != {str} or set(map(type, (*firsts, *lasts))) != {int}:
        return None
    if min(firsts) <= 0 or max(lasts) > LARGEST or any(map(gt, firsts, lasts)):
        return None
    if set(map(len, digests)) != {64} or _IS_HEX("".join(digests)) is None:
        return None
    return list(zip(firsts, lasts, strict=True)), list(map(bytes.fromhex, digests))


def _checked(digest: Any) -> Any:
    digest_of(digest)
    return digest


def digest_of(text: Any) -> bytes:
    """32 bytes from their 64 lower-case digits.  Raises Malformed."""
    return _hex(text, 32)


def _hex(text: Any, size: int) -> bytes:
    try:
        found = bytes.fromhex(text)
    except (TypeError, ValueError):
        found = b""
    if len(found) != size or found.hex() != text:
        raise Malformed("request batch: a digest or a salt is malformed")
    return found
