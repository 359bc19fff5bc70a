"""Seals the entries of a batch: what all records of one decision share is made once (ADR 53)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
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
from svc.model.audit.hidden import hashed_of, salted_hash
from svc.model.audit.plain_json import write_plain
from svc.model.audit.record import rfc3339
from svc.model.audit.request import HiddenValue, RequestRecord, SealedRequest
from svc.model.canonical import Json, encode
from svc.model.ids import Entropy, is_random_id
from svc.model.policy.access import AccessRequest, context_form
from svc.model.policy.terms import AttributeTerm

_MAX_VALUES = 32
_AROUND = 64
"""Bytes of an entry's numbers, and of what is around a personal value."""

_HASH = 64

MAX_KEPT = 1024
MAX_KEPT_BYTES = 8192
"""A form that is longer is made for each record."""


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

    def add(self, path: str, values: Mapping[str, Any], facts: Mapping[str, AttributeTerm]) -> None:
        """Write facts, as ``context_form`` gave them; those that are personal are hidden.

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
                self.hidden.append((f"{path}.{name}", encode(value).decode()))
            elif kind is int:
                end += str(value)
            elif kind is not dict:
                end += write_plain(value)
            elif isinstance(term.type, tuple):
                self.end = end
                self.add(f"{path}.{name}", value, {each.name: each for each in term.type})
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
        record: The record that it was made of; another one fits if it says the same decision.
        first: Up to the hash of the first hidden value; where nothing is hidden, to the decision.
        hidden: In the order of their hashes.
        size: Bytes of the entry without what is of one record alone.
        beside: Bytes of what is beside it.
    """

    record: RequestRecord
    first: str
    hidden: tuple[_Hidden, ...]
    policies: str
    reason: str
    size: int
    beside: int
    _header: tuple[str, tuple[int, str, str]] | None = field(default=None, init=False)
    """The newest session whose records had this form, and what its header says."""

    @classmethod
    def of(cls, record: RequestRecord, facts: Mapping[str, AttributeTerm]) -> EntryForm:
        """The form of a record.

        Raises:
            Malformed: a fact is not classified, or an allowed request cannot be kept exactly.
        """
        context = _exact_context(record.request)
        if context is None and record.decision == "allow":
            raise Malformed("an allowed request cannot be recorded exactly")
        text = _Text()
        text.end = (
            f'{{"action":{_quoted(record.request.request_kind)}'
            f',"cedar_action":{_quoted(_tidied(record.request.action))}'
        )
        if context is not None:
            text.end += ',"context":'
            text.add("request.context", context, facts)
        text.end += f',"decision":{_quoted(record.decision)},"decision_id":"'
        first, *behind = (*text.pieces, text.end)
        policies = _policies_text(record.policies)
        return cls(
            record=record,
            first=first,
            hidden=tuple(
                [
                    (path, value, hashed_of(path, value), after)
                    for (path, value), after in zip(text.hidden, behind, strict=True)
                ]
            ),
            policies=policies,
            reason=f',"reason":{_quoted(_tidied(record.reason))}' if record.reason else "",
            size=_bytes_of(first, *behind, policies, record.reason)
            + _HASH * len(text.hidden)
            + _AROUND,
            beside=_bytes_of(*chain.from_iterable(text.hidden)) + _AROUND * len(text.hidden),
        )

    def is_of(self, record: RequestRecord) -> bool:
        """Whether another record says the same decision."""
        own = self.record
        return (
            own.request is record.request
            and own.decision == record.decision
            and own.policies == record.policies
            and own.reason == record.reason
        )

    def _checked(self, record: RequestRecord) -> tuple[int, str, str]:
        """What the header of a record says, if it is one that may enter a batch.

        Raises:
            Malformed: Authority would hold a whole batch for it.
        """
        if not is_random_id(record.decision_id):
            raise Malformed("it is no decision")
        version, digest = record.policy_version, record.entities_digest
        uid, known = record.numbers.session_uid, self._header
        if known is not None and known[0] == uid and known[1][:2] == (version, digest):
            return known[1]
        type_ = record.request.resource.type
        if record.decision not in DECISIONS:
            raise Malformed("it is no decision")
        if len(record.policies) > MAX_POLICIES:
            raise Malformed(f"more than {MAX_POLICIES} policies decided it")
        _check_header(uid, version, digest, type_)
        self._header = uid, (version, digest, type_)
        return self._header[1]

    def sealed(self, record: RequestRecord, entropy: Entropy) -> SealedRequest:
        """The entry of a record of which it is.

        Raises:
            Malformed: it is too large, or what is of this record alone may not be written.
        """
        common = self._checked(record)
        values, before = list[HiddenValue](), self.first
        for path, value, hashed, behind in self.hidden:
            salt = entropy(SALT_BYTES)
            values.append((path, salt, value))
            before += salted_hash(salt, hashed) + behind
        own, place = record.decision_id, record.range
        if record.frames is not None:
            own += f'","frames":"{record.frames.hex()}'
        own += f'"{self.policies}'
        if place is not None:
            own += f',"range":[{place[0]},{place[1]}]'
        after = f'"time":"{rfc3339(record.time)}"}}'
        size = self.size + len(own) + len(after)
        if max(size, self.beside) > MAX_ENTRY_BYTES or len(values) > _MAX_VALUES:
            raise Malformed("it is too large")
        if len(values) > 1:
            values.sort()
        return SealedRequest(
            numbers=record.numbers,
            common=common,
            decision_id=record.decision_id,
            before=f"{before}{own}{self.reason},",
            after=after,
            values=values,
            size=size + self.beside,
        )


@define
class EntryForms:
    """The forms of requests that were recorded again, since their decision was remembered.

    No other form is kept: what is personal in it would outlive the session.
    """

    _kept: dict[int, EntryForm] = field(factory=dict, init=False)

    def seal(
        self, record: RequestRecord, entropy: Entropy, facts: Mapping[str, AttributeTerm]
    ) -> SealedRequest:
        """The entry of a decided request, but for its place.

        Args:
            facts: The context facts of the vocabulary, by name; always the same.

        Raises:
            Unrecordable: a fact is not classified, an allowed request cannot be kept exactly, or
                it is too large; the request must not pass.
        """
        try:
            form = self._kept.get(id(record.request))
            if form is None or not form.is_of(record):
                form = EntryForm.of(record, facts)
                if record.is_repeated:
                    self._keep(form)
            return form.sealed(record, entropy)
        except Malformed as refused:
            raise Unrecordable(f"audit record {REQUEST_DECISION.name}: {refused.text}") from refused

    def _keep(self, form: EntryForm) -> None:
        if form.size + form.beside > MAX_KEPT_BYTES:
            return
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        # A form keeps its request, so nothing else has the same identity meanwhile.
        self._kept[id(form.record.request)] = form


def seal_request(
    record: RequestRecord, entropy: Entropy, facts: Mapping[str, AttributeTerm]
) -> SealedRequest:
    """As :meth:`EntryForms.seal`, of one alone."""
    return EntryForms().seal(record, entropy, facts)


def _bytes_of(*texts: str) -> int:
    """How many bytes they are."""
    text = "".join(texts)
    return len(text) if text.isascii() else len(text.encode())


def _exact_context(request: AccessRequest) -> dict[str, Json] | None:
    """The facts as replay wants them, or None when they cannot be kept so."""
    try:
        form: dict[str, Json] = context_form(request.context)
    except Malformed:
        return None
    text = write_plain(form)
    # A short text has no long one in it.
    is_short = len(text) <= MAX_TEXT and "\\u0000" not in text
    return form if is_short or is_storable(form) else None


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
