"""What an Authority's operators ask: members, the catalog, policies, the audit queue."""

from __future__ import annotations

from svc.authority.admin import AdminService
from svc.authority.control import ControlService
from svc.authority.distribution.admin import RootAdmin
from svc.authority.ingest.erase import RequestErasure
from svc.authority.registry.admin import RegistryAdmin, registry_admin
from svc.authority.registry.catalog import CatalogAdmin
from svc.authority.registry.credentials import CredentialAdmin
from svc.authority.registry.epochs import EpochAdmin
from svc.authority.registry.listing import CatalogListing
from svc.authority.sessions.admin import SessionAdmin
from svc.authority.sessions.standing import StandingSessions
from svc.authority.signin.links import IdentityLinks
from svc.authority.state.recorder import node
from svc.compose.authority.ingest import AuditQueue
from svc.compose.authority.lifecycle import AuthorityRole
from svc.compose.authority.parts import Parts
from svc.compose.authority.shared import SharedServices
from svc.compose.authority.status import status_of
from svc.ops.asked_records import AskedRecords
from svc.proto.gate.v1 import admin_pb2


def _registry(p: Parts, rooms: SharedServices) -> RegistryAdmin:
    return registry_admin(
        writer=rooms.writer,
        peers=rooms.peers,
        ca_pin=p.keys.ca_pin,
        token_secs=p.settings.identity.join_token_secs,
        leaf_secs=p.settings.identity.node_leaf_secs,
        proxy_revoked=rooms.ends.revoked,
        rights=rooms.changing.rights,
        actions=lambda: frozenset(one.terms.open_action for one in p.kinds.by_name.values()),
    )


def admin_service(
    p: Parts,
    rooms: SharedServices,
    control: ControlService,
    role: AuthorityRole,
    queue: AuditQueue,
    roots: RootAdmin,
) -> AdminService:
    """Wire it."""
    registry = _registry(p, rooms)
    discovery = rooms.discovery.discovery
    catalog = CatalogAdmin(
        writer=rooms.writer,
        registrations=rooms.peers.registrations,
        kinds=p.kinds.by_name,
        scope_of=discovery.ids.scope_of,
        settle=discovery.settle_again,
    )

    async def status() -> admin_pb2.StatusResponse:
        return await status_of(p, rooms, control, role, queue.watch.counts)

    return AdminService(
        operators=rooms.operators,
        registry=registry,
        sessions=_session_admin(p, rooms),
        credentials=CredentialAdmin(registry.tokens, rooms.ends.asked, rooms.publisher.beat),
        catalog=catalog,
        listing=CatalogListing(rooms.writer, rooms.peers, discovery.ids.scope_of),
        scopes=rooms.discovery.scopes,
        epochs=EpochAdmin(rooms.writer),
        policies=rooms.changing.policies,
        checks=rooms.checks,
        proposals=rooms.changing.proposals,
        decisions=rooms.changing.decisions,
        reviews=rooms.changing.reviews,
        outbox=queue.admin,
        erasure=RequestErasure(queue.admin.store, queue.admin.recorder),
        links=IdentityLinks(rooms.writer, p.settings.oidc.issuer, rooms.changing.rights),
        accounts=rooms.accounts.admin(p, registry.people),
        recordings=rooms.recordings.admin,
        roots=roots,
        records=AskedRecords(p.store, p.recorder).show,
        status=status,
    )


def standing_sessions(p: Parts, rooms: SharedServices) -> StandingSessions:
    """Wire what ends sessions whose approver is there no more."""
    me = node(p.identity.principal.id)
    return StandingSessions(rooms.access.uses.approvals, _session_admin(p, rooms), me)


def _session_admin(p: Parts, rooms: SharedServices) -> SessionAdmin:
    return SessionAdmin(
        store=p.store,
        recorder=p.recorder,
        asked=rooms.ends.asked,
        publish=rooms.publisher.beat,
        peers=rooms.peers,
    )
