"""Seals the entries of a batch: what all records of one decision share is made once (ADR 53)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from attrs import define

from svc.audit.log.entries import DECISIONS, MAX_POLICIES
from svc.audit.log.record import Unrecordable, tidy
from svc.audit.spool.entry.facts import FactTexts
from svc.audit.spool.entry.odd_facts import FACTS, is_short, written_alone
from svc.errors import Malformed
from svc.model.audit.batch import (
    MAX_ENTRY_BYTES,
    SALT_BYTES,
    RequestHeader,
)
from svc.model.audit.events import REQUEST_DECISION
from svc.model.audit.hidden import said_bytes, salted_hash
from svc.model.audit.plain_json import quoted, write_plain
from svc.model.audit.record import END_OF_TIME, rfc3339
from svc.model.audit.request import (
    RepeatedRequest,
    RequestRecord,
    SealedRequest,
    SessionNumbers,
)
from svc.model.canonical import encode
from svc.model.ids import Entropy, is_random_id
from svc.model.policy.terms import AttributeTerm

_MAX_VALUES = 32
_AROUND = 48
"""Bytes of an entry's place in its batch and its session, at most."""

_HASH = 64
_OWN = 192
"""Bytes of what an entry says of its request alone, at most."""

Recorded = RequestRecord | RepeatedRequest[Any]

_Hidden = tuple[str, bytes, str, str]
"""A personal value of a form: the text behind its hash, what of it is hashed with each record's
salt, and what stands before and behind that salt beside the entry."""


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
        order: The places of its hidden values, where these are not in the order of their paths.
    """

    numbers: SessionNumbers
    common: tuple[int, str, str]
    first: str
    hidden: Sequence[_Hidden]
    policies: str
    reason: str
    size: int
    beside: int
    order: Sequence[int] | None

    @classmethod
    def of(cls, record: RequestRecord, facts: FactTexts) -> EntryForm:
        """The form of a record.

        Raises:
            Malformed: a fact is not classified, an allowed request cannot be kept exactly, it is
                too large, or Authority would hold a whole batch for its header.
        """
        if record.decision not in DECISIONS:
            raise Malformed("it is no decision")
        if len(record.policies) > MAX_POLICIES:
            raise Malformed(f"more than {MAX_POLICIES} policies decided it")
        request = record.request
        common = record.policy_version, record.entities_digest, request.resource.type
        _check_header(record.numbers.session_uid, *common)
        begin = _beginning(request.request_kind, request.action)
        written = facts.write(begin, request.context)
        if written is None or not is_short(*written):
            written = written_alone(begin, record, facts.facts)
        texts, end, values = written
        texts.append(f'{end},"decision":{_quoted(record.decision)},"decision_id":"')
        policies = _policies_text(record.policies)
        reason = f',"reason":{_quoted(_tidied(record.reason))}' if record.reason else ""
        size = _bytes_of(*texts, policies, reason) + _HASH * len(values) + _AROUND + _OWN
        hidden: list[_Hidden] = []
        beside = at = 0
        for path, value, hashed in values:
            said, at = quoted(value), at + 1
            beside += said_bytes(path, said)
            hidden.append((texts[at], hashed, f'{quoted(path)},"', f'",{said}'))
        if max(size, beside) > MAX_ENTRY_BYTES or len(values) > _MAX_VALUES:
            raise Malformed("it is too large")
        return cls(
            numbers=record.numbers,
            common=common,
            first=texts[0],
            hidden=hidden,
            policies=policies,
            reason=reason,
            size=size,
            beside=beside,
            order=_order([path for path, _, _ in values]) if len(values) > 1 else None,
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
        values: list[str] = []
        before = self.first
        for behind, hashed, path, value in self.hidden:
            salt = entropy(SALT_BYTES)
            values.append(path + salt.hex() + value)
            before += salted_hash(salt, hashed) + behind
        if self.order is not None:
            values = [values[at] for at in self.order]
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


def form_of(record: Recorded, texts: FactTexts) -> EntryForm:
    """The form of a decided request, which can be sealed at any time.

    It is kept with the decision, and goes with it: what is personal in it does not outlive the
    session.

    Args:
        texts: Of the facts of the vocabulary; always the same.

    Raises:
        Unrecordable: a fact is not classified, an allowed request cannot be kept exactly, or it is
            too large; the request must not pass.
    """
    try:
        first = record.first if isinstance(record, RepeatedRequest) else record
        form = first.form
        if type(form) is not EntryForm:
            form = first.form = EntryForm.of(first, texts)
        form.check_own(record)
        return form
    except Malformed as refused:
        raise Unrecordable(f"audit record {REQUEST_DECISION.name}: {refused.text}") from refused


def seal_request(
    record: Recorded, entropy: Entropy, facts: Mapping[str, AttributeTerm]
) -> SealedRequest:
    """The entry of one request, but for its place.  Raises Unrecordable."""
    return form_of(record, FactTexts(facts)).sealed(record, entropy)


def _bytes_of(*texts: str) -> int:
    """How many bytes they are."""
    text = "".join(texts)
    return len(text) if text.isascii() else len(text.encode())


def _order(paths: Sequence[str]) -> Sequence[int] | None:
    """The places of *paths* in their order, where that is another one."""
    ordered = sorted(paths)
    return None if ordered == paths else [paths.index(path) for path in ordered]


@lru_cache(1024)
def _beginning(request_kind: str, action: str) -> str:
    """Of an entry, up to its facts; actions are few."""
    return f'{{"action":{_quoted(request_kind)},"cedar_action":{_quoted(_tidied(action))}{FACTS}'


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
