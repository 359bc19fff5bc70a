"""Seals the entries of a batch: what all records of one decision share is made once (ADR 53)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from attrs import define, field

from svc.audit.log.entries import DECISIONS, MAX_POLICIES
from svc.audit.log.record import MAX_TEXT, PERSONAL, Unrecordable, is_storable, tidy
from svc.errors import Malformed
from svc.model.audit.batch import (
    MAX_ENTRY_BYTES,
    SALT_BYTES,
    RequestHeader,
)
from svc.model.audit.events import REQUEST_DECISION
from svc.model.audit.hidden import hashed_of, salted_hash, value_bytes
from svc.model.audit.plain_json import quoted, write_plain
from svc.model.audit.record import END_OF_TIME, rfc3339
from svc.model.audit.request import (
    HiddenValue,
    RepeatedRequest,
    RequestRecord,
    SealedRequest,
    SessionNumbers,
)
from svc.model.canonical import Json, encode
from svc.model.ids import Entropy, is_random_id
from svc.model.policy.access import context_form
from svc.model.policy.terms import AttributeTerm

_MAX_VALUES = 32
_AROUND = 48
"""Bytes of an entry's place in its batch and its session, at most."""

_HASH = 64
_OWN = 192
"""Bytes of what an entry says of its request alone, at most."""

Recorded = RequestRecord | RepeatedRequest[Any]

_Hidden = tuple[str, str, bytes, str]
"""A personal value of a form: path and text, what of it is hashed with each record's salt, and the
text behind its hash."""


@define
class _Text:
    """The text of an entry as it is written.

    Attributes:
        pieces: Each ends where a hash is to stand.
        end: What follows the last of them.
        hidden: Path and text of the values that are hashed.
    """

    pieces: list[str] = field(factory=list)
    end: str = ""
    hidden: list[tuple[str, str]] = field(factory=list)

    @property
    def is_short(self) -> bool:
        """Whether no text in it can be too long to be kept, or hold NUL."""
        parts = [*self.pieces, self.end, *[value for _, value in self.hidden]]
        return sum(map(len, parts)) <= MAX_TEXT and not any("\\u0000" in one for one in parts)

    def add(self, path: str, values: Mapping[str, Any], facts: Mapping[str, AttributeTerm]) -> None:
        """Write facts, as ``context_form`` gave them; those that are personal are hidden.

        What it gave are texts, numbers, flags, lists of texts, and records.

        Raises:
            Malformed: one is not classified.
        """
        mark, end = "{", self.end
        for name, value in values.items():
            term = facts.get(name)
            if term is None:
                raise Malformed(f"{path}.{name} is not classified")
            end += f"{mark}{_quoted(name)}:"
            mark = ","
            kind = type(value)
            if term.classified != "public":
                self.pieces.append(f'{end}{{"{PERSONAL}":"')
                end = '"}'
                said = quoted(value) if kind is str else encode(value).decode()
                self.hidden.append((f"{path}.{name}", said))
            elif kind is str:
                end += quoted(value)
            elif kind is int:
                end += str(value)
            elif kind is list:
                end += f"[{','.join(map(quoted, value))}]"
            elif kind is not dict:
                end += write_plain(value)
            elif term.members is not None:
                self.end = end
                self.add(f"{path}.{name}", value, term.members)
                end = self.end
            else:
                raise Malformed(f"{path}.{name} contains a record that is not classified")
        self.end = end + "}" if values else end + "{}"


@define(eq=False)
class EntryForm:
    """The text of an entry, but for what is of one record alone.

    Members are in the order of their names: what changes from record to record stands between
    two texts that do not.

    Attributes:
        numbers: Of its session.
        common: What the header of its session says.
        first: Up to the hash of the first hidden value; where nothing is hidden, to the decision.
        hidden: In the order of their hashes.
        size: Bytes of the entry, a little more than less.
        beside: Bytes of what is beside it, likewise.
        is_ordered: Whether its hidden values are in the order of their paths.
    """

    numbers: SessionNumbers
    common: tuple[int, str, str]
    first: str
    hidden: tuple[_Hidden, ...]
    policies: str
    reason: str
    size: int
    beside: int
    is_ordered: bool

    @classmethod
    def of(cls, record: RequestRecord, facts: Mapping[str, AttributeTerm]) -> EntryForm:
        """The form of a record.

        Raises:
            Malformed: a fact is not classified, an allowed request cannot be kept exactly, it is
                too large, or Authority would hold a whole batch for its header.
        """
        if record.decision not in DECISIONS:
            raise Malformed("it is no decision")
        if len(record.policies) > MAX_POLICIES:
            raise Malformed(f"more than {MAX_POLICIES} policies decided it")
        common = record.policy_version, record.entities_digest, record.request.resource.type
        _check_header(record.numbers.session_uid, *common)
        text = _written(record, facts)
        text.end += f',"decision":{_quoted(record.decision)},"decision_id":"'
        first, *behind = (*text.pieces, text.end)
        policies = _policies_text(record.policies)
        reason = f',"reason":{_quoted(_tidied(record.reason))}' if record.reason else ""
        paths = [path for path, _ in text.hidden]
        size = _bytes_of(first, *behind, policies, reason) + _HASH * len(paths) + _AROUND + _OWN
        beside = sum([value_bytes(path, value) for path, value in text.hidden])
        if max(size, beside) > MAX_ENTRY_BYTES or len(paths) > _MAX_VALUES:
            raise Malformed("it is too large")
        return cls(
            numbers=record.numbers,
            common=common,
            first=first,
            hidden=tuple(
                [
                    (path, value, hashed_of(path, value), after)
                    for (path, value), after in zip(text.hidden, behind, strict=True)
                ]
            ),
            policies=policies,
            reason=reason,
            size=size,
            beside=beside,
            is_ordered=paths == sorted(paths),
        )

    def check_own(self, record: Recorded) -> None:
        """Check what is of one record alone.

        Raises:
            Malformed: Authority would hold a whole batch for it.
        """
        if not is_random_id(record.decision_id):
            raise Malformed("it is no decision")
        if not 0 <= record.time < END_OF_TIME:
            raise Malformed("its time is in no calendar")

    def sealed(self, record: Recorded, entropy: Entropy) -> SealedRequest:
        """The entry of a record of this decision, once :meth:`check_own` found it good."""
        values, before = list[HiddenValue](), self.first
        for path, value, hashed, behind in self.hidden:
            salt = entropy(SALT_BYTES)
            values.append((path, salt, value))
            before += salted_hash(salt, hashed) + behind
        if not self.is_ordered:
            values.sort()
        id, place, frames = record.decision_id, record.range, record.frames
        said = id if frames is None else f'{id}","frames":"{frames.hex()}'
        where = "" if place is None else f',"range":[{place[0]},{place[1]}]'
        return SealedRequest(
            numbers=self.numbers,
            common=self.common,
            decision_id=id,
            before=f'{before}{said}"{self.policies}{where}{self.reason},',
            after=f'"time":"{rfc3339(record.time)}"}}',
            values=values,
            size=self.size + self.beside,
            beside=self.beside,
        )


def form_of(record: Recorded, facts: Mapping[str, AttributeTerm]) -> EntryForm:
    """The form of a decided request, which can be sealed at any time.

    It is kept with the decision, and goes with it: what is personal in it does not outlive the
    session.

    Args:
        facts: The context facts of the vocabulary, by name; always the same.

    Raises:
        Unrecordable: a fact is not classified, an allowed request cannot be kept exactly, or it is
            too large; the request must not pass.
    """
    try:
        first = record.first if isinstance(record, RepeatedRequest) else record
        form = first.form
        if type(form) is not EntryForm:
            form = first.form = EntryForm.of(first, facts)
        form.check_own(record)
        return form
    except Malformed as refused:
        raise Unrecordable(f"audit record {REQUEST_DECISION.name}: {refused.text}") from refused


def seal_request(
    record: Recorded, entropy: Entropy, facts: Mapping[str, AttributeTerm]
) -> SealedRequest:
    """The entry of one request, but for its place.  Raises Unrecordable."""
    return form_of(record, facts).sealed(record, entropy)


def _bytes_of(*texts: str) -> int:
    """How many bytes they are."""
    text = "".join(texts)
    return len(text) if text.isascii() else len(text.encode())


def _written(record: RequestRecord, facts: Mapping[str, AttributeTerm]) -> _Text:
    """The entry of a record up to its decision: with the facts as replay wants them.

    Without them, where they cannot be kept so.

    Raises:
        Malformed: a fact is not classified; or it was allowed, and cannot be kept exactly.
    """
    request = record.request
    begin = (
        f'{{"action":{_quoted(request.request_kind)}'
        f',"cedar_action":{_quoted(_tidied(request.action))}'
    )
    try:
        form: dict[str, Json] | None = context_form(request.context)
    except Malformed:
        form = None
    if form is not None:
        text = _Text(end=f'{begin},"context":')
        try:
            text.add("request.context", form, facts)
            is_kept = text.is_short or is_storable(form)
        except Malformed:
            if is_storable(form):
                raise
            is_kept = False
        if is_kept:
            return text
    if record.decision == "allow":
        raise Malformed("an allowed request cannot be recorded exactly")
    return _Text(end=begin)


@lru_cache(4096)
def _check_header(session_uid: str, version: int, digest: str, resource_type: str) -> None:
    salt = SALT_BYTES * "00"
    header = RequestHeader(
        session_uid=session_uid,
        policy_version=version,
        entities_digest=digest,
        resource_type=resource_type,
        salt=bytes.fromhex(salt),
    )
    RequestHeader.of(header.form())
    encode(resource_type)


_tidied = lru_cache(4096)(tidy)
"""Names of policies and reasons are few."""

_quoted = lru_cache(4096)(write_plain)
"""The same, and names of actions and facts, as JSON."""


@lru_cache(4096)
def _policies_text(policies: tuple[str, ...]) -> str:
    return f',"policies":{write_plain(list(map(_tidied, policies)))}' if policies else ""
