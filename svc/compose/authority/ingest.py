"""The audit queue of an Authority: what takes rows in, drains them, watches and releases them."""

from __future__ import annotations

from attrs import define

from svc.audit.checkpoint.signer import HeadWriter
from svc.audit.ingest.requests import GatedKind
from svc.audit.ingest.validate import MAY_WRITE, may_write_with
from svc.audit.spool.rows import RowMaker
from svc.authority.ingest.admin import QueueAdmin
from svc.authority.ingest.drain import DRAIN_SECS, FinalQueuePass, QueueConsumer
from svc.authority.ingest.origins import OriginKeys
from svc.authority.ingest.own import OwnSpool
from svc.authority.ingest.queue import QueueIntake
from svc.authority.ingest.signatures import SignaturesApart
from svc.authority.ingest.watch import WATCH_SECS, QueueMeters, QueueWatch
from svc.authority.sessions.sampled import at_random
from svc.compose.authority.parts import Parts
from svc.compose.authority.shared import SharedServices
from svc.model.audit.outbox import Hold
from svc.model.ids import DrawnAhead
from svc.runtime.apart import WorkApart
from svc.runtime.services import PeriodicTask
from svc.runtime.threads import in_pool


@define
class AuditQueue:
    """Everything of one Authority that has to do with the queue."""

    final_pass: FinalQueuePass
    watch: QueueWatch
    admin: QueueAdmin
    intake: QueueIntake
    own: OwnSpool
    watching: PeriodicTask
    draining: PeriodicTask


def audit_queue(p: Parts, rooms: SharedServices, heads: HeadWriter) -> AuditQueue:
    """Wire it.

    Args:
        heads: Tells what a signed head covers.
    """
    clock, now = p.runtime.reactor, p.runtime.now
    counters = {
        one.value: p.metrics.counter("svc_audit_outbox_held_total", reason=one.value)
        for one in Hold
    }
    keys = OriginKeys(rooms.state_cache)
    gated = [kind for kind in p.kinds.by_name.values() if not kind.opaque]
    events = [event for kind in gated for event in kind.events.values()]
    known = {one.name: GatedKind(one.terms.entity_type, one.terms.actions) for one in gated}
    may_write = may_write_with(events, known) if gated else MAY_WRITE
    final_pass = FinalQueuePass(
        QueueConsumer(
            store=p.store,
            recorder=p.recorder,
            keys=keys,
            now=now,
            held=lambda reason: counters[reason].inc(),
            may_write=may_write,
            recorded=rooms.gated.recorded,
            pick=at_random(DrawnAhead(p.runtime.entropy, 1)),
            decide_again=rooms.sampled.decide_again,
            in_thread=in_pool(clock),
            signatures=SignaturesApart(WorkApart(reactor=clock, clock=clock), clock.seconds),
        ),
        p.tasks,
    )
    meters = QueueMeters(
        depth=p.metrics.gauge("svc_audit_outbox_depth").set,
        held=p.metrics.gauge("svc_audit_outbox_held").set,
        oldest_age=p.metrics.gauge("svc_audit_outbox_oldest_age_secs").set,
        missing=p.metrics.counter("svc_audit_outbox_missing_total").inc,
    )
    # Every instance watches, whoever leads; so past the lease.
    watch = QueueWatch(p.opened.store, now, meters)
    maker = RowMaker(
        origin=p.identity.principal.id,
        key=p.identity_store.audit_key(),
        sealer=p.recorder.sealer,
        now=now,
        entropy=p.runtime.entropy,
    )

    def covered() -> int:
        newest = heads.newest
        return 0 if newest is None else newest.head.tree_size

    return AuditQueue(
        final_pass=final_pass,
        watch=watch,
        admin=QueueAdmin(store=p.store, recorder=p.recorder, now=now, may_write=may_write),
        intake=QueueIntake(
            store=p.store, now=now, covered=covered, arrived=final_pass.arrived, rates=rooms.rates
        ),
        own=OwnSpool(p.opened.store, maker),
        watching=PeriodicTask(
            clock=clock, interval=WATCH_SECS, call=watch.watch, what="watch over the audit queue"
        ),
        draining=PeriodicTask(
            clock=clock, interval=DRAIN_SECS, call=final_pass.turn, what="drain of the audit queue"
        ),
    )
