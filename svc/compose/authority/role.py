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
    words = vocabulary(*(kind_terms(kind.terms) for kind in kinds.by_name.values()))
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
        origin=identity.principal.id,
        sealer=Sealer(runtime.entropy, {fact.name: fact for fact in words.terms.facts}),
        now=runtime.now,
        entropy=runtime.entropy,
        ledger=StateLedger(origin_verifier(keys.root_der, settings.cluster)),
        key=origin_key(keys),
    )
    leadership = Leadership(
        store=opened.store,
        owner=owner_of(settings, identity),
        instance=runtime.entropy(8).hex(),
        clock=runtime.reactor,
        alone=not opened.is_shared,
        term=settings.store_lease_secs,
    )
    store = LogGuardedStore(FencedStore(opened.store, leadership.held))
    tasks = BackgroundTasks()
    keeper = StateKeeper(
        ledger=recorder.ledger,
        anchor=StateAnchor(state / "anchor"),
        tasks=tasks,
        run_blocking=_in_thread(runtime),
    )
    parts = Parts(
        runtime=runtime,
        settings=settings,
        metrics=metrics,
        state=state,
        keys=keys,
        kinds=kinds,
        words=words,
        identity_store=identity_store,
        identity=identity,
        desk=desk,
        opened=opened,
        leadership=leadership,
        serving=ServingState(leadership),
        store=store,
        recorder=recorder,
        keeper=keeper,
        tasks=tasks,
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
        parts=p,
        role=role,
        knowledge=rooms.knowledge,
        policy=rooms.policy,
        policies=rooms.policies,
        ends=rooms.ends,
        publisher=rooms.publisher,
        stopped_by=stopped_by,
        unsigned=rooms.unsigned,
        issuers=rooms.issuers,
    )
    turn = LeaderGate(
        leadership=p.leadership,
        exchange=heads.exchange,
        ready=role.ready,
        listeners=listeners,
        stopped_by=stopped_by,
        follow=follower.follow,
        follow_secs=snapshot.reload_secs,
        own=queue.own,
    )
    for service in (
        StoreLifecycle(p.opened.store, clock, _in_thread(p.runtime)),
        p.tasks,
        p.leadership,
        *peers.services,
        StoreReadiness(
            store=p.opened.store,
            leadership=p.leadership,
            ready=ready,
            clock=clock,
            is_leader_there=peers.route.is_there,
            write=writes.look,
        ),
        *_renewals(p, rooms.renewals, heads.writer),
        queue.watching,
        *heads.services(turn),
        p.keeper,
        begin,
        queue.drains,
        queue.draining,
        LastSummary(rooms.refusals),
        PeriodicTask(
            clock=clock,
            interval=snapshot.reload_secs,
            call=begin.reload,
            what="reload pass",
            at_once=False,
        ),
        PeriodicTask(
            clock=clock,
            interval=snapshot.heartbeat_secs,
            call=begin.beat,
            what="snapshot heartbeat",
        ),
        PeriodicTask(
            clock=clock,
            interval=WINDOW_SECS,
            call=rooms.refusals.summarise,
            what="refusals summary",
            at_once=False,
        ),
        Serves(role, p.serving),
        *listeners.values(),
    ):
        role.addService(service)
    return role


def _enrollment(p: Parts, rooms: SharedServices) -> Enrollment:
    clock, now = p.runtime.reactor, p.runtime.now
    return Enrollment(
        desk=p.desk,
        knowledge=rooms.knowledge,
        store=p.store,
        recorder=p.recorder,
        now=now,
        clock=clock,
        refusals=rooms.refusals,
    )


def _follower(
    p: Parts, rooms: SharedServices, stopped_by: Callable[[SvcError], object]
) -> Follower:
    stored = p.metrics.gauge("svc_policy_version_stored")
    return Follower(
        beginning=state_beginning(p),
        knowledge=rooms.knowledge,
        policy=rooms.policy,
        issuers=rooms.issuers,
        stored=stored.set,
        stopped_by=stopped_by,
    )


def _rooms(p: Parts) -> SharedServices:
    clock, now, cluster = p.runtime.reactor, p.runtime.now, p.settings.cluster
    knowledge = ClusterStateCache(
        store=p.store, ledger=p.recorder.ledger, now=now, advanced=p.keeper.advanced
    )
    registrations = Registrations()
    publisher = SnapshotPublisher(
        cluster=cluster,
        sign=p.keys.signer(Purpose.SNAPSHOT),
        now=now,
        valid_secs=int(p.settings.snapshot.valid_secs),
        epoch=p.leadership.epoch,
    )
    applied = p.metrics.gauge("svc_policy_version_applied")
    publishing = PolicyPublisher(
        cluster=cluster, publisher=publisher, in_thread=_in_thread(p.runtime), applied=applied.set
    )
    guard = PolicyGuard(clock)
    policy = PolicyInForce(
        cluster=cluster,
        vocabulary=p.words,
        kinds=p.kinds.by_name,
        guard=lambda text: guard.check(text, p.words),
        in_thread=_in_thread(p.runtime),
        in_force=publishing.policy_changed,
    )
    knowledge.on_change(publishing.facts_changed)
    knowledge.on_change(registrations.follow)
    knowledge.on_change(ChangeFollower(policy, knowledge, p.tasks).changed)
    operators = Operators(
        cluster=cluster,
        own_uid=os.geteuid(),
        engine=_engine_of(policy),
        store=p.store,
        recorder=p.recorder,
        now=now,
    )
    policies = PolicyAdmin(
        knowledge=knowledge,
        in_force=policy,
        operators=operators,
        store=p.store,
        recorder=p.recorder,
        now=now,
    )
    ends = SessionEnds(
        store=p.store,
        recorder=p.recorder,
        clock=clock,
        now=now,
        tasks=p.tasks,
        reclaim_secs=p.settings.session.reclaim_secs,
    )
    rates = authority_rates(p.runtime, p.settings.limits, p.metrics)
    renewals = NodeRenewal(
        desk=p.desk,
        knowledge=knowledge,
        verifier=p.identity.verifier,
        store=p.store,
        recorder=p.recorder,
        now=now,
        revoked=lambda node_id: registrations.evict(node_id, "cloned_node"),
        renewals=rates.renewals,
    )
    return SharedServices(
        knowledge=knowledge,
        registrations=registrations,
        publisher=publisher,
        policy=policy,
        operators=operators,
        policies=policies,
        ends=ends,
        renewals=renewals,
        rates=rates,
        refusals=RefusalRecords(
            store=p.store, recorder=p.recorder, clock=clock, now=now, tally=rates.refusals.tally
        ),
        unsigned=UnsignedRows(p.store, p.recorder, p.metrics.gauge("svc_state_unsigned").set),
        issuers=issuers_in_force(p, knowledge),
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
        cluster=cluster,
        knowledge=rooms.knowledge,
        engine=engine,
        registrations=rooms.registrations,
        kinds=kinds,
        store=p.store,
        recorder=p.recorder,
        verifier=verifier,
        sign_grant=p.keys.signer(Purpose.GRANT),
        clock=clock,
        now=now,
        entropy=entropy,
        told=decisions_meter(p.metrics),
        rates=rooms.rates,
        refusals=rooms.refusals,
        note=p.runtime.traces.note,
        may_grant=may_grant,
        ended=rooms.ends.reported,
    )
    intake = RegistrationIntake(
        cluster=cluster,
        knowledge=rooms.knowledge,
        registrations=rooms.registrations,
        store=p.store,
        recorder=p.recorder,
        verifier=verifier,
        clock=clock,
        now=now,
        entropy=entropy,
        lease_secs=int(p.settings.tunnel.lease_secs),
        tasks=p.tasks,
        rates=rooms.rates,
        refusals=rooms.refusals,
    )
    explainer = Explainer(
        cluster=cluster,
        knowledge=rooms.knowledge,
        engine=engine,
        kinds=kinds,
        store=p.store,
        verifier=verifier,
        now=now,
    )

    async def seen(node_id: str, version: str) -> None:
        await p.store.run("node seen", lambda tx: tx.nodes.seen(node_id, now(), version))

    return ControlService(
        knowledge=rooms.knowledge,
        verifier=verifier,
        issuance=issuance,
        intake=intake,
        ends=rooms.ends,
        snapshots=rooms.publisher,
        explainer=explainer,
        lanes=lambda: lanes_of(p, listeners),
        clock=clock,
        seen=seen,
        rates=rooms.rates,
        spooled=queue.intake,
        heads=heads.told,
    )


def _admin(
    p: Parts, rooms: SharedServices, control: ControlService, role: AuthorityRole, queue: AuditQueue
) -> AdminService:
    members = MemberAdmin(
        knowledge=rooms.knowledge,
        registrations=rooms.registrations,
        store=p.store,
        recorder=p.recorder,
        now=p.runtime.now,
        entropy=p.runtime.entropy,
        ca_pin=p.keys.ca_pin,
        token_secs=p.settings.identity.join_token_secs,
        proxy_revoked=rooms.ends.revoked,
    )
    catalog = CatalogAdmin(
        knowledge=rooms.knowledge,
        registrations=rooms.registrations,
        kinds=p.kinds.by_name,
        store=p.store,
        recorder=p.recorder,
        now=p.runtime.now,
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

    return AdminService(
        operators=rooms.operators,
        members=members,
        catalog=catalog,
        policies=rooms.policies,
        outbox=queue.desk,
        status=status,
    )


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
    own = LeafRenewal(identity=p.identity, desk=p.desk, serving=p.serving, recorded=renewals.renew)
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
    return leaf, PeriodicTask(
        clock=p.runtime.reactor, interval=every, call=keys.follow, what="keys that end"
    )
