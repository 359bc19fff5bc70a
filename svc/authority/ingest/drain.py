"""The leader's loop over the audit queue: each row enters the log or is held.

Rows are looked at outside of a write transaction, because judging costs far more
than writing; what is written are the very bytes that were judged, and only if
the key is still in force in the transaction that writes.  A bad row stays where
it is, marked once, and those behind it go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, succeed
from twisted.logger import Logger

from svc.audit.ingest.entries import KnownEntries
from svc.audit.ingest.facts import FactForm, fact_forms
from svc.audit.ingest.noted import KnownRows
from svc.audit.ingest.sampled import Pick, SampledAllow, pick_none
from svc.audit.ingest.sessions import sessions_of
from svc.audit.ingest.validate import MAY_WRITE, RowChecks, RowVerdict, WriteRights
from svc.audit.log.find import granted_session
from svc.authority.ingest.apply import AppliedRows, QueuedRowGone, QueueTransaction
from svc.authority.ingest.origins import OriginKeys
from svc.authority.ingest.signatures import SignaturesApart
from svc.authority.ingest.unanswered import UnansweredRows
from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import StateUnsigned
from svc.errors import AlreadyExists, AuditBroken, LeaseLost, StoreUnavailable, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.outbox import Hold, QueuedRow
from svc.model.audit.replay import GAP_SECS
from svc.model.session.recorded import RangedRecords
from svc.model.session.session import Session
from svc.runtime.services import AsyncService, BackgroundTasks
from svc.runtime.threads import InThread, inline

BATCH = 128
"""Rows judged, and then written, at a time."""

BATCH_BYTES = 1 << 20
DRAIN_SECS = 1.0
"""Between two looks at the queue; what comes over this Authority is taken at once."""

_HOLED = 16
_LOOKS = 64
"""Spools told of in one transaction."""

_SESSIONS = 4096
"""Sessions that are remembered, so that none is read for each of its batches."""

_log = Logger(namespace="svc_authority")


async def _nobody(_: Iterable[RangedRecords]) -> None:
    """Where no kind has a gate."""


async def _never_again(_: Iterable[SampledAllow]) -> None:
    """Where no kind has a gate."""


@frozen
class _QueueRead:
    """What one look at the queue found.

    Attributes:
        checks: What the rows are held against, as of this look.
        verified: The ids of rows whose signatures are good; of the others nothing is said.
    """

    rows: Sequence[QueuedRow]
    is_holed: bool
    checks: RowChecks
    verified: Deferred[frozenset[int]]


@frozen
class _QueueLook:
    """Rows that were judged, and whether some are missing."""

    judged: Sequence[tuple[QueuedRow, RowVerdict]]
    is_holed: bool


@define
class QueueConsumer:
    """Drains the queue; one at a time, however often it is asked.

    Attributes:
        store: Written to under the lease only.
        held: Told the reason of each row that is held from now on.
        may_write: The events of each role.
        recorded: Told of the requests whose records are in the log now.
        pick: Chooses the allowed requests that are decided again; asked in threads.
        decide_again: Given those whose records are in the log now.
        in_thread: Judges rows.
        signatures: Verifies those of a backlog meanwhile; None: they are verified in that thread.
    """

    store: IStore
    recorder: Recorder
    keys: OriginKeys
    now: Callable[[], float]
    held: Callable[[str], object]
    may_write: WriteRights = MAY_WRITE
    recorded: Callable[[Iterable[RangedRecords]], Awaitable[object]] = _nobody
    pick: Pick = pick_none
    decide_again: Callable[[Iterable[SampledAllow]], Awaitable[object]] = _never_again
    in_thread: InThread = inline
    signatures: SignaturesApart | None = None
    _facts: Mapping[str, FactForm] = field(init=False)
    _forms: KnownEntries = field(factory=KnownEntries, init=False)
    _rows: KnownRows = field(factory=KnownRows, init=False)
    _sessions: dict[str, Session] = field(factory=dict, init=False)
    _unanswered: UnansweredRows = field(factory=UnansweredRows, init=False)
    _reading: Deferred[_QueueRead] | None = field(default=None, init=False)
    """Of the rows behind those that are being judged."""
    _lock: DeferredLock = field(factory=DeferredLock, init=False)

    @_facts.default
    def _of_vocabulary(self) -> Mapping[str, FactForm]:
        return fact_forms(self.recorder.sealer.facts.values())

    async def drain(self) -> None:
        """Process every row that can be processed, and report gaps that are due.

        Raises:
            LeaseLost, StoreUnavailable: the rest stays for another time, or for another Authority.
        """
        await self._lock.acquire()
        try:
            await self._tell_entered()
            looks, look = 1, await self._look(is_last=False)
            while look.judged:
                if looks % _LOOKS:
                    look = await self._take_and_look(look, is_last=not (looks + 1) % _LOOKS)
                else:
                    # Rows that keep coming must not put off gaps, or rows that waited for a key.
                    await self._take(look.judged)
                    if look.is_holed:
                        await self._tell_gaps()
                    look = await self._look(is_last=False)
                looks += 1
            if look.is_holed:
                await self._tell_gaps()
        finally:
            reading, self._reading = self._reading, None
            _let_go(reading)
            if self.signatures is not None:
                self.signatures.idle()
            self._lock.release()

    async def _take_and_look(self, look: _QueueLook, *, is_last: bool) -> _QueueLook:
        """Take what was judged, and judge what follows while it is written."""
        coming = Deferred.fromCoroutine(self._look(is_last=is_last))
        try:
            await self._take(look.judged)
        except BaseException:
            _let_go(coming)
            raise
        return await coming

    async def _look(self, *, is_last: bool) -> _QueueLook:
        """Judge the next rows, while those behind them are read and their signatures verified.

        Args:
            is_last: Nothing behind them is; the next look begins anew.
        """
        reading, self._reading = self._reading, None
        read = await (reading or self._read(0))
        if not read.rows:
            return _QueueLook((), read.is_holed)
        if not is_last:
            self._reading = Deferred.fromCoroutine(self._read(read.rows[-1].id))
        verified = await read.verified

        def judge() -> list[tuple[QueuedRow, RowVerdict]]:
            return [
                (row, _verdict(read.checks, row, is_verified=row.id in verified))
                for row in read.rows
            ]

        return _QueueLook(await self.in_thread(judge), read.is_holed)

    async def _read(self, after: int) -> _QueueRead:
        keys = self.keys.now()

        def look(tx: ITransaction) -> tuple[Sequence[QueuedRow], bool]:
            known = [key for key in tx.outbox.unknown_keys() if key in keys]
            rows = tx.outbox.waiting(after, BATCH, BATCH_BYTES, known)
            self._know_sessions(tx, rows)
            return rows, bool(tx.spools.holed(self.now() - GAP_SECS, 1))

        rows, is_holed = await self.store.read("look at the audit queue", look)
        checks = RowChecks(
            signer=keys.get,
            facts=self._facts,
            members=self.keys.is_member,
            may_write=self.may_write,
            session_row=self._sessions.get,  # as it was read with these rows
            pick=self.pick,
            forms=self._forms,
            rows=self._rows,
        )
        verified: Deferred[frozenset[int]] = succeed(frozenset())
        if self.signatures is not None:
            verified = self.signatures.verified(rows, keys)
        return _QueueRead(rows=rows, is_holed=is_holed, checks=checks, verified=verified)

    def _know_sessions(self, tx: ITransaction, rows: Sequence[QueuedRow]) -> None:
        """Read the sessions that rows name, each once: what its opening says never changes."""
        named = {uid for row in rows for uid in sessions_of(row.row)}
        if len(self._sessions) + len(named) > _SESSIONS:
            self._sessions = {uid: one for uid, one in self._sessions.items() if uid in named}
        for uid in named - self._sessions.keys():
            found = granted_session(tx, uid)
            if found is not None:
                self._sessions[uid] = found

    async def _take(self, judged: Sequence[tuple[QueuedRow, RowVerdict]]) -> None:
        try:
            drained = await self._write(judged)
            self._report(drained)
            if self._unanswered:
                # What an earlier write brought in comes first: requests are told in their order.
                self._unanswered.add(judged, is_decided=True)
                await self._tell_entered()
            else:
                await self._tell_requests(drained)
        except (CancelledError, LeaseLost, StoreUnavailable):
            raise  # nothing is wrong with the rows
        except Exception as failed:
            if len(judged) == 1:
                await self._set_aside(judged[0][0], failed)
                return
            # One of them cannot be written; it must not keep back the others.
            for each in judged:
                await self._take([each])

    async def _write(self, judged: Sequence[tuple[QueuedRow, RowVerdict]]) -> AppliedRows:
        def write(tx: ITransaction) -> AppliedRows:
            draining = QueueTransaction(tx, self.recorder, self.now())
            draining.take_all(judged)
            return draining.end()

        try:
            return await self.store.run("drain the audit queue", write)
        except (CancelledError, StoreUnavailable):
            self._unanswered.add(judged)
            raise

    async def _tell_entered(self) -> None:
        """Tell of what an earlier write brought into the log that did not say so."""
        if self._unanswered:
            await self._tell_requests(await self._unanswered.entered(self.store))

    async def _set_aside(self, row: QueuedRow, failed: Exception) -> None:
        """A row that by itself cannot be written, whatever is wrong with it."""
        if isinstance(failed, QueuedRowGone):
            return  # the watch counts it, unless an earlier write of ours took it
        if isinstance(failed, (StateUnsigned, AuditBroken)):
            _log.error("a queued row waits", row=row.id, reason=failed.reason, text=failed.text)
            return
        why = Hold.REPLAYED if isinstance(failed, AlreadyExists) else Hold.FORGED
        text = failed.text if isinstance(failed, SvcError) else type(failed).__name__
        self._report(await self._write([(row, RowVerdict(hold=why, why=text))]))

    async def _tell_requests(self, drained: AppliedRows) -> None:
        try:
            try:
                # First: these records settle checkpoints, by which the times in them are held.
                await self.decide_again(drained.sampled)
            finally:
                await self.recorded(drained.requests)
        except SvcError as failed:
            # The rows are in the log; the session that they contradict is not prolonged, and its
            # Proxy opens no further one.  The next checkpoint or batch puts it on record.
            _log.warn("a mismatch is not on record", reason=failed.reason)
        except CancelledError:
            raise
        except Exception:
            # Nor is a defect here one of the rows.
            _log.failure("what requests say of their sessions is not on record")

    def _report(self, drained: AppliedRows) -> None:
        for row, verdict in drained.held:
            assert verdict.hold is not None
            self.held(verdict.hold.value)
            _log.error(
                "a queued row is held", row=row.id, reason=verdict.hold.value, text=verdict.why
            )

    async def _tell_gaps(self) -> None:
        """Put holes on record that stayed for their time: some spools, each by itself."""
        at = self.now()
        holed = await self.store.read(
            "missing rows", lambda tx: tx.spools.holed(at - GAP_SECS, _HOLED)
        )
        for origin, spool_id, _ in holed:
            try:
                await self._tell_gaps_of(origin, spool_id, at)
            except (LeaseLost, StoreUnavailable):
                raise
            except SvcError as failed:
                # It must not keep back the gaps of others.
                _log.error("missing rows are not on record", spool=spool_id, text=failed.text)

    async def _tell_gaps_of(self, origin: str, spool_id: str, at: float) -> None:
        def tell(tx: ITransaction) -> None:
            memory = tx.spools.memory(origin, spool_id)
            if memory is not None:
                QueueTransaction(tx, self.recorder, at).tell_due(origin, spool_id, memory)

        await self.store.run("tell of missing rows", tell)


def _let_go(coming: Deferred[Any] | None) -> None:
    """Wait no more for what was begun."""
    if coming is not None:
        coming.addErrback(lambda _: None)
        coming.cancel()


def _verdict(checks: RowChecks, row: QueuedRow, *, is_verified: bool) -> RowVerdict:
    try:
        return checks.verdict(row.row, is_verified=is_verified)
    except Exception as failed:
        # It must not keep back the others; an operator can have it judged again.
        _log.failure("a queued row cannot be judged", row=row.id)
        return RowVerdict(hold=Hold.FORGED, why=f"it cannot be judged: {type(failed).__name__}")


@define(slots=False, eq=False)
class FinalQueuePass(AsyncService):
    """Drains once more when the Authority stops: after its listeners, before its store."""

    outbox: QueueConsumer
    tasks: BackgroundTasks
    _is_due: bool = field(default=False, init=False)

    async def stop(self) -> None:
        """Process every row that can still be processed."""
        await self._or_report()
        if self.outbox.signatures is not None:
            await self.outbox.signatures.stop()

    async def turn(self) -> None:
        """One look; called again and again."""
        await self._or_report()

    def arrived(self) -> None:
        """Rows came; take them without waiting for the next look."""
        if not self._is_due:
            self._is_due = True
            self.tasks.spawn("drain the audit queue", self._arrived())

    async def _arrived(self) -> None:
        self._is_due = False
        await self._or_report()

    async def _or_report(self) -> None:
        try:
            await self.outbox.drain()
        except (SvcError, OSError) as failed:
            _log.warn("the audit queue was not drained", reason=str(failed))
