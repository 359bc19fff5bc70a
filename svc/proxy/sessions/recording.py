"""Records of what a gated session's gate decided and noted."""

from __future__ import annotations

from collections.abc import Callable

from svc.interfaces.audit import IAuditSink
from svc.model.audit.events import REQUEST_DECISION
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.request import RequestRecord
from svc.model.canonical import Json
from svc.model.cluster.agent import caller_kind
from svc.model.ids import Entropy, event_id
from svc.proxy.sessions.gated import GatedNote, GatedRequest, WriteGated


def recording(
    sink: IAuditSink, origin: str, now: Callable[[], float], entropy: Entropy
) -> WriteGated:
    """Writes to this Proxy's sink, each record on the share of the person whose request it is."""

    async def write(decided: GatedRequest | GatedNote, session_uid: str) -> None:
        if isinstance(decided, GatedRequest):
            await sink.write_request(as_request(decided, now()), decided.request.principal.id)
            return
        record = as_record(decided, origin, session_uid, now=now(), entropy=entropy)
        await sink.write(record, record.actor.id)

    return write


def as_request(decided: GatedRequest, now: float) -> RequestRecord:
    """One request on its way into a batch."""
    return RequestRecord(
        numbers=decided.numbers,
        time=now,
        request=decided.request,
        decision=decided.decision,
        decision_id=decided.decision_id,
        policies=decided.policies,
        policy_version=decided.policy_version,
        entities_digest=decided.entities_digest,
        reason=decided.reason,
        is_repeated=decided.is_repeated,
        range=decided.range,
        frames=decided.frames,
    )


def as_record(
    decided: GatedRequest | GatedNote, origin: str, session_uid: str, now: float, entropy: Entropy
) -> AuditRecord:
    """The record of an event of the kind's, or of one request, as its entry will be shown."""
    if isinstance(decided, GatedNote):
        return _as_note(decided, origin, now, entropy)
    request = decided.request
    details: dict[str, Json] = {"proxy_id": origin}
    if decided.source_address:
        details["source_address"] = decided.source_address
    return AuditRecord(
        event_id=event_id(now, entropy),
        time=now,
        event=REQUEST_DECISION,
        actor=Actor(caller_kind(request.principal.id), request.principal.id),
        origin=origin,
        session_uid=session_uid,
        resource_id=request.resource.id,
        resource_kind=decided.resource_kind,
        action=request.request_kind,
        cedar_action=request.action,
        request=request,
        decision=decided.decision,
        decision_id=decided.decision_id,
        policies=decided.policies,
        policy_version=decided.policy_version,
        entities_digest=decided.entities_digest,
        reason=decided.reason or None,
        details=details,
    )


def _as_note(note: GatedNote, origin: str, now: float, entropy: Entropy) -> AuditRecord:
    opened = note.opened
    # Last, so that a gate cannot say them otherwise.
    about = {"proxy_id": origin, "source_address": opened.source_address or None}
    return AuditRecord(
        event_id=event_id(now, entropy),
        time=now,
        event=note.event,
        actor=Actor(caller_kind(opened.person_id), opened.person_id),
        origin=origin,
        session_uid=opened.request.session_uid,
        resource_id=opened.request.resource,
        resource_kind=opened.kind.name,
        details={**note.details, **about},
    )
