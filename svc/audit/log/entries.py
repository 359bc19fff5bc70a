"""Seals the entries of a batch, and shows each as the record that it is (rule R29, ADR 36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from attrs import frozen

from svc.audit.log.record import MAX_TEXT, PERSONAL, Unrecordable, classified, is_storable, tidy
from svc.errors import Malformed
from svc.model.audit.batch import (
    MAX_ENTRY_BYTES,
    SALT_BYTES,
    RequestBatch,
    RequestHeader,
    RequestValue,
    hidden_paths,
    value_hash,
)
from svc.model.audit.events import ERASING, REQUEST_DECISION
from svc.model.audit.plain_json import write_plain
from svc.model.audit.record import rfc3339
from svc.model.audit.request import RequestRecord, SealedRequest
from svc.model.canonical import Json, decode, encode
from svc.model.cluster.agent import caller_kind
from svc.model.ids import Entropy, is_random_id
from svc.model.policy.access import AccessRequest, context_form
from svc.model.policy.requests import caller
from svc.model.policy.terms import AttributeTerm

_MAX_VALUES = 32
_TIME = len('"time":"2026-01-01T00:00:00.000000Z"}')
_AROUND = 64
"""Bytes of an entry's numbers, and of what is around a personal value."""

DECISIONS = frozenset(["allow", "deny", "error"])
MAX_POLICIES = 64


@frozen
class RequestSession:
    """What Authority knows of the session of a request."""

    person_id: str
    resource_id: str
    resource_kind: str


SessionOf = Callable[[str], RequestSession | None]
"""``session_of(uid)``: from the session's own row; None where there is none any more."""


def no_session(_uid: str) -> RequestSession | None:
    """Knows none."""
    return None


def seal_request(
    record: RequestRecord, entropy: Entropy, facts: Mapping[str, AttributeTerm]
) -> SealedRequest:
    """The entry of a decided request, but for its place.

    Raises:
        Unrecordable: a fact is not classified, an allowed request cannot be kept exactly, or it
            is too large; the request must not pass.
    """
    hidden: list[RequestValue] = []

    def hide(path: str, value: Json) -> Json:
        salt, text = entropy(SALT_BYTES), encode(value).decode()
        hidden.append(RequestValue(index=0, path=path, salt=salt, value=text))
        return {PERSONAL: value_hash(path, salt, text)}

    try:
        _check(record)
        form = _own(record)
        context = _exact_context(record.request)
        if context is not None:
            form["context"] = classified("request.context", context, facts, hide)
        elif record.decision == "allow":
            raise Malformed("an allowed request cannot be recorded exactly")
        text = write_plain(form)
        size = len(text.encode()) + _AROUND
    except Malformed as refused:
        raise Unrecordable(f"audit record {REQUEST_DECISION.name}: {refused.text}") from refused
    kept = sum(len(one.value.encode()) + len(one.path) + _AROUND for one in hidden)
    if max(size, kept) > MAX_ENTRY_BYTES or len(hidden) > _MAX_VALUES:
        raise Unrecordable(f"audit record {REQUEST_DECISION.name}: it is too large")
    hidden.sort(key=lambda one: one.path)
    cut = len(text) - _TIME  # what comes last
    return SealedRequest(
        numbers=record.numbers,
        common=(record.policy_version, record.entities_digest, record.request.resource.type),
        decision_id=record.decision_id,
        before=text[:cut],
        after=text[cut:],
        values=tuple(hidden),
        size=size + kept,
    )


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


def _check(record: RequestRecord) -> None:
    """What Authority would hold a whole batch for must not enter one."""
    _check_header(
        record.numbers.session_uid,
        record.policy_version,
        record.entities_digest,
        record.request.resource.type,
    )
    if record.decision not in DECISIONS or not is_random_id(record.decision_id):
        raise Malformed("it is no decision")
    if len(record.policies) > MAX_POLICIES:
        raise Malformed(f"more than {MAX_POLICIES} policies decided it")


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


def _own(record: RequestRecord) -> dict[str, Json]:
    form: dict[str, Json] = {
        "action": record.request.request_kind,
        "cedar_action": _tidied(record.request.action),
        "decision": record.decision,
        "decision_id": record.decision_id,
        "time": rfc3339(record.time),
    }
    if record.policies:
        form["policies"] = [_tidied(one) for one in record.policies]
    if record.reason:
        form["reason"] = _tidied(record.reason)
    if record.range is not None:
        form["range"] = list(record.range)
    if record.frames is not None:
        form["frames"] = record.frames.hex()
    return form


# -- reading


def request_of(
    entry: Mapping[str, Any], header: RequestHeader, session: RequestSession
) -> dict[str, Any]:
    """What Cedar was asked, but for the facts."""
    return {
        "action": entry["cedar_action"],
        "principal": caller(session.person_id).form(),
        "request_kind": entry["action"],
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
