"""The Authority: keys, store, policy, listeners, and what runs beside them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define
from twisted.internet.threads import deferToThreadPool

from svc import __version__
from svc.audit.checkpoint.signer import HeadWriter
from svc.audit.log.record import Sealer
from svc.audit.state.anchor import StateAnchor, StateKeeper
from svc.audit.state.in_force import StateLedger
from svc.authority.admin import AdminService
from svc.authority.control import ControlService
from svc.authority.enroll.bootstrap import Enrollment
from svc.authority.enroll.issuers import IssuerRotation
from svc.authority.enroll.renew import NodeRenewal
from svc.authority.ha.lease import FencedStore, Leadership
from svc.authority.limits import AskRates
from svc.authority.policy.active import PolicyInForce
from svc.authority.policy.admin import PolicyAdmin
from svc.authority.policy.publish import PolicyPublisher
from svc.authority.policy.reload import ChangeFollower
from svc.authority.policy.snapshot import SnapshotPublisher
from svc.authority.refusals import WINDOW_SECS, LastSummary, RefusalRecords
from svc.authority.registry.catalog import CatalogAdmin
from svc.authority.registry.members import MemberAdmin
from svc.authority.registry.operators import Operators
from svc.authority.registry.routes import Registrations
from svc.authority.sessions.end import SessionEnds
from svc.authority.sessions.explain import Explainer
from svc.authority.sessions.issue import Issuance
from svc.authority.sessions.register import RegistrationIntake
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.guarded_store import LogGuardedStore
from svc.authority.state.recorder import Recorder
from svc.authority.state.unsigned import UnsignedRows
from svc.authority.state.write_probe import WRITES, StoreWrites
from svc.compose.authority.checkpoints import AUDIT, CheckpointWiring, audit_heads
from svc.compose.authority.ingest import AuditQueue, audit_queue
from svc.compose.authority.lifecycle import (
    LEADER,
    LISTENERS,
    MEMBERSHIP,
    POLICY,
    STORE,
    AuthorityRole,
    Serves,
    Startup,
    StoreLifecycle,
    issuers_in_force,
    purposes_in_force,
    state_beginning,
    status_of,
)
from svc.compose.authority.listeners import ListenerGates, lanes_of, made_listeners
from svc.compose.authority.parts import (
    LeafRenewal,
    Parts,
    ServingState,
    load_cluster_keys,
    own_identity,
)
from svc.compose.authority.peers import advice_of, make_peers, owner_of
from svc.compose.authority.standby import Follower
from svc.compose.authority.state import origin_key
from svc.compose.authority.store import open_store
from svc.compose.authority.turns import LeaderGate, StoreReadiness
from svc.compose.budgets import authority_rates
from svc.compose.drop_ins import load_kinds
from svc.compose.listeners.rpc import RpcListener, control_listener, rpc_server
from svc.compose.telemetry import decisions_meter, identity_meters
from svc.config import RoleSettings
from svc.errors import SvcError
from svc.model.audit.events import check_catalogue
from svc.model.signing import Purpose
from svc.pki.audit_signatures import origin_verifier
from svc.pki.enroll import CertificateIssuer
from svc.pki.identity_store import IdentityStore
from svc.pki.renewal import RenewalLoop
from svc.policy.guard import PolicyGuard
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from svc.proto.gate.v1 import admin_pb2
from svc.runtime.context import Runtime
from svc.runtime.services import BackgroundTasks, PeriodicTask, Readiness
from svc.runtime.state_directory import StateDirectory
from svc.telemetry.metrics import Metrics


def make_authority(
    runtime: Runtime,
    settings: RoleSettings,
    metrics: Metrics,
    state: StateDirectory,
    stopped_by: Callable[[SvcError], object],
) -> AuthorityRole:
    """Wire an Authority; refuses at once what document 1 refuses at start.

    Blocks for keys, store and migrations; called before the reactor runs.

    Args:
        stopped_by: Told what is found only later, and ends the process.
    """
    kinds = load_kinds(settings.plugins.kinds)
    words = vocabulary(
        *(kind_terms(kind.request_kind, kind.terms) for kind in kinds.by_name.values())
    )
    check_catalogue(facts=words.terms.facts, actions=words.terms.actions)
    keys = load_cluster_keys(runtime, settings, state)
    desk = CertificateIssuer(
        keys, settings.identity.node_leaf_secs, settings.identity.person_leaf_secs
    )
    identity_store = IdentityStore(state.path, crash_point=runtime.crash_point)
    # First what may be refused, then what is written.
    opened = open_store(runtime, settings)
    identity = own_identity(runtime, settings, desk, identity_store)
    recorder = Recorder(
        identity.principal.id,
        Sealer(runtime.entropy, {fact.name: fact for fact in words.terms.facts}),
        runtime.now,
        runtime.entropy,
        StateLedger(origin_verifier(keys.root_der, settings.cluster)),
        origin_key(keys),
    )
    leadership = Leadership(
        opened.store,
        owner_of(settings, identity),
        runtime.entropy(8).hex(),
        runtime.reactor,
        not opened.is_shared,
        settings.store_lease_secs,
    )
    store = LogGuardedStore(FencedStore(opened.store, leadership.held))
    tasks = BackgroundTasks()
    keeper = StateKeeper(recorder.ledger, StateAnchor(state / "anchor"), tasks, _in_thread(runtime))
    parts = Parts(
        runtime,
        settings,
        metrics,
        state,
        keys,
        kinds,
        words,
        identity_store,
        identity,
        desk,
        opened,
        leadership,
        ServingState(leadership),
        store,
        recorder,
        keeper,
        tasks,
    )
    return _assembled(parts, stopped_by)


@define
class SharedServices:
    """What several services of an Authority share."""

    knowledge: ClusterStateCache
    registrations: Registrations
    publisher: SnapshotPublisher
    policy: PolicyInForce
    operators: Operators
    policies: PolicyAdmin
    ends: SessionEnds
    renewals: NodeRenewal
    rates: AskRates
    refusals: RefusalRecords
    unsigned: UnsignedRows
    issuers: IssuerRotation


def _assembled(p: Parts, stopped_by: Callable[[SvcError], object]) -> AuthorityRole:
    clock, rooms, listeners = p.runtime.reactor, _rooms(p), made_listeners(p)
    queue = audit_queue(p, rooms.knowledge, rooms.rates)
    ready = Readiness(STORE, *WRITES, MEMBERSHIP, LEADER, POLICY, LISTENERS, *AUDIT)
    role, writes = AuthorityRole(ready, listeners), _store_writes(p, ready)
    snapshot, follower = p.settings.snapshot, _follower(p, rooms, stopped_by)
    heads = audit_heads(p, role.ready, follower.begin_anew)
    queue.heads = heads.writer
    peers = make_peers(p, rooms.knowledge, role.ready, stopped_by)
    control = _control(p, rooms, listeners, queue, heads, writes)
    ListenerGates(p, peers, listeners).open(control, _enrollment(p, rooms), rooms.renewals)
    admin = _admin(p, rooms, control, role, queue)
    server = rpc_server(
        p.runtime,
        p.settings,
        [admin.service()],
        p.serving.guarded(rooms.operators.admit, advice=advice_of(p.settings)),
        plaintext=True,
        listener="state_dir",
    )
    listeners["control_socket"] = control_listener(p.runtime, p.settings, p.state.path, server)
    begin = Startup(
        p,
        role,
        rooms.knowledge,
        rooms.policy,
        rooms.policies,
        rooms.ends,
        rooms.publisher,
        stopped_by,
        rooms.unsigned,
        rooms.issuers,
    )
    turn = LeaderGate(
        p.leadership,
        heads.exchange,
        role.ready,
        listeners,
        stopped_by,
        follower.follow,
        snapshot.reload_secs,
        queue.own,
    )
    for service in (
        StoreLifecycle(p.opened.store, clock, _in_thread(p.runtime)),
        p.tasks,
        p.leadership,
        *peers.services,
        StoreReadiness(
            p.opened.store, p.leadership, ready, clock, peers.route.is_there, writes.look
        ),
        *_renewals(p, rooms.renewals, heads.writer),
        queue.watching,
        *heads.services(turn),
        p.keeper,
        begin,
        queue.drains,
        queue.draining,
        LastSummary(rooms.refusals),
        PeriodicTask(clock, snapshot.reload_secs, begin.reload, "reload pass", at_once=False),
        PeriodicTask(clock, snapshot.heartbeat_secs, begin.beat, "snapshot heartbeat"),
        PeriodicTask(
            clock, WINDOW_SECS, rooms.refusals.summarise, "refusals summary", at_once=False
        ),
        Serves(role, p.serving),
        *listeners.values(),
    ):
        role.addService(service)
    return role


def _enrollment(p: Parts, rooms: SharedServices) -> Enrollment:
    clock, now = p.runtime.reactor, p.runtime.now
    return Enrollment(p.desk, rooms.knowledge, p.store, p.recorder, now, clock, rooms.refusals)


def _follower(
    p: Parts, rooms: SharedServices, stopped_by: Callable[[SvcError], object]
) -> Follower:
    stored = p.metrics.gauge("svc_policy_version_stored")
    return Follower(
        state_beginning(p), rooms.knowledge, rooms.policy, rooms.issuers, stored.set, stopped_by
    )


def _rooms(p: Parts) -> SharedServices:
    clock, now, cluster = p.runtime.reactor, p.runtime.now, p.settings.cluster
    knowledge = ClusterStateCache(p.store, p.recorder.ledger, now, p.keeper.advanced)
    registrations = Registrations()
    publisher = SnapshotPublisher(
        cluster,
        p.keys.signer(Purpose.SNAPSHOT),
        now,
        int(p.settings.snapshot.valid_secs),
        p.leadership.epoch,
    )
    applied = p.metrics.gauge("svc_policy_version_applied")
    publishing = PolicyPublisher(cluster, publisher, _in_thread(p.runtime), applied.set)
    guard = PolicyGuard(clock)
    policy = PolicyInForce(
        cluster,
        p.words,
        p.kinds.by_name,
        lambda text: guard.check(text, p.words),
        _in_thread(p.runtime),
        publishing.policy_changed,
    )
    knowledge.on_change(publishing.facts_changed)
    knowledge.on_change(registrations.follow)
    knowledge.on_change(ChangeFollower(policy, knowledge, p.tasks).changed)
    operators = Operators(cluster, os.geteuid(), _engine_of(policy), p.store, p.recorder, now)
    policies = PolicyAdmin(knowledge, policy, operators, p.store, p.recorder, now)
    ends = SessionEnds(p.store, p.recorder, clock, now, p.tasks, p.settings.session.reclaim_secs)
    rates = authority_rates(p.runtime, p.settings.limits, p.metrics)
    renewals = NodeRenewal(
        p.desk,
        knowledge,
        p.identity.verifier,
        p.store,
        p.recorder,
        now,
        lambda node_id: registrations.evict(node_id, "cloned_node"),
        rates.renewals,
    )
    return SharedServices(
        knowledge,
        registrations,
        publisher,
        policy,
        operators,
        policies,
        ends,
        renewals,
        rates,
        RefusalRecords(p.store, p.recorder, clock, now, rates.refusals.tally),
        UnsignedRows(p.store, p.recorder, p.metrics.gauge("svc_state_unsigned").set),
        issuers_in_force(p, knowledge),
    )


def _control(
    p: Parts,
    rooms: SharedServices,
    listeners: dict[str, RpcListener],
    queue: AuditQueue,
    heads: CheckpointWiring,
    writes: StoreWrites,
) -> ControlService:
    clock, now, entropy = p.runtime.reactor, p.runtime.now, p.runtime.entropy
    cluster, verifier, kinds = p.settings.cluster, p.identity.verifier, p.kinds.by_name
    engine = _engine_of(rooms.policy)

    def may_grant() -> None:
        writes.require_room()
        heads.writer.require_signing()

    issuance = Issuance(
        cluster,
        rooms.knowledge,
        engine,
        rooms.registrations,
        kinds,
        p.store,
        p.recorder,
        verifier,
        p.keys.signer(Purpose.GRANT),
        clock,
        now,
        entropy,
        decisions_meter(p.metrics),
        rooms.rates,
        rooms.refusals,
        p.runtime.traces.note,
        may_grant=may_grant,
    )
    intake = RegistrationIntake(
        cluster,
        rooms.knowledge,
        rooms.registrations,
        p.store,
        p.recorder,
        verifier,
        clock,
        now,
        entropy,
        int(p.settings.tunnel.lease_secs),
        p.tasks,
        rooms.rates,
        rooms.refusals,
    )
    explainer = Explainer(cluster, rooms.knowledge, engine, kinds, p.store, verifier, now)

    async def seen(node_id: str, version: str) -> None:
        await p.store.run("node seen", lambda tx: tx.nodes.seen(node_id, now(), version))

    return ControlService(
        rooms.knowledge,
        verifier,
        issuance,
        intake,
        rooms.ends,
        rooms.publisher,
        explainer,
        lambda: lanes_of(p, listeners),
        clock,
        seen,
        rooms.rates,
        queue.intake,
        heads.told,
    )


def _admin(
    p: Parts, rooms: SharedServices, control: ControlService, role: AuthorityRole, queue: AuditQueue
) -> AdminService:
    members = MemberAdmin(
        rooms.knowledge,
        rooms.registrations,
        p.store,
        p.recorder,
        p.runtime.now,
        p.runtime.entropy,
        p.keys.ca_pin,
        p.settings.identity.join_token_secs,
        rooms.ends.revoked,
    )
    catalog = CatalogAdmin(
        rooms.knowledge, rooms.registrations, p.kinds.by_name, p.store, p.recorder, p.runtime.now
    )

    async def status() -> admin_pb2.StatusResponse:
        return await status_of(
            p,
            rooms.knowledge,
            rooms.policy,
            rooms.registrations,
            control,
            role,
            rooms.unsigned,
            queue.watch.counts,
        )

    return AdminService(rooms.operators, members, catalog, rooms.policies, queue.desk, status)


def _store_writes(p: Parts, ready: Readiness) -> StoreWrites:
    me, now = p.identity.principal.id, p.runtime.now

    async def write() -> None:
        """What harms nobody: this Authority, in its registry, is alive."""
        if p.serving.is_on:
            await p.store.run("alive", lambda tx: tx.nodes.seen(me, now(), __version__))

    writes = StoreWrites(write, p.runtime.reactor, ready)
    p.store.full = writes.found
    return writes


def _engine_of(policy: PolicyInForce) -> Callable[[], Any]:
    return lambda: policy.engine


def _in_thread(runtime: Runtime) -> Callable[[Callable[[], object]], Awaitable[object]]:
    pool = runtime.reactor.getThreadPool
    return lambda call: deferToThreadPool(runtime.reactor, pool(), call)


def _renewals(
    p: Parts, renewals: NodeRenewal, heads: HeadWriter
) -> tuple[RenewalLoop, PeriodicTask]:
    """Of our own leaf, and of the keys that we sign with."""
    own = LeafRenewal(p.identity, p.desk, p.serving, renewals.renew)
    leaf = RenewalLoop(
        p.identity,
        p.identity_store,
        own.renew,
        clock=p.runtime.reactor,
        now=p.runtime.now,
        entropy=p.runtime.entropy,
        told=identity_meters(p.metrics, "authority", p.identity.seconds_left),
    )
    every = p.settings.snapshot.reload_secs
    keys = purposes_in_force(p, heads)
    return leaf, PeriodicTask(p.runtime.reactor, every, keys.follow, "keys that end")
