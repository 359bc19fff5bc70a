"""Checks that the store still holds the log that we, or others, have seen (rule R10).

A store that was put back to an older state, or holds other records, is
``audit_rolled_back``: until it is right again nothing is written to it.  It is
looked at again and again, and each write compares the end that it goes on from
with the newest one known.  What is known: the end that our own writes left,
the newest head in the anchor directory, and the greatest head that others
showed us and that our records contradict, which is kept beside it.  While we
lead, a record past the end that our own writes left is ``audit_foreign_record``,
one that does not verify is ``audit_broken``, and a store that does not keep what
is written to it is ``audit_record_lost``; each stops the writing as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.audit.checkpoint.head import head_time, to_line
from svc.audit.checkpoint.latest import LatestCheckpoint, check_place, parse_head
from svc.audit.checkpoint.rewind import Restoration
from svc.audit.checkpoint.witness import ANSWER_SECS
from svc.audit.checkpoint.writer_position import NAMED, ForeignRecord, Rows, WriterPosition
from svc.errors import AuditBroken, RecordLost, StoreUnavailable, SvcError
from svc.interfaces.audit import HeadVerifier, IChain, IHeadKeeper, IHeadSource
from svc.model.audit.ledger import ChainHead, ChainRow
from svc.model.audit.record import SignedHead
from svc.runtime.services import AsyncService, PeriodicTask, bounded
from svc.runtime.threads import InThread, inline

LOOK_SECS = 5.0
"""Between two looks, at most."""

_log = Logger(namespace="svc_audit")


_OF_RECORDS = frozenset({AuditBroken.reason, RecordLost.reason, "audit_anchor_unreadable"})
"""Faults of single records, in the store that we have open: looked at again, they may be mended."""


class RolledBack(AuditBroken):
    """The store is not the one whose log is known here; the text names the first record amiss."""

    reason = "audit_rolled_back"


@frozen
class RequiredRecord:
    """A record that the store must hold.

    Attributes:
        who: Where we know it from, in words.
    """

    seq: int
    hash: bytes
    who: str


def mark_of(head: SignedHead, who: str) -> RequiredRecord:
    """The last record that a signed head covers."""
    return RequiredRecord(head.head.tree_size, head.head.last_hash, who)


def _no_rows(_from: int, _limit: int) -> Iterable[ChainRow]:
    """Where nobody asks for the records between."""
    return ()


@define(slots=False, eq=False)
class LogWatch(AsyncService):
    """Looks at the log while the role runs.

    Args:
        chain: The rows as they are now, for whoever opens the store again.
        keeper: Our own heads.
        latest_checkpoint: Keeps a head of others that our records contradict.
        verify_head: Judges what somebody says was signed.
        restorations: The lines of the log that were given up on purpose.
        sources: Witnesses that can be read; looked at before anything is written.
        others: What other Authorities show us through the store, newer than our own heads.
        led_end: Where the log ends, in a snapshot in which we lead; None where we do not.
        appended: Given how many records of ours a look found of which no commit told.
        on_fault: Given the refusal when it is found, and None when all is right again.
        verify: Verifies what was appended since the newest head; raises AuditBroken.
        keeps: Tries whether a record that is written is kept; raises RecordLost.
        heals: Whether a store that held another log, and is right again, is written to again.
            A file may have been replaced while we held it open, so what we would write goes
            nowhere: it does not.
        every: Seconds between two looks.
        own: Where our own writes left the log; whoever writes says so there.
    """

    chain: IChain
    keeper: IHeadKeeper
    latest_checkpoint: LatestCheckpoint
    verify_head: HeadVerifier
    clock: IReactorTime
    restorations: Callable[[], Iterable[Restoration]]
    others: Callable[[], Awaitable[Iterable[bytes]]]
    led_end: Callable[[], Awaitable[ChainHead | None]]
    appended: Callable[[int], object]
    on_fault: Callable[[AuditBroken | None], object]
    verify: Callable[[], Awaitable[object]]
    keeps: Callable[[], Awaitable[object]]
    in_thread: InThread = inline
    sources: Iterable[IHeadSource] = ()
    heals: bool = True
    every: float = LOOK_SECS
    fault: AuditBroken | None = field(default=None, init=False)
    own: WriterPosition = field(factory=WriterPosition, init=False)
    _given_up: Restoration | None = field(default=None, init=False)
    _looks: PeriodicTask = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._looks = PeriodicTask(
            clock=self.clock, interval=self.every, call=self._pass, what="the log against its heads"
        )

    async def start(self) -> None:
        """Begin to look; does not wait for the first one."""
        await self.in_thread(self.latest_checkpoint.load)
        self._looks.startService()

    async def stop(self) -> None:
        """Look no more."""
        await self._looks.stopService()

    def require(self, end: ChainHead, rows: Rows = _no_rows) -> None:
        """Return if a write may go on from *end*; in the store's thread, in each write.

        Args:
            rows: The log, as the transaction sees it.

        Raises:
            AuditBroken: the store is behind what is known, or goes on past what we wrote;
                nothing is written.
        """
        if self.fault is not None:
            raise _again(self.fault)
        seen = self.own.known
        if end.seq < seen.seq or (end.seq == seen.seq and end.hash != seen.hash):
            raise _rolled_back(end, RequiredRecord(seen.seq, seen.hash, "this Authority"))
        self.own.require(end, rows)

    def found(self, fault: AuditBroken) -> None:
        """Write nothing from now on; on the reactor."""
        if self.fault is None or self.fault.text != fault.text:
            text = fault.text
            _log.error("the audit log differs from the known one", reason=fault.reason, text=text)
        self.fault = fault
        self.on_fault(fault)

    async def look(self) -> None:
        """One pass: each mark against the store.

        Raises:
            SvcError: the store or a file did not answer; what was found before stands.
        """
        for line in await self.others():
            try:
                await self._take(line)
            except StoreUnavailable:
                raise
            except SvcError as refused:
                # Whoever put it there must not keep us from looking at the rest.
                _log.error("a signed head in the store does not verify", text=refused.text)
        given_up, fault = self._given_up, await self._look()
        if self._given_up is not given_up:
            # What was found amiss is what was meanwhile given up on purpose.
            fault = await self._look()
        if fault is None:
            fault = await self._broken()
        if fault is not None:
            self.found(fault)
        elif self.fault is not None and (self.heals or self.fault.reason in _OF_RECORDS):
            self.fault = None
            _log.info("the audit log matches the known one again")
            self.on_fault(None)

    async def _pass(self) -> None:
        try:
            await self.look()
        except StoreUnavailable as away:
            # Whoever looks whether the store answers says so.
            _log.debug("the audit log could not be checked", reason=away.reason)
        except AuditBroken as unreadable:
            # The heads that it is to be compared with: nothing can be signed after them either.
            self.found(unreadable)

    async def ask_witnesses(self) -> None:
        """Read the last head of each readable witness; skip one that does not answer."""
        asked = [Deferred.fromCoroutine(self._newest_of(each)) for each in self.sources]
        for head in await gatherResults(asked):
            try:
                if head is not None:
                    await self._take(to_line(head))
            except SvcError as failed:
                _unreadable(failed)

    async def _newest_of(self, source: IHeadSource) -> SignedHead | None:
        """What it has last; None where it does not say so in time."""
        try:
            return await bounded(self.clock, ANSWER_SECS, source.newest(), source.name)
        except (SvcError, OSError) as failed:
            _unreadable(failed)
            return None

    async def confirm(self) -> None:
        """Look, and refuse what is amiss: before this Authority writes for the first time.

        Raises:
            AuditBroken: ``audit_rolled_back``.
        """
        await self.look()
        if self.fault is not None:
            raise _again(self.fault)

    async def receive_head(self, line: bytes) -> None:
        """Handle the latest head that another party presents.

        Cheap for what we know: one row is read, and no signature is judged.

        Raises:
            AuditBroken: our store is behind it, or has other records: we write nothing more.
            SvcError: it is no head, or nobody that we trust signed it.
        """
        if await self._take(line):
            await self.confirm()

    async def _take(self, line: bytes) -> bool:
        """Keep a head that our records contradict; whether they do."""
        head = parse_head(line)
        check_place(head, self.latest_checkpoint.cluster, self.latest_checkpoint.log_id)
        if self.is_given_up(head) or await self._check(mark_of(head, "somebody")) is None:
            return False
        self.verify_head(head.signed, head_time(head.head))
        await self.latest_checkpoint.take(line)
        return True

    def go_on_without(self, lost: Restoration) -> None:
        """A line of the log is given up on purpose; before a head says so."""
        self._given_up, self.fault = lost, None
        self.on_fault(None)

    def is_given_up(self, head: SignedHead) -> bool:
        """Whether *head* is of a line of the log that was given up on purpose."""
        lost = self._given_up
        if lost is not None and lost.gives_up(head):
            return True
        return any(one.gives_up(head) for one in self.restorations())

    async def _look(self) -> AuditBroken | None:
        seen = self.own.known
        marks = [RequiredRecord(seen.seq, seen.hash, "this Authority")]
        kept = await self.in_thread(self.keeper.newest)
        if kept is not None:
            marks.append(mark_of(kept, "a signed head"))
        shown = self.latest_checkpoint.kept
        if shown is not None and not self.is_given_up(shown):
            marks.append(mark_of(shown, "a signed head that others keep"))
        for mark in sorted(marks, key=lambda one: one.seq):
            fault = await self._check(mark)
            if fault is not None:
                return fault
        return await self._foreign()

    async def _broken(self) -> AuditBroken | None:
        """A record that was altered since it was written, or a store that still alters them."""
        try:
            await self.verify()
            if self.fault is not None and self.fault.reason == RecordLost.reason:
                await self.keeps()
        except AuditBroken as broken:
            return broken
        return None

    async def _foreign(self) -> AuditBroken | None:
        """What is there past our own writes: found while nobody writes, too."""
        end = await self.led_end()
        if end is None:
            return None
        if self.own.is_ours(end):
            self._heard_late(end)
            return None
        seq = self.own.first_foreign(await self.chain.rows(self.own.known.seq + 1, NAMED))
        return ForeignRecord.at(seq)

    def _heard_late(self, end: ChainHead) -> None:
        """A commit whose answer was lost, or that nobody waited for: its records want a head."""
        if self.own.to_sign is not None and (records := self.own.committed(end)):
            self.appended(records)

    async def _check(self, mark: RequiredRecord) -> AuditBroken | None:
        if mark.seq == 0:
            return None
        rows = await self.chain.rows(mark.seq, 1)
        if rows and (rows[0].seq, rows[0].hash) == (mark.seq, mark.hash):
            return None
        return _rolled_back(await self.chain.head(), mark)


def _unreadable(failed: SvcError | OSError) -> None:
    _log.warn("a witness of the audit log cannot be read", text=str(failed))


def _rolled_back(end: ChainHead, mark: RequiredRecord) -> RolledBack:
    if end.seq < mark.seq:
        return RolledBack(
            f"audit log: the store ends at record {end.seq}, but {mark.who} knows {mark.seq}: "
            f"record {end.seq + 1} is the first that is missing; nothing is appended"
        )
    return RolledBack(
        f"audit log: record {mark.seq} differs from the one that {mark.who} knows: "
        "the store holds another history; nothing is appended"
    )


def _again(fault: AuditBroken) -> SvcError:
    """The same refusal, for somebody else: an exception that is raised twice grows."""
    return AuditBroken(fault.text, reason=fault.reason)
