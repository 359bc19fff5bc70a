"""Reads the requests that the log holds, so that they can be decided again.  Pure.

A session's start or refusal is Authority's own decision; ``request.decision`` with
a request is what a Proxy says that it decided within a session.  One without a
request is the Proxy's side of an opening, which Authority's record tells whole.
The entries of a batch are such decisions too; person and resource are those of
the session, which Authority knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from svc.audit.log.entries import SessionOf, no_session, sides_of
from svc.audit.log.record import PERSONAL, is_hidden
from svc.audit.log.verify import ChainFault, PersonalOf, batch_at
from svc.model.audit.batch import BATCH_EVENT, RequestBatch, RequestHeader, is_batch
from svc.model.audit.events import REQUEST_DECISION, SESSION_REFUSED, SESSION_START
from svc.model.audit.ledger import ChainRow, PersonalValue

BY_AUTHORITY = "authority"
BY_PROXY = "proxy"

_EVENTS = (SESSION_START.name, SESSION_REFUSED.name, REQUEST_DECISION.name)
_loads = json.JSONDecoder().decode
_MARKS = tuple(f'"event":"{name}"'.encode() for name in (*_EVENTS, BATCH_EVENT))
_OF_THE_POLICY = "denied"
"""The reason of a session's refusal by the policy; for any other one the policy allowed it."""


@frozen(hash=False)
class RecordedRequest:
    """One request as it was decided.

    Attributes:
        form: The request, as ``request_form`` gives it, without what was erased.
        erased: The facts of its context that were erased, or of which a part was.
        decision: What the policy said; the request may have failed for another reason.
        entities_digest: Names the entities that the decision was made over.
        told_by: Whose word it is: Authority decided it itself, or a Proxy reports it.
        index: Of the entry in the batch that the record is; None where it is the request's own.
    """

    seq: int
    time: str
    session_uid: str
    form: Mapping[str, Any]
    erased: tuple[str, ...]
    decision: str
    policies: tuple[str, ...]
    policy_version: int
    entities_digest: str
    told_by: str
    index: int | None = None


def recorded_requests(
    batches: Iterable[Sequence[ChainRow]],
    personal_of: PersonalOf,
    session_of: SessionOf = no_session,
) -> Iterator[RecordedRequest]:
    """Every request that these rows record, in their order.

    Args:
        session_of: Whose session a request of a batch was made in, and of what.

    Raises:
        ChainFault: a row of such an event is not a record as this gateway writes it, or the
            session of a request is not known.
    """
    for batch in batches:
        for row in request_rows(batch, personal_of):
            yield from row.requests(session_of)


@frozen
class RequestRow:
    """A row that records requests, and what stands beside it."""

    row: ChainRow
    record: Mapping[str, Any]
    beside: Sequence[PersonalValue]

    @property
    def is_batch(self) -> bool:
        """Whether it may record more than one."""
        return is_batch(self.record)

    def requests(self, session_of: SessionOf) -> Iterator[RecordedRequest]:
        """Its requests.

        Raises:
            ChainFault: it is no record as this gateway writes it, or a session is not known.
        """
        if self.is_batch:
            yield from _entries(self.row.seq, self.batch(), session_of)
        else:
            yield _read(self.row.seq, self.record, self.beside)

    def batch(self) -> RequestBatch:
        """The batch that it is.  Raises ChainFault."""
        return batch_at(self.row, self.record, self.beside)


def request_rows(batch: Sequence[ChainRow], personal_of: PersonalOf) -> Iterator[RequestRow]:
    """The rows among these that record requests.

    The one place that knows in which form requests are recorded.

    Raises:
        ChainFault: a row that may be one is no record.
    """
    personal: Mapping[int, Sequence[PersonalValue]] | None = None
    for row in batch:
        if not any(mark in row.canonical for mark in _MARKS):
            continue
        record = _record(row)
        if not is_batch(record) and (record.get("event") not in _EVENTS or "request" not in record):
            continue
        if personal is None:
            personal = personal_of(batch[0].seq, batch[-1].seq)
        yield RequestRow(row, record, personal.get(row.seq, ()))


def _entries(seq: int, batch: RequestBatch, session_of: SessionOf) -> Iterator[RecordedRequest]:
    """The requests of a batch; a denied one without facts could not be recorded exactly."""
    sides: dict[int, Mapping[str, Any]] = {}
    for index, entry in enumerate(batch.entries):
        header, at = batch.header(index), entry["session"]
        known = sides.get(at)
        if known is None:
            known = sides[at] = session_sides(seq, index, header, session_of)
        if isinstance(entry.get("context"), dict):
            values = {value.path: value.value for value in batch.values(index)}
            yield entry_request(seq, index, entry, header, sides=known, values=values)


def session_sides(
    seq: int, index: int, header: RequestHeader, session_of: SessionOf
) -> Mapping[str, Any]:
    """Who asks, and of what, in the session of entry *index* of record *seq*.

    Raises:
        ChainFault: the session is not known.
    """
    session = session_of(header.session_uid)
    if session is None:
        raise ChainFault(seq, "record", f"the session of its request {index} is not known")
    return sides_of(header, session)


def entry_request(
    seq: int,
    index: int,
    entry: Mapping[str, Any],
    header: RequestHeader,
    *,
    sides: Mapping[str, Any],
    values: Mapping[str, str],
) -> RecordedRequest:
    """The request that an entry of a batch records, which has facts.

    Args:
        sides: As :func:`session_sides` gives them.
        values: What of its personal values is not erased, by their paths.
    """
    told, erased = _opened(entry["context"], values)
    return RecordedRequest(
        seq=seq,
        time=str(entry.get("time")),
        session_uid=header.session_uid,
        form={
            "action": entry["cedar_action"],
            "request_kind": entry["action"],
            "context": told,
            **sides,
        },
        erased=erased,
        decision=str(entry.get("decision")),
        policies=tuple(map(str, entry.get("policies", ()))),
        policy_version=header.policy_version,
        entities_digest=header.entities_digest,
        told_by=BY_PROXY,
        index=index,
    )


def _record(row: ChainRow) -> Mapping[str, Any]:
    try:
        record = json.loads(row.canonical)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise ChainFault(row.seq, "record", "the record is not JSON")
    return record


def _read(
    seq: int, record: Mapping[str, Any], personal: Sequence[PersonalValue]
) -> RecordedRequest:
    form = record["request"]
    context = form.get("context") if isinstance(form, dict) else None
    version = record.get("policy_version", 0)
    if not isinstance(context, dict) or not isinstance(version, int):
        raise ChainFault(seq, "record", "its request is malformed")
    told, erased = _opened(context, _values(record, personal))
    event, reason = record["event"], record.get("reason")
    decision = str(record.get("decision"))
    if event == SESSION_START.name or (event == SESSION_REFUSED.name and reason != _OF_THE_POLICY):
        decision = "allow"
    return RecordedRequest(
        seq=seq,
        time=str(record.get("time")),
        session_uid=str(record.get("session_uid", "")),
        form={**form, "context": told},
        erased=erased,
        decision=decision,
        policies=tuple(map(str, record.get("policies", ()))),
        policy_version=version,
        entities_digest=str(record.get("entities_digest", "")),
        told_by=BY_PROXY if event == REQUEST_DECISION.name else BY_AUTHORITY,
    )


def _values(record: Mapping[str, Any], personal: Sequence[PersonalValue]) -> dict[str, str]:
    """The values that are those which the record hides."""
    found: dict[str, str] = {}
    for value in personal:
        there: Any = record
        for name in value.path.split("."):
            there = there.get(name) if type(there) is dict else None
        if is_hidden(there, value):
            found[value.path] = value.value
    return found


def _opened(
    context: Mapping[str, Any], values: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The facts with their personal values, and the names of those that lack one."""
    told: dict[str, Any] = {}
    erased: list[str] = []
    for name, fact in context.items():
        if type(fact) is not dict:
            told[name] = fact
            continue
        whole = _value(f"request.context.{name}", fact, values)
        if whole is None:
            erased.append(name)
        else:
            told[name] = whole
    return told, tuple(erased)


def _value(path: str, fact: Any, values: Mapping[str, str]) -> Any:
    """The fact with what is personal in it; None where that was erased."""
    if type(fact) is not dict:
        return fact
    if len(fact) == 1 and PERSONAL in fact:
        kept = values.get(path)
        return None if kept is None else _loads(kept)
    parts = {name: _value(f"{path}.{name}", part, values) for name, part in fact.items()}
    return None if None in parts.values() else parts
