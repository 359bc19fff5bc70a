"""Shows each entry of a batch as the record that it is (rule R29, ADR 36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from svc.audit.log.record import PERSONAL
from svc.model.audit.batch import (
    RequestBatch,
    RequestHeader,
)
from svc.model.audit.events import DECIDED, ERASING, REQUEST_DECISION
from svc.model.audit.hidden import hidden_paths
from svc.model.canonical import decode
from svc.model.cluster.agent import caller_kind
from svc.model.policy.requests import caller

DECISIONS = frozenset(["allow", "deny", "error"])
MAX_POLICIES = 64


@frozen
class RequestSession:
    """What Authority knows of the session of a request."""

    person_id: str
    resource_id: str
    resource_kind: str


SessionOf = Callable[[str], RequestSession | None]
"""``session_of(uid)``: from the record of its opening; None where nothing leads to it any more."""


def no_session(_uid: str) -> RequestSession | None:
    """Knows none."""
    return None


def request_of(
    entry: Mapping[str, Any], header: RequestHeader, session: RequestSession
) -> dict[str, Any]:
    """What Cedar was asked, but for the facts."""
    return {
        "action": entry["cedar_action"],
        "request_kind": entry["action"],
        **sides_of(header, session),
    }


def sides_of(header: RequestHeader, session: RequestSession) -> dict[str, Any]:
    """Who asks, and of what, in a request of this session."""
    return {
        "principal": caller(session.person_id).form(),
        "resource": {"id": session.resource_id, "type": header.resource_type},
    }


def entry_record(
    record: Mapping[str, Any], batch: RequestBatch, index: int, session_of: SessionOf
) -> dict[str, Any]:
    """Entry *index* of the batch that *record* is, in the form of a record of its own.

    What is personal and not erased stands as ``value`` beside its hash.
    """
    header, own = batch.header(index), dict(batch.entries[index])
    del own["session"]
    context = own.pop("context", None)
    session = session_of(header.session_uid)
    event = REQUEST_DECISION
    shown: dict[str, Any] = {
        **own,
        "class": event.event_class.value,
        "code": event.code,
        "details": {"proxy_id": batch.place.origin},
        "entities_digest": header.entities_digest,
        "event": event.name,
        "event_id": f"{record.get('event_id')}:{index}",
        "index": index,
        "key_id": record.get("key_id"),
        "origin": batch.place.origin,
        "policy_version": header.policy_version,
        "session_uid": header.session_uid,
        "severity": event.severity.value,
        "spool": record.get("spool"),
    }
    if session is not None:
        shown["actor"] = {"id": session.person_id, "kind": caller_kind(session.person_id)}
        shown["resource_id"] = session.resource_id
        shown["resource_kind"] = session.resource_kind
        if context is not None:
            shown["request"] = {**request_of(own, header, session), "context": context}
    elif context is not None:
        shown["request"] = {"context": context}
    _tell(shown, "", {one.path: one.value for one in batch.values(index)})
    return shown


def _tell(form: dict[str, Any], path: str, told: Mapping[str, str]) -> None:
    """Put each personal value beside its hash; *form* is ours."""
    for name, value in form.items():
        if type(value) is not dict:
            continue
        here = f"{path}{name}"
        if set(value) != {PERSONAL}:
            form[name] = value = dict(value)
            _tell(value, f"{here}.", told)
        elif here in told:
            form[name] = {**value, "value": decode(told[here].encode())}


def missing_values(seq: int, batch: RequestBatch) -> list[str]:
    """The personal values that are not beside batch *seq*, by the names that erasing gives them."""
    there = {(one.index, one.path) for one in batch.personal}
    return [
        erased_name(seq, index, path)
        for index, entry in enumerate(batch.entries)
        for path in hidden_paths(entry)
        if (index, path) not in there
    ]


def erased_slice(digest: str) -> str:
    """How an ``audit.erased`` names a slice of entities."""
    return f"entities:{digest}"


def erased_name(seq: int, index: int, path: str) -> str:
    """How an ``audit.request.erased`` names a value of an entry."""
    return f"{seq}:{index}:{path}"


def erased_values(record: Mapping[str, Any]) -> list[str]:
    """What a record says was erased: values of entries, and slices of entities."""
    if record.get("event") not in ERASING:
        return []
    details = record.get("details")
    named = details.get("erased") if isinstance(details, Mapping) else None
    return list(named) if isinstance(named, list) else []


def decided_over(record: Mapping[str, object]) -> str | None:
    """The digest of the slice of entities that the store keeps for this record, if it does."""
    digest = record.get("entities_digest")
    return digest if event_of(record) in DECIDED and isinstance(digest, str) else None


def event_of(record: Mapping[str, object]) -> str:
    """What happened; empty where a record that is not ours names no event."""
    event = record.get("event")
    return event if isinstance(event, str) else ""
