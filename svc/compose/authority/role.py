"""The Authority: keys, store, policy, listeners, and what runs beside them."""

from __future__ import annotations

from collections.abc import Callable

from svc.audit.log.record import Sealer
from svc.audit.state.anchor import StateAnchor, StateKeeper
from svc.audit.state.in_force import StateLedger
from svc.authority.ha.lease import Leadership
from svc.authority.refusals import WINDOW_SECS, FinalSummary
from svc.authority.state.recorder import Recorder
from svc.authority.state.write_probe import WRITES
from svc.compose.authority.admin import admin_service, standing_sessions
from svc.compose.authority.checkpoints import AUDIT, audit_heads
from svc.compose.authority.control import control_service
from svc.compose.authority.health import health_services
from svc.compose.authority.ingest import audit_queue
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
    state_beginning,
)
from svc.compose.authority.listeners import Administration, ListenerGates, made_listeners
from svc.compose.authority.page import page_listeners
from svc.compose.authority.parts import (
    Foundations,
    Parts,
    ServingState,
    load_cluster_keys,
    own_identity,
    own_receiver,
)
from svc.compose.authority.peers import advice_of, make_peers, owner_of
from svc.compose.authority.reload import reloads_of_authority
from svc.compose.authority.renewals import renewals
from svc.compose.authority.shared import KEY_SET_PATH, SharedServices, shared_services
from svc.compose.authority.standby import Follower
from svc.compose.authority.state import origin_key
from svc.compose.authority.store import open_store
from svc.compose.authority.turns import LeaderGate, StoreReadiness, store_writes
from svc.compose.drop_ins import check_records, load_kinds
from svc.compose.listeners.rpc import control_listener, rpc_server
from svc.compose.process_parts import ProcessParts
from svc.config import RoleSettings
from svc.errors import SvcError
from svc.model.audit.events import check_catalogue
from svc.pki.audit_signatures import origin_verifier
from svc.pki.enroll import CertificateIssuer
from svc.pki.identity_store import IdentityStore
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from svc.runtime.context import Runtime
from svc.runtime.services import BackgroundTasks, PeriodicTask, Readiness
from svc.runtime.state_directory import StateDirectory
from svc.runtime.threads import in_pool
from svc.telemetry.metrics import Metrics


def make_authority(
    runtime: Runtime,
    settings: RoleSettings,
    metrics: Metrics,
    state: StateDirectory,
    stopped_by: Callable[[SvcError], object],
    shared: ProcessParts,
) -> AuthorityRole:
    """Wire an Authority; refuses at once what it must not start with.

    Blocks for keys, store and migrations; called before the reactor runs.

    Args:
        stopped_by: Told what is found only later, and ends the process.
    """
    kinds = load_kinds(settings.plugins.kinds)
    words = vocabulary(*(kind_terms(kind.terms) for kind in kinds.by_name.values()))
    check_catalogue(facts=words.terms.facts, actions=words.terms.actions)
    keys = load_cluster_keys(runtime, settings, state)
    issuer = CertificateIssuer(
        keys, settings.identity.node_leaf_secs, settings.identity.person_leaf_secs
    )
    identity_store = IdentityStore(state.path, crash_point=runtime.crash_point)
    # First what may be refused, then what is written.
    opened = open_store(runtime, settings)
    identity = own_identity(runtime, settings, issuer, identity_store)
    recorder = Recorder(
        origin=identity.principal.id,
        sealer=Sealer(runtime.entropy, {fact.name: fact for fact in words.terms.facts}),
        now=runtime.now,
        entropy=runtime.entropy,
        ledger=StateLedger(origin_verifier(keys.root_der, settings.cluster)),
        key=origin_key(keys),
    )
    owner = owner_of(settings, identity)
    receiver = own_receiver(runtime, settings, state, owner, identity)
    leadership = Leadership(
        store=opened.store,
        owner=owner,
        instance=runtime.entropy(8).hex(),
        clock=runtime.reactor,
        alone=not opened.is_shared,
        term=settings.store_lease_secs,
    )
    tasks = BackgroundTasks()
    keeper = StateKeeper(
        ledger=recorder.ledger,
        anchor=StateAnchor(state / "anchor"),
        tasks=tasks,
        in_thread=in_pool(runtime.reactor),
    )
    foundations = Foundations(
        runtime=runtime,
        settings=settings,
        metrics=metrics,
        state=state,
        keys=keys,
        kinds=kinds,
        words=words,
        identity_store=identity_store,
        identity=identity,
        issuer=issuer,
        receiver=receiver,
        opened=opened,
        leadership=leadership,
        serving=ServingState(leadership),
        recorder=recorder,
        keeper=keeper,
        tasks=tasks,
        checks=check_records(settings),
    )
    return _assembled(foundations, stopped_by, shared)


def _assembled(
    f: Foundations, stopped_by: Callable[[SvcError], object], shared: ProcessParts
) -> AuthorityRole:
    ready = Readiness(STORE, *WRITES, MEMBERSHIP, LEADER, POLICY, LISTENERS, *AUDIT)
    heads = audit_heads(
        f,
        ready,
        began_again=lambda: follower.begin_again(),
        full=lambda fault: writes.found(fault),
    )
    p = f.with_store(heads.store)
    clock, rooms, listeners = p.runtime.reactor, shared_services(p), made_listeners(p)
    queue = audit_queue(p, rooms, heads.writer)
    documents = {KEY_SET_PATH: rooms.identities.token_keys.published}
    page, passkeys = page_listeners(p, rooms)
    role = AuthorityRole(
        ready=ready,
        listeners=listeners,
        documents=documents,
        page=page,
        sign_in=None if passkeys is None else passkeys.port,
    )
    writes = store_writes(p, ready)
    reloads_of_authority(p, rooms.rates, shared.reloads)
    snapshot, follower = p.settings.snapshot, _follower(p, rooms, stopped_by)
    peers = make_peers(p, rooms.state_cache, rooms.keys.roots, role.ready, stopped_by)
    control = control_service(p, rooms, listeners, queue, heads, writes)
    admin = admin_service(p, rooms, control, role, queue, peers.distribution.admin)
    commands = admin.service()
    ListenerGates(p, peers, listeners).open(
        control,
        rooms.enrollment,
        rooms.sign_ins,
        rooms.accounts.service,
        rooms.renewals,
        rooms,
        rooms.discovery.discovery,
        Administration(commands, rooms.operators.admit_person),
    )
    server = rpc_server(
        p.runtime,
        p.settings,
        [commands],
        p.serving.guarded(
            rooms.operators.admit,
            dict.fromkeys(peers.distribution.meanwhile, rooms.operators.admit_standing_by),
            advice_of(p.settings),
        ),
        plaintext=True,
        listener="state_dir",
    )
    listeners["control_socket"] = control_listener(p.runtime, p.settings, p.state.path, server)
    begin = Startup(
        parts=p,
        role=role,
        state_cache=rooms.state_cache,
        policy=rooms.policy,
        policies=rooms.changing.policies,
        ends=rooms.ends,
        end_tunnels=rooms.tunnel_ends.record_left,
        trust=rooms.gated.trust,
        publisher=rooms.publisher,
        stopped_by=stopped_by,
        unsigned=rooms.unsigned,
        keys=rooms.keys,
        register=peers.distribution.register,
        accounts=admin.accounts,
        standing=standing_sessions(p, rooms),
        requests=rooms.access.requests,
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
    reporting, writing_health = health_services(p, control.health, peers.route, shared.checks)
    for service in (
        StoreLifecycle(p.opened.store, clock, in_pool(p.runtime.reactor)),
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
        *renewals(p, rooms, heads.writer),
        peers.distribution.reporting,
        reporting,  # before what waits for our turn to lead: one that stands by reports, too
        queue.watching,
        *heads.services(turn),
        p.keeper,
        begin,
        rooms.discovery.start,
        rooms.discovery.passes,
        queue.final_pass,
        queue.draining,
        FinalSummary(rooms.refusals),
        rooms.tunnel_ends,
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
        rooms.sweeping,
        rooms.forgetting,
        rooms.recordings.expiring,
        writing_health,
        Serves(role, p.serving),
        *listeners.values(),
        *(() if page is None else (page,)),
        *(() if passkeys is None else (passkeys.port, passkeys.reading)),
    ):
        role.addService(service)
    return role


def _follower(
    p: Parts, rooms: SharedServices, stopped_by: Callable[[SvcError], object]
) -> Follower:
    stored = p.metrics.gauge("svc_policy_version_stored")
    return Follower(
        beginning=state_beginning(p),
        state_cache=rooms.state_cache,
        policy=rooms.policy,
        keys=rooms.keys,
        stored=stored.set,
        stopped_by=stopped_by,
    )
