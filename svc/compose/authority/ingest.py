"""The audit queue of an Authority: what takes rows in, drains them, watches and releases them."""

from __future__ import annotations

from attrs import define, field

from svc.audit.checkpoint.signer import HeadWriter
from svc.audit.spool.rows import RowMaker
from svc.authority.ingest.admin import QueueAdmin
from svc.authority.ingest.drain import DRAIN_SECS, LastDrain, QueueConsumer
from svc.authority.ingest.origins import OriginKeys
from svc.authority.ingest.own import OwnSpool
from svc.authority.ingest.queue import QueueIntake
from svc.authority.ingest.watch import WATCH_SECS, QueueMeters, QueueWatch
from svc.authority.limits import AskRates
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.parts import Parts
from svc.model.audit.outbox import Hold
from svc.runtime.services import PeriodicTask


@define
class AuditQueue:
    """Everything of one Authority that has to do with the queue.

    Attributes:
        heads: Tells what a signed head covers; set once it is made.
    """

    drains: LastDrain
    watch: QueueWatch
    desk: QueueAdmin
    intake: QueueIntake
    own: OwnSpool
    watching: PeriodicTask
    draining: PeriodicTask
    heads: HeadWriter | None = field(default=None, init=False)


def audit_queue(p: Parts, knowledge: ClusterStateCache, rates: AskRates) -> AuditQueue:
    """Wire it."""
    clock, now = p.runtime.reactor, p.runtime.now
    counters = {
        one.value: p.metrics.counter("svc_audit_outbox_held_total", reason=one.value)
        for one in Hold
    }
    keys = OriginKeys(knowledge)
    drains = LastDrain(
        QueueConsumer(p.store, p.recorder, keys, now, lambda reason: counters[reason].inc()),
        p.tasks,
    )
    meters = QueueMeters(
        p.metrics.gauge("svc_audit_outbox_depth").set,
        p.metrics.gauge("svc_audit_outbox_held").set,
        p.metrics.gauge("svc_audit_outbox_oldest_age_secs").set,
        p.metrics.counter("svc_audit_outbox_missing_total").inc,
    )
    # Every instance watches, whoever leads; so past the lease.
    watch = QueueWatch(p.opened.store, now, meters)
    maker = RowMaker(
        p.identity.principal.id,
        p.identity_store.audit_key(),
        p.recorder.sealer,
        now,
        p.runtime.entropy,
    )
    queue: AuditQueue

    def covered() -> int:
        newest = None if queue.heads is None else queue.heads.newest
        return 0 if newest is None else newest.head.tree_size

    queue = AuditQueue(
        drains,
        watch,
        QueueAdmin(p.store, p.recorder, now),
        QueueIntake(p.store, now, covered, drains.arrived, rates),
        OwnSpool(p.opened.store, maker),
        PeriodicTask(clock, WATCH_SECS, watch.watch, "watch over the audit queue"),
        PeriodicTask(clock, DRAIN_SECS, drains.turn, "drain of the audit queue"),
    )
    return queue
