"""Records of what a gated session's gate decided and noted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from svc.interfaces.audit import IAuditSink
from svc.model.audit.events import REQUEST_DECISION
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.request import RepeatedRequest
from svc.model.canonical import Json
from svc.model.cluster.agent import caller_kind
from svc.model.ids import Entropy, event_id
from svc.proxy.sessions.gated import GatedNote, Recordable, WriteGated


def recording(
    sink: IAuditSink, origin: str, now: Callable[[], float], entropy: Entropy
) -> WriteGated:
    """Writes to this Proxy's sink, each record on the share of the person whose request it is."""

    def write(decided: Recordable, session_uid: str) -> Awaitable[None] | None:
        if not isinstance(decided, GatedNote):
            decided.time = now()
            first = decided.first if isinstance(decided, RepeatedRequest) else decided
            return sink.write_request(decided, first.request.principal.id)
        record = as_record(decided, origin, session_uid, now=now(), entropy=entropy)
        return sink.write(record, record.actor.id)

    return write


def as_record(
    decided: Recordable, origin: str, session_uid: str, now: float, entropy: Entropy
) -> AuditRecord:
    """The record of an event of the kind's, or of one request, as its entry will be shown."""
    if isinstance(decided, GatedNote):
        return _as_note(decided, origin, now, entropy)
    first = decided.first if isinstance(decided, RepeatedRequest) else decided
    request = first.request
    details: dict[str, Json] = {"proxy_id": origin}
    if first.source_address:
        details["source_address"] = first.source_address
    return AuditRecord(
        event_id=event_id(now, entropy),
        time=now,
        event=REQUEST_DECISION,
        actor=Actor(caller_kind(request.principal.id), request.principal.id),
        origin=origin,
        session_uid=session_uid,
        resource_id=request.resource.id,
        resource_kind=first.resource_kind,
        action=request.request_kind,
        cedar_action=request.action,
        request=request,
        decision=first.decision,
        decision_id=decided.decision_id,
        policies=first.policies,
        policy_version=first.policy_version,
        entities_digest=first.entities_digest,
        reason=first.reason or None,
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
