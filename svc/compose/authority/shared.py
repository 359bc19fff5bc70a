"""What several services of an Authority share: the state, the policy, the limits."""

from __future__ import annotations

import os
from functools import partial

from attrs import define

from svc.authority.enroll.bootstrap import Enrollment
from svc.authority.enroll.renew import NodeRenewal
from svc.authority.limits import AskRates
from svc.authority.policy.active import PolicyInForce
from svc.authority.policy.admin import FIRST_POLICY
from svc.authority.policy.check import PolicyCheck
from svc.authority.policy.past_reasons import PolicyReasons
from svc.authority.policy.publish import PolicyPublisher
from svc.authority.policy.recent import RecentEngines
from svc.authority.policy.reload import ChangeFollower
from svc.authority.policy.snapshot import SnapshotPublisher
from svc.authority.refusals import RefusalRecords
from svc.authority.registry.ends import TunnelEndRecords
from svc.authority.registry.operators import Operators
from svc.authority.registry.peers import PeerProxies
from svc.authority.sessions.checkpoints import SWEEP_SECS, GatedSessions
from svc.authority.sessions.end import SessionEnds
from svc.authority.sessions.sampled import SampledAllows
from svc.authority.sessions.trust import ProxyTrust
from svc.authority.signin.attempts import Attempts
from svc.authority.signin.service import SignInService
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.unsigned import UnsignedRows
from svc.authority.state.writer import StateWriter
from svc.compose.authority.access import AccessWiring, access_wiring, approved_requests
from svc.compose.authority.accounts import AccountRooms, account_rooms
from svc.compose.authority.discovery import DiscoveryWiring, discovery_wiring
from svc.compose.authority.identities import IdentityWiring, session_identities
from svc.compose.authority.keys import KeyWiring, key_wiring
from svc.compose.authority.lifecycle import each_of
from svc.compose.authority.parts import (
    Parts,
    engine_of,
)
from svc.compose.authority.policy import PolicyChanging, bundle_room, policy_changing
from svc.compose.authority.recordings import RecordingWiring, recording_wiring
from svc.compose.authority.sign_in import forgetting, sign_in_entrance, sign_in_service
from svc.compose.budgets import authority_rates
from svc.model.signing import Purpose
from svc.policy.engine import CompiledPolicy
from svc.policy.guard import PolicyGuard
from svc.runtime.services import PeriodicTask
from svc.runtime.threads import in_pool

KEY_SET_PATH = b"/jwks.json"
"""The keys that targets check tokens by, on the telemetry listener."""


@define
class SharedServices:
    """What several services of an Authority share."""

    state_cache: ClusterStateCache
    writer: StateWriter
    peers: PeerProxies
    discovery: DiscoveryWiring
    tunnel_ends: TunnelEndRecords
    publisher: SnapshotPublisher
    policy: PolicyInForce
    reasons: PolicyReasons
    operators: Operators
    changing: PolicyChanging
    checks: PolicyCheck
    ends: SessionEnds
    access: AccessWiring
    gated: GatedSessions
    sampled: SampledAllows
    sweeping: PeriodicTask
    forgetting: PeriodicTask
    enrollment: Enrollment
    sign_ins: SignInService
    accounts: AccountRooms
    renewals: NodeRenewal
    identities: IdentityWiring
    recordings: RecordingWiring
    rates: AskRates
    refusals: RefusalRecords
    unsigned: UnsignedRows
    keys: KeyWiring


def shared_services(p: Parts) -> SharedServices:
    """Wire it."""
    clock, now, cluster = p.runtime.reactor, p.runtime.now, p.settings.cluster
    state_cache = ClusterStateCache(
        store=p.store, ledger=p.recorder.ledger, now=now, advanced=p.keeper.advanced
    )
    writer = StateWriter(
        cache=state_cache,
        store=p.store,
        recorder=p.recorder,
        now=now,
        entropy=p.runtime.entropy,
    )
    peers = PeerProxies()
    registrations = peers.registrations
    ends = SessionEnds(
        store=p.store,
        recorder=p.recorder,
        clock=clock,
        now=now,
        tasks=p.tasks,
        reclaim_secs=p.settings.session.reclaim_secs,
    )
    publisher = SnapshotPublisher(
        cluster=cluster,
        sign=p.keys.signer(Purpose.SNAPSHOT),
        now=now,
        valid_secs=int(p.settings.snapshot.valid_secs),
        epoch=p.leadership.epoch,
        asked_ends=lambda: ends.asked,
    )
    applied = p.metrics.gauge("svc_policy_version_applied")
    publishing = PolicyPublisher(
        cluster=cluster,
        publisher=publisher,
        in_thread=in_pool(p.runtime.reactor),
        applied=applied.set,
    )
    recent = RecentEngines(now)

    async def in_force(engine: CompiledPolicy, text: str) -> None:
        # First: a Proxy may decide by it as soon as it is published.
        recent.came(engine)
        await publishing.policy_changed(engine, text)

    guard = PolicyGuard(clock, own=(FIRST_POLICY,))
    policy = PolicyInForce(
        cluster=cluster,
        vocabulary=p.words,
        kinds=p.kinds.by_name,
        guard=lambda text: guard.check(text, p.words),
        in_thread=in_pool(p.runtime.reactor),
        in_force=in_force,
    )
    state_cache.on_change(publishing.facts_changed)
    state_cache.on_change(registrations.follow)
    state_cache.on_change(ChangeFollower(policy, state_cache, p.tasks).changed)
    rates = authority_rates(p.runtime, p.settings.limits, p.metrics)
    refusals = RefusalRecords(
        store=p.store,
        recorder=p.recorder,
        clock=clock,
        now=now,
        refusal_counter=rates.refusals.refusal_counter,
    )
    changing = policy_changing(p, state_cache, policy, refusals)
    room = bundle_room(p, state_cache, publishing)
    operators = Operators(
        cluster=cluster,
        own_uid=os.geteuid(),
        engine=engine_of(policy),
        verifier=p.identity.verifier,
        state_cache=state_cache,
        store=p.store,
        recorder=p.recorder,
        refusals=refusals,
        now=now,
        rules=changing.rules,
    )
    checks = PolicyCheck(
        cluster=cluster,
        vocabulary=p.words,
        kinds=p.kinds.by_name,
        refresh=state_cache.refresh,
        lock_out=changing.lock_out,
        ask=partial(guard.ask, vocabulary=p.words),
        in_thread=in_pool(p.runtime.reactor),
        now=now,
    )
    approvals = approved_requests(p, state_cache, policy)
    gated = GatedSessions(
        cluster=cluster,
        state_cache=state_cache,
        engine=engine_of(policy),
        kinds=p.kinds.by_name,
        store=p.store,
        verifier=p.identity.verifier,
        sign_extension=p.keys.signer(Purpose.GRANT_EXTENSION),
        now=now,
        trust=ProxyTrust(p.store, p.recorder, now),
        instances=registrations.instances,
        stands_on=approvals.of_grant,
        asked_ends=lambda: ends.asked,
    )
    renewals = NodeRenewal(
        issuer=p.issuer,
        state_cache=state_cache,
        verifier=p.identity.verifier,
        store=p.store,
        recorder=p.recorder,
        now=now,
        revoked=lambda node_id: registrations.evict(node_id, "cloned_node"),
        renewals=rates.renewals,
    )
    sampled = SampledAllows(recent, gated, approvals.facts_of)
    recordings = recording_wiring(p, state_cache, rates)
    enrollment = Enrollment(
        issuer=p.issuer,
        state_cache=state_cache,
        store=p.store,
        recorder=p.recorder,
        now=now,
        clock=clock,
        refusals=refusals,
    )
    entrance = sign_in_entrance(p, state_cache, refusals)
    attempts = Attempts(p.runtime.reactor, p.runtime.entropy)
    accounts = account_rooms(p, writer, entrance, attempts, rights=changing.rights)
    sign_ins = sign_in_service(p, entrance, attempts, accounts.sign_ins.confirmed)
    return SharedServices(
        state_cache=state_cache,
        writer=writer,
        peers=peers,
        discovery=discovery_wiring(p, state_cache, writer, rates, room.left_for),
        tunnel_ends=TunnelEndRecords(
            store=p.store, recorder=p.recorder, clock=clock, tasks=p.tasks
        ),
        publisher=publisher,
        policy=policy,
        reasons=PolicyReasons(state_cache=state_cache, engine=engine_of(policy), store=p.store),
        operators=operators,
        changing=changing,
        checks=checks,
        ends=ends,
        access=access_wiring(p, state_cache, policy, rates, approvals),
        gated=gated,
        sampled=sampled,
        sweeping=PeriodicTask(
            clock=clock,
            interval=SWEEP_SECS,
            call=partial(each_of, sampled.decide_waiting, gated.sweep),
            what="look for gated sessions without a last checkpoint",
            at_once=False,
        ),
        enrollment=enrollment,
        sign_ins=sign_ins,
        forgetting=forgetting(sign_ins, clock),
        accounts=accounts,
        renewals=renewals,
        identities=session_identities(p, state_cache, policy, refusals, rates),
        recordings=recordings,
        rates=rates,
        refusals=refusals,
        unsigned=UnsignedRows(p.store, p.recorder, p.metrics.gauge("svc_state_unsigned").set),
        keys=key_wiring(p, state_cache, writer, lambda: recordings.keys.keys),
    )
