"""What Connectors ask of Authority, and tell it, about their own sessions."""

from __future__ import annotations

from svc.authority.sessions.uses import SessionUseRecords
from svc.compose.authority.parts import Parts
from svc.compose.authority.shared import SharedServices
from svc.interfaces.rpc import RpcService


def session_services(p: Parts, rooms: SharedServices) -> tuple[RpcService, ...]:
    """Who makes their requests, what they did with their rights, and what they recorded."""
    uses = SessionUseRecords(
        cluster=p.settings.cluster,
        state_cache=rooms.state_cache,
        kinds=p.kinds.by_name,
        verifier=p.identity.verifier,
        store=p.store,
        recorder=p.recorder,
        asks=rooms.rates.identities,
    )
    return (
        rooms.identities.service.service(),
        uses.service(),
        rooms.recordings.receiver.service(),
    )
