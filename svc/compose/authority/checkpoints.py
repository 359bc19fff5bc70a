"""An Authority's signed heads, wired: signed, kept, told, and the store watched by them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, frozen
from twisted.application.service import IService
from twisted.internet.threads import deferToThreadPool
from twisted.web.client import Agent
from zope.interface import implementer

from svc.audit.checkpoint.anchor import AnchorDirectory, AnchorUnreadable
from svc.audit.checkpoint.exchange import HeadExchange
from svc.audit.checkpoint.latest import GREATEST
from svc.audit.checkpoint.monitor import LOOK_SECS, LogWatch, RolledBack
from svc.audit.checkpoint.signer import KEY_REFUSALS, HeadsUnsigned, HeadWriter, shared_by_nobody
from svc.audit.checkpoint.witness import FileSink, Witness
from svc.audit.checkpoint.witness_http import HttpSink
from svc.audit.checkpoint.writer_position import ForeignRecord
from svc.authority.ha.lease import FencedStore
from svc.authority.ingest.heads import HeadsToTell
from svc.authority.state.guarded_store import StoredChain
from svc.authority.state.rewind import WISH, RestoreCheck, RestoreConfirmation, restore_wish_file
from svc.compose.authority.parts import Parts
from svc.compose.authority.state import anchor_key
from svc.compose.heads import greatest_head
from svc.errors import AuditBroken, LeaseLost, RecordLost
from svc.interfaces.audit import HeadVerifier, IChain, IHeadSource
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainHead, ChainRow
from svc.model.audit.record import SignedHead
from svc.ops.store import StorePlace, store_place
from svc.pki.audit_signatures import head_verifier
from svc.runtime.services import AsyncService, Readiness
from svc.runtime.threads import SerialThread

AUDIT = (
    RolledBack.reason,
    ForeignRecord.reason,
    AuditBroken.reason,
    RecordLost.reason,
    AnchorUnreadable.reason,
    HeadsUnsigned.reason,
)
"""The conditions of readiness, as the words by which what is amiss is known."""


_CONNECT_SECS = 5.0

InThread = Callable[[Callable[[], object]], Awaitable[object]]


@implementer(IChain)
@frozen
class PlaceChain:
    """The rows of a store in a file, as whoever opens the file now sees them.

    What we hold open may be a file that was moved away meanwhile.
    """

    place: StorePlace
    in_thread: InThread

    async def head(self) -> ChainHead:
        found: list[ChainHead] = []
        await self.in_thread(
            lambda: found.append(self.place.look("audit head", lambda tx: tx.audit.head()))
        )
        return found[0]

    async def rows(self, from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        found: list[tuple[ChainRow, ...]] = []
        await self.in_thread(
            lambda: found.append(
                self.place.look("audit rows", lambda tx: tx.audit.rows(from_seq, limit))
            )
        )
        return found[0]


@define
class CheckpointWiring:
    """What an Authority does with signed heads."""

    exchange: HeadExchange | None
    told: HeadsToTell
    watch: LogWatch
    writer: HeadWriter
    restoring: RestoreCheck
    loading: CheckpointLoader
    witnesses: tuple[Witness, ...]

    def services(self, turn: IService) -> tuple[IService, ...]:
        """In the order of their start; all but two come once it is our *turn* to write."""
        signing = (*self.witnesses, self.writer, RestoreConfirmation(self.restoring))
        return (self.loading, self.watch, turn, self.restoring, *signing)


@define(slots=False, eq=False)
class CheckpointLoader(AsyncService):
    """Comes before the watch begins to look."""

    keeper: AnchorDirectory
    told: HeadsToTell

    async def start(self) -> None:
        """Read which lines of the log were given up on purpose."""
        self.told.load(self.keeper.restored())


def audit_heads(p: Parts, ready: Readiness, began_anew: Callable[[], object]) -> CheckpointWiring:
    """Wire them; nothing is read before the services start.

    Args:
        began_anew: Told when the leader went on from an older store.
    """
    keeper = AnchorDirectory(p.state / "anchor")
    judge = head_verifier(p.keys.root_der, p.settings.cluster)
    exchange = _exchange(p, keeper, judge)
    watch = _watch(p, keeper, judge, exchange, ready)
    told = HeadsToTell(watch.hear)
    watch.restorations = told.restorations
    if exchange is not None:

        def went_on(head: SignedHead) -> None:
            told.signed(head)
            # It may name records of the lost line; without it every record is verified again.
            p.keeper.begin_anew()
            began_anew()

        exchange.is_given_up, exchange.went_on = watch.is_given_up, went_on
    sinks = head_sinks(p.runtime.reactor, p.settings.audit.witness)
    witnesses = tuple(Witness(sink, p.runtime.reactor) for sink in sinks)
    watch.sources = tuple(sink for sink in sinks if IHeadSource.providedBy(sink))

    def signed(head: SignedHead) -> None:
        told.signed(head)
        for witness in witnesses:
            witness.signed(head)

    def unsigned(failed: Exception | None) -> None:
        if isinstance(failed, AuditBroken) and failed.reason not in KEY_REFUSALS:
            watch.found(failed)
        (ready.met if failed is None else ready.lost)(HeadsUnsigned.reason)

    writer = _writer(p, keeper, judge, exchange, watch, signed)
    writer.unsigned = unsigned
    p.store.committed, p.store.watch = writer.appended, watch
    watch.appended, watch.verify, watch.keeps = writer.appended, writer.verify, _keeps(p)
    restoring = RestoreCheck(
        store=FencedStore(p.opened.store, p.leadership.held),
        chain=watch.chain,
        recorder=p.recorder,
        file=restore_wish_file(p.state / "anchor" / WISH),
        keeper=keeper,
        state=p.keeper.anchor,
        watch=watch,
        heads=writer,
        exchange=exchange,
        now=p.runtime.now,
        run_blocking=_in_thread(p),
    )
    return CheckpointWiring(
        exchange=exchange,
        told=told,
        watch=watch,
        writer=writer,
        restoring=restoring,
        loading=CheckpointLoader(keeper, told),
        witnesses=witnesses,
    )


def _exchange(p: Parts, keeper: AnchorDirectory, judge: HeadVerifier) -> HeadExchange | None:
    if not p.opened.is_shared:
        return None
    cluster = p.settings.cluster
    return HeadExchange(
        store=p.store,
        keeper=keeper,
        verify_head=judge,
        cluster=cluster,
        log_id=cluster,
        run_blocking=_in_thread(p),
        unfenced=p.opened.store,
    )


def _watch(
    p: Parts,
    keeper: AnchorDirectory,
    judge: HeadVerifier,
    exchange: HeadExchange | None,
    ready: Readiness,
) -> LogWatch:
    cluster, in_thread = p.settings.cluster, _in_thread(p)
    is_shared = p.opened.is_shared
    chain: IChain = StoredChain(p.opened.store)
    if not is_shared:
        chain = PlaceChain(store_place(p.settings), in_thread)

    def told(fault: AuditBroken | None) -> None:
        for each in AUDIT[:-1]:
            (ready.lost if fault is not None and fault.reason == each else ready.met)(each)
        if fault is not None and exchange is not None and p.leadership.lease is None:
            # Whoever writes is to know of what its store lacks.
            p.tasks.spawn("show an audit head", exchange.warn())

    reactor, path = p.runtime.reactor, p.state / "anchor" / GREATEST
    greatest = greatest_head(reactor, path, p.keys.root_der, cluster)
    watch = LogWatch(
        chain=chain,
        keeper=keeper,
        greatest=greatest,
        judge=judge,
        clock=reactor,
        run_blocking=in_thread,
        told=told,
        heals=is_shared,
        every=min(LOOK_SECS, p.settings.snapshot.reload_secs),
        led_end=_led_end(p),
    )
    if exchange is not None:
        watch.others = exchange.greater
    for each in AUDIT:
        ready.met(each)
    return watch


class _Undone(Exception):
    """Ends a transaction that is to leave nothing."""


def _keeps(p: Parts) -> Callable[[], Awaitable[None]]:
    """Whether the store keeps a record that is written to it; what is tried is undone."""

    def write(tx: ITransaction) -> None:
        written = tx.audit.append(b"{}")
        if tx.audit.rows(written.seq, 2) != (written,):
            raise RecordLost.at(written.seq)
        raise _Undone

    async def keeps() -> None:
        if p.leadership.lease is not None:
            with suppress(_Undone):
                await p.opened.store.run("see whether a record is kept", write)

    return keeps


def _led_end(p: Parts) -> Callable[[], Awaitable[ChainHead | None]]:
    """Where the log ends, as one snapshot shows it in which the lease is ours."""

    async def end() -> ChainHead | None:
        lease = p.leadership.lease
        if lease is None:
            return None

        def look(tx: ITransaction) -> ChainHead | None:
            with suppress(LeaseLost):
                tx.lease.require(lease)
                return tx.audit.head()
            return None

        return await p.opened.store.read("the end of the log", look)

    return end


def _writer(
    p: Parts,
    keeper: AnchorDirectory,
    judge: HeadVerifier,
    exchange: HeadExchange | None,
    watch: LogWatch,
    told: Callable[[SignedHead], object],
) -> HeadWriter:
    return HeadWriter(
        chain=StoredChain(p.store),
        keeper=keeper,
        key=anchor_key(p.keys),
        verify_head=judge,
        cluster=p.settings.cluster,
        log_id=p.settings.cluster,
        leader=p.identity.principal.id,
        clock=p.runtime.reactor,
        now=p.runtime.now,
        tasks=p.tasks,
        lease_epoch=p.leadership.epoch,
        run_blocking=_in_thread(p),
        share=shared_by_nobody if exchange is None else exchange.share,
        told=told,
        ours=lambda: watch.own.to_sign,
        took_over=watch.own.take_over,
        every=p.settings.audit.head_every_records,
        after=p.settings.audit.head_after_secs,
    )


def _in_thread(p: Parts) -> InThread:
    reactor = p.runtime.reactor
    return lambda call: deferToThreadPool(reactor, reactor.getThreadPool(), call)


def head_sinks(reactor: Any, urls: Iterable[str]) -> tuple[Any, ...]:
    """Where ``audit.witness`` says that heads are copied to; each provides ``IHeadSink``."""
    return tuple(_sink(reactor, url) for url in urls)


def _sink(reactor: Any, url: str) -> object:
    scheme, _, rest = url.partition("://")
    if scheme == "file":
        # Not in the pool of all: a file on a silent host would take one thread after another.
        own = SerialThread("witness", reactor.callFromThread)
        return FileSink(Path(rest), own, own.end)
    return HttpSink(url, Agent(reactor, connectTimeout=_CONNECT_SECS))
