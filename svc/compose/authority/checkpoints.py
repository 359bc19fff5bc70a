"""An Authority's signed heads, wired: signed, kept, told, and the store watched by them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import IService
from twisted.web.client import Agent
from zope.interface import implementer

from svc.audit.checkpoint.anchor import AnchorDirectory, AnchorUnreadable
from svc.audit.checkpoint.exchange import HeadExchange
from svc.audit.checkpoint.latest import GREATEST
from svc.audit.checkpoint.monitor import LOOK_SECS, LogWatch, RolledBack
from svc.audit.checkpoint.rewind import Restoration
from svc.audit.checkpoint.signer import KEY_REFUSALS, HeadsUnsigned, HeadWriter
from svc.audit.checkpoint.witness import FileSink, Witness
from svc.audit.checkpoint.witness_http import HttpSink
from svc.audit.checkpoint.writer_position import ForeignRecord
from svc.authority.ha.lease import FencedStore
from svc.authority.ingest.heads import HeadsToSend
from svc.authority.state.guarded_store import LogGuardedStore, StoredChain
from svc.authority.state.rewind import (
    RESTORE_REQUEST,
    RestoreCheck,
    RestoreConfirmation,
    restore_request_file,
)
from svc.compose.authority.parts import Foundations
from svc.compose.authority.state import anchor_key
from svc.compose.heads import latest_checkpoint
from svc.errors import AuditBroken, LeaseLost, RecordLost, StoreFull
from svc.interfaces.audit import HeadVerifier, IChain, IHeadSource
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainHead, ChainRow
from svc.model.audit.record import SignedHead
from svc.ops.store import StorePlace, store_place
from svc.pki.audit_signatures import head_verifier
from svc.runtime.services import AsyncService, Readiness
from svc.runtime.threads import InThread, SerialThread, in_pool

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


@implementer(IChain)
@frozen
class PlaceChain:
    """The rows of a store in a file, as whoever opens the file now sees them.

    What we hold open may be a file that was moved away meanwhile.
    """

    place: StorePlace
    in_thread: InThread

    async def head(self) -> ChainHead:
        return await self.in_thread(
            lambda: self.place.look("audit head", lambda tx: tx.audit.head())
        )

    async def rows(self, from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        return await self.in_thread(
            lambda: self.place.look("audit rows", lambda tx: tx.audit.rows(from_seq, limit))
        )


@define
class CheckpointWiring:
    """What an Authority does with signed heads, and the store that they guard."""

    store: LogGuardedStore
    exchange: HeadExchange | None
    heads_to_send: HeadsToSend
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
    heads_to_send: HeadsToSend

    async def start(self) -> None:
        """Read which lines of the log were given up on purpose."""
        self.heads_to_send.load(self.keeper.restored())


def audit_heads(
    f: Foundations,
    ready: Readiness,
    *,
    began_again: Callable[[], object],
    full: Callable[[StoreFull], object],
) -> CheckpointWiring:
    """Wire them, and the store that they guard; nothing is read before the services start.

    Args:
        began_again: Told when the leader went on from an older store.
        full: Told that the store has no room for what was to be written.
    """
    for each in AUDIT:
        ready.met(each)
    return _CheckpointAssembly(f, ready).wired(began_again, full)


@define
class _CheckpointAssembly:
    """Whoever signs heads, whoever watches the log and the store between them know one another."""

    f: Foundations
    ready: Readiness
    keeper: AnchorDirectory = field(init=False)
    verify_head: HeadVerifier = field(init=False)

    @keeper.default
    def _in_the_state_directory(self) -> AnchorDirectory:
        return AnchorDirectory(self.f.state / "anchor")

    @verify_head.default
    def _of_the_cluster(self) -> HeadVerifier:
        return head_verifier(self.f.keys.root_der, self.f.settings.cluster)

    def wired(
        self, began_again: Callable[[], object], full: Callable[[StoreFull], object]
    ) -> CheckpointWiring:
        """Everything, each part by its constructor; what comes later is called by its name."""
        f = self.f
        exchange: HeadExchange | None = None
        sinks = head_sinks(f.runtime.reactor, f.settings.audit.witness)
        witnesses = tuple(Witness(sink, f.runtime.reactor) for sink in sinks)
        heads_to_send = HeadsToSend(lambda line: watch.receive_head(line))
        watch = self._watch(
            sources=tuple(sink for sink in sinks if IHeadSource.providedBy(sink)),
            restorations=heads_to_send.restorations,
            writer=lambda: writer,
            exchange=lambda: exchange,
        )

        def signed(head: SignedHead) -> None:
            heads_to_send.signed(head)
            for witness in witnesses:
                witness.signed(head)

        async def share(head: SignedHead) -> None:
            if exchange is not None:
                await exchange.share(head)

        writer = self._writer(watch, share, signed)
        store = LogGuardedStore(
            store=f.opened.store,
            lease=f.leadership.held,
            watch=watch,
            position=watch.own,
            committed=writer.appended,
            full=full,
        )
        if f.opened.is_shared:

            def went_on(head: SignedHead) -> None:
                heads_to_send.signed(head)
                # It may name records of the lost line; without it every record is verified again.
                f.keeper.begin_again()
                began_again()

            exchange = self._exchange(store, watch, went_on)
        return CheckpointWiring(
            store=store,
            exchange=exchange,
            heads_to_send=heads_to_send,
            watch=watch,
            writer=writer,
            restoring=self._restoring(watch, writer, exchange),
            loading=CheckpointLoader(self.keeper, heads_to_send),
            witnesses=witnesses,
        )

    def _exchange(
        self, store: LogGuardedStore, watch: LogWatch, went_on: Callable[[SignedHead], object]
    ) -> HeadExchange:
        cluster = self.f.settings.cluster
        return HeadExchange(
            store=store,
            keeper=self.keeper,
            verify_head=self.verify_head,
            cluster=cluster,
            log_id=cluster,
            in_thread=in_pool(self.f.runtime.reactor),
            unfenced=self.f.opened.store,
            is_given_up=watch.is_given_up,
            went_on=went_on,
        )

    def _restoring(
        self, watch: LogWatch, writer: HeadWriter, exchange: HeadExchange | None
    ) -> RestoreCheck:
        f = self.f
        return RestoreCheck(
            store=FencedStore(f.opened.store, f.leadership.held),
            chain=watch.chain,
            recorder=f.recorder,
            file=restore_request_file(f.state / "anchor" / RESTORE_REQUEST),
            keeper=self.keeper,
            state=f.keeper.anchor,
            watch=watch,
            heads=writer,
            exchange=exchange,
            now=f.runtime.now,
            in_thread=in_pool(f.runtime.reactor),
        )

    def _watch(
        self,
        sources: tuple[Any, ...],
        restorations: Callable[[], Iterable[Restoration]],
        writer: Callable[[], HeadWriter],
        exchange: Callable[[], HeadExchange | None],
    ) -> LogWatch:
        f, ready = self.f, self.ready

        def on_fault(fault: AuditBroken | None) -> None:
            for each in AUDIT[:-1]:
                (ready.lost if fault is not None and fault.reason == each else ready.met)(each)
            shown = exchange()
            if fault is not None and shown is not None and f.leadership.lease is None:
                # Whoever writes is to know of what its store lacks.
                f.tasks.spawn("show an audit head", shown.warn())

        async def others() -> Iterable[bytes]:
            shown = exchange()
            return () if shown is None else await shown.greater()

        reactor, path = f.runtime.reactor, f.state / "anchor" / GREATEST
        return LogWatch(
            chain=self._chain(),
            keeper=self.keeper,
            latest_checkpoint=latest_checkpoint(reactor, path, f.keys.root_der, f.settings.cluster),
            verify_head=self.verify_head,
            clock=reactor,
            restorations=restorations,
            in_thread=in_pool(f.runtime.reactor),
            sources=sources,
            others=others,
            led_end=_led_end(f),
            appended=lambda count: writer().appended(count),
            on_fault=on_fault,
            verify=lambda: writer().verify(),
            keeps=_keeps(f),
            heals=f.opened.is_shared,
            every=min(LOOK_SECS, f.settings.snapshot.reload_secs),
        )

    def _chain(self) -> IChain:
        f = self.f
        if f.opened.is_shared:
            return StoredChain(f.opened.store)
        return PlaceChain(store_place(f.settings), in_pool(f.runtime.reactor))

    def _writer(
        self,
        watch: LogWatch,
        share: Callable[[SignedHead], Awaitable[object]],
        on_signed: Callable[[SignedHead], object],
    ) -> HeadWriter:
        f = self.f

        def on_unsigned(failed: Exception | None) -> None:
            if isinstance(failed, AuditBroken) and failed.reason not in KEY_REFUSALS:
                watch.found(failed)
            (self.ready.met if failed is None else self.ready.lost)(HeadsUnsigned.reason)

        return HeadWriter(
            chain=StoredChain(f.opened.store),
            keeper=self.keeper,
            key=anchor_key(f.keys),
            verify_head=self.verify_head,
            cluster=f.settings.cluster,
            log_id=f.settings.cluster,
            leader=f.identity.principal.id,
            clock=f.runtime.reactor,
            now=f.runtime.now,
            tasks=f.tasks,
            lease_epoch=f.leadership.epoch,
            in_thread=in_pool(f.runtime.reactor),
            share=share,
            on_signed=on_signed,
            ours=lambda: watch.own.to_sign,
            on_unsigned=on_unsigned,
            on_takeover=watch.own.take_over,
            every=f.settings.audit.head_every_records,
            after=f.settings.audit.head_after_secs,
        )


class _RolledBackProbe(Exception):
    """Ends a transaction that is to leave nothing."""


def _keeps(p: Foundations) -> Callable[[], Awaitable[None]]:
    """Whether the store keeps a record that is written to it; what is tried is undone."""

    def write(tx: ITransaction) -> None:
        written = tx.audit.append(b"{}")
        if tx.audit.rows(written.seq, 2) != (written,):
            raise RecordLost.at(written.seq)
        raise _RolledBackProbe

    async def keeps() -> None:
        if p.leadership.lease is not None:
            with suppress(_RolledBackProbe):
                await p.opened.store.run("see whether a record is kept", write)

    return keeps


def _led_end(p: Foundations) -> Callable[[], Awaitable[ChainHead | None]]:
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
