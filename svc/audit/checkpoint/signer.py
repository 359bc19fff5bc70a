"""The service that signs heads while the leader appends.

It reads the rows that are durable, checks that each follows from the one
before, and signs a head at start, after so many records, so long after the
first record that no head covers, and on stop.  At start it goes on from the greatest
head kept, and refuses a store that lies behind it; what it finds there is taken over.
From then on a head covers what this Authority wrote itself, and nothing past it.  It
never appends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf

from attrs import define, evolve, field
from twisted.internet.defer import CancelledError, DeferredLock
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.audit.checkpoint.head import NO_HEAD, AnchorKey, head_time, sign_head
from svc.audit.checkpoint.merkle import Tree, leaf_hash, resume
from svc.errors import AuditBroken, Fault, LeaseLost, StoreUnavailable, SvcError
from svc.interfaces.audit import HeadVerifier, IChain, IHeadKeeper
from svc.model.audit.ledger import ChainHead, ChainRow
from svc.model.audit.record import GENESIS, Head, RestoredProof, SignedHead, chain_hash, rfc3339
from svc.runtime.services import AsyncService, BackgroundTasks
from svc.runtime.threads import InThread, inline

HEAD_EVERY = 256
HEAD_SECONDS = 1.0
RETRY_SECONDS = 1.0
"""A head that could not be signed is tried again this soon, however rare heads are."""

KEY_RETRY_SECONDS = 10.0
"""One that its key may not sign: only a newer key, or the clock, changes that."""

KEY_REFUSALS = frozenset({"audit_key_expired", "audit_key_not_begun"})

OVERDUE_SECONDS = 5.0
"""A head may come so much later than it is due; then nothing is granted until it is there."""

BATCH = 512

_log = Logger(namespace="svc_audit")


class HeadsUnsigned(SvcError):
    """No head of the audit log can be signed: nothing is granted until one can."""

    fault = Fault.UNAVAILABLE
    reason = "audit_head_unsigned"


@define
class Deadlines:
    """When a head is due over the records that none covers, and when it is overdue.

    Attributes:
        overdue_at: From when on a head is overdue; infinite where none is due.
    """

    overdue_at: float = field(default=inf, init=False)
    _next: float = field(default=inf, init=False)
    _begun: float = field(default=inf, init=False)

    def at(self, due: float) -> None:
        """A record came that wants a head by then."""
        self._set(min(due, self._next), self._begun)

    def begun(self) -> None:
        """A head over all these records is begun; what comes from now on wants another."""
        self._set(inf, min(self._next, self._begun))

    def done(self) -> None:
        """It is kept, or was not needed."""
        self._set(self._next, inf)

    def put_off(self, now: float) -> None:
        """Somebody else is to sign over what was begun; that it is ours again may be found."""
        if self._begun < inf:
            self._set(self._next, now)

    def _set(self, following: float, begun: float) -> None:
        self._next, self._begun = following, begun
        self.overdue_at = min(following, begun) + OVERDUE_SECONDS


@define(slots=False, eq=False)
class HeadWriter(AsyncService):
    """Signs heads over the log.

    While no head can be signed nothing new is granted (:meth:`require_signing`): what is
    recorded meanwhile could be rewritten by whoever holds the store.

    Args:
        chain: The rows.
        keeper: Where heads are kept.
        key: The anchor key.
        verify_head: Judges the head that is gone on from.
        cluster: The cluster's name.
        log_id: The id of this log, a fact of the store.
        leader: Our node id.
        clock: Times the second.
        now: Seconds since the epoch, for the head's time.
        tasks: Owns the writing that nobody awaits; must outlive this service.
        lease_epoch: Of the lease under which we append; raises LeaseLost where we do not.
        in_thread: Where files are written.
        share: Puts a head where the other Authorities find it, before it is kept; once more
            for the same head changes nothing.
        on_signed: Called with each head once it is durable.
        ours: How far the log is ours, past which nothing is signed; None: all there is.
        on_unsigned: Told why no head can be signed, and None as soon as one can again.
        on_takeover: Told the end of the log that was verified at the start, before a head says so.
        every: How many records without a head bring one at once; the first head is never
            put off beyond :data:`HEAD_EVERY`, so that a lost anchor is seen as one.
        after: How many seconds after a record without a head one comes; the first within
            :data:`HEAD_SECONDS`.
        restored_seq: The record of an older store that was put back on purpose; the first head
            ends with it and proves it.
    """

    chain: IChain
    keeper: IHeadKeeper
    key: AnchorKey
    verify_head: HeadVerifier
    cluster: str
    log_id: str
    leader: str
    clock: IReactorTime
    now: Callable[[], float]
    tasks: BackgroundTasks
    lease_epoch: Callable[[], int]
    share: Callable[[SignedHead], Awaitable[object]]
    on_signed: Callable[[SignedHead], object]
    ours: Callable[[], ChainHead | None]
    on_takeover: Callable[[ChainHead], object]
    on_unsigned: Callable[[Exception | None], object]
    in_thread: InThread = inline
    every: int = HEAD_EVERY
    after: float = HEAD_SECONDS
    restored_seq: int = 0
    _restored: RestoredProof | None = field(default=None, init=False)
    _tree: Tree = field(factory=Tree, init=False)
    _last_hash: bytes = field(default=GENESIS, init=False)
    _newest: SignedHead | None = field(default=None, init=False)
    _unsure: SignedHead | None = field(default=None, init=False)
    _uncovered: int = field(default=0, init=False)
    _timer: IDelayedCall | None = field(default=None, init=False)
    _due: Deadlines = field(factory=Deadlines, init=False)
    _alarm: IDelayedCall | None = field(default=None, init=False)
    _is_queued: bool = field(default=False, init=False)
    _lock: DeferredLock = field(factory=DeferredLock, init=False)
    _reported: str = field(default="", init=False)
    _refusal: Exception | None = field(default=None, init=False)

    @property
    def newest(self) -> SignedHead | None:
        """The greatest head signed or found."""
        return self._newest

    def sign_with(self, key: AnchorKey) -> None:
        """Sign with a newer key from now on."""
        self.key = key

    def prove_restored(self, seq: int) -> None:
        """Have the first head end with the record of an older store; before the start."""
        self.restored_seq = seq

    async def start(self) -> None:
        """Go on from the greatest head kept.

        Raises:
            AuditBroken: ``audit_rolled_back``, ``audit_anchor_missing``,
                ``audit_head_foreign``, or what is kept or stored does not verify.
        """
        newest = await self.in_thread(self.keeper.newest)
        end = await self.chain.head()
        # A first life may have ended before its first head, which no number puts off.
        if newest is None and end.seq > HEAD_EVERY and not self.restored_seq:
            raise AuditBroken(
                f"audit log: the store has {end.seq} records, but the anchor directory has no "
                "signed head",
                reason="audit_anchor_missing",
            )
        try:
            if newest is not None:
                await self._go_on(newest, end.seq)
            await self.write()
        except AuditBroken as broken:
            raise broken.at_start() from None

    async def stop(self) -> None:
        """Sign what no head covers yet, unless another Authority leads: then it does."""
        for timer in (self._timer, self._alarm):
            if timer is not None:
                timer.cancel()
        self._timer = self._alarm = None
        try:
            await self.write()
        except LeaseLost as lost:
            _log.info(
                "the final audit head is not signed: another Authority is the leader",
                leader=lost.leader,
            )
        except AuditBroken as refused:
            if refused.reason not in KEY_REFUSALS:
                raise
            # The records are there; the head that the next start signs covers them.
            _log.error("the final audit head is not signed", reason=str(refused))

    def require_signing(self) -> None:
        """Return if a head can be signed, as far as is known; before anything is granted.

        Raises:
            HeadsUnsigned: the newest attempt failed, or a head is overdue, whatever the reason.
        """
        if self._refusal is not None or self.clock.seconds() >= self._due.overdue_at:
            raise HeadsUnsigned(
                "the Authority cannot sign its audit log now, and grants nothing until it can; "
                "its operator finds the reason in its log"
            )

    async def verify(self) -> None:
        """Take what was appended since the newest head into the tree, ahead of the next one.

        Called between heads, which may be hours apart: a record that was altered is found now.

        Raises:
            AuditBroken: a record does not verify.
            StoreUnavailable: rows could not be reached.
        """
        ours = self.ours()
        if not self.running or ours is None:
            return
        await self._lock.acquire()
        try:
            await self._catch_up_with_ours()
        finally:
            self._lock.release()

    def appended(self, count: int = 1) -> None:
        """Report that *count* records were committed; called after the store has run."""
        if not self.running:
            return
        every, after = self.every, self.after
        if self._newest is None:
            every, after = min(every, HEAD_EVERY), min(after, HEAD_SECONDS)
        before, self._uncovered = self._uncovered, self._uncovered + count
        is_due = before < every <= self._uncovered
        self._due.at(self.clock.seconds() + (0.0 if is_due else after))
        self._set_alarm()
        if is_due:
            self._begin()
        elif self._timer is None:
            self._timer = self.clock.callLater(after, self._fall_due)

    async def write(self) -> None:
        """Sign a head over all rows that are durable now, unless the newest covers them.

        Raises:
            AuditBroken: the rows do not follow from those signed before.
            StoreUnavailable, OSError: rows or files could not be reached.
        """
        await self._lock.acquire()
        self._is_queued = False
        try:
            self._uncovered = 0
            self._due.begun()
            if self._unsure is not None:
                await self._publish(self._unsure)
            if self._tree.size < self.restored_seq:
                await self._catch_up(self.restored_seq)
                await self._publish(self._signed())
            await self._catch_up_with_ours()
            if self._tree.size > (0 if self._newest is None else self._newest.head.tree_size):
                await self._publish(self._signed())
            self._due.done()
            self._set_alarm()
        finally:
            self._lock.release()

    async def _publish(self, signed: SignedHead) -> None:
        """Share a head and keep it.

        Whether one that failed on the way is out there is not known: the next one follows
        from it, so it is published first.
        """
        self._unsure = signed
        await self.share(signed)
        await self.in_thread(lambda: self.keeper.keep(signed))
        self._unsure, self._newest = None, signed
        self.on_signed(signed)

    def _fall_due(self) -> None:
        self._timer = None
        self._begin()

    def _begin(self) -> None:
        """Write, unless that waits already for a write that does not come to its end."""
        if not self._is_queued:
            self._is_queued = True
            self.tasks.spawn("sign an audit head", self._write_or_report())

    async def _write_or_report(self) -> None:
        """Write; what fails is tried again soon, and said once until it is another or over."""
        try:
            await self.write()
        except LeaseLost as lost:
            _log.info(
                "no audit head is signed while this Authority is not the leader", leader=lost.leader
            )
            # Whoever leads signs over these records.
            self._due.put_off(self.clock.seconds())
            if isinstance(self._refusal, HeadsUnsigned):
                self._refused(None)
            self._set_alarm()
            if self.running:
                self._again(min(self.after, RETRY_SECONDS))
        except CancelledError:
            raise
        except Exception as failed:
            # Whatever it is: what ended the signing for good would be noticed by nobody.
            self._refused(failed)
            self._report(failed)
            of_key = isinstance(failed, SvcError) and failed.reason in KEY_REFUSALS
            if self.running:
                self._again(KEY_RETRY_SECONDS if of_key else min(self.after, RETRY_SECONDS))
        else:
            self._reported = ""
            self._refused(None)

    def _report(self, failed: Exception) -> None:
        why = str(failed)
        if why == self._reported:
            return
        self._reported = why
        if isinstance(failed, (SvcError, OSError)):
            _log.error("an audit head was not signed", reason=why)
        else:
            _log.failure("an audit head was not signed", Failure(failed))

    def _set_alarm(self) -> None:
        """Wake at the time from which a head is overdue, if it is not there by then."""
        over = self._due.overdue_at if self._refusal is None else inf
        if self._alarm is not None and not self._alarm.getTime() <= over < inf:
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None and over < inf and self.running:
            wait = max(0.0, over - self.clock.seconds())
            self._alarm = self.clock.callLater(wait, self._see_overdue)

    def _see_overdue(self) -> None:
        self._alarm = None
        if self.clock.seconds() >= self._due.overdue_at:
            why = self._reported or "writing it has not finished"
            _log.error("an audit head is overdue", reason=why)
            self._refused(HeadsUnsigned(f"an audit head is overdue: {why}"))
        else:
            self._set_alarm()

    def _refused(self, failed: Exception | None) -> None:
        """Whoever serves is to know; a store that soon answers again is told of by others."""
        if isinstance(failed, StoreUnavailable):
            return
        if failed is not None or self._refusal is not None:
            self._refusal = failed
            self.on_unsigned(failed)
        self._set_alarm()

    def _again(self, soon: float) -> None:
        """Be due soon; a timer that runs may be one of hours."""
        if self._timer is None:
            self._timer = self.clock.callLater(soon, self._fall_due)
        elif self._timer.getTime() > self.clock.seconds() + soon:
            self._timer.reset(soon)

    async def _go_on(self, newest: SignedHead, end: int) -> None:
        head = newest.head
        if (head.cluster, head.log_id) != (self.cluster, self.log_id):
            raise AuditBroken(
                "audit anchor: the newest head belongs to another cluster or log",
                reason="audit_head_foreign",
            )
        self.verify_head(newest.signed, head_time(head))
        if end < head.tree_size:
            raise AuditBroken(
                f"audit log: the store ends at record {end}, behind the signed head"
                f" over {head.tree_size}: record {end + 1} is the first that is missing",
                reason="audit_rolled_back",
            )
        tree = resume(head.tree_size, newest.edge, head.root)
        if tree is not None:
            self._tree = tree
            last = await self.chain.rows(head.tree_size, 1) if head.tree_size else ()
            self._last_hash = last[0].hash if last else GENESIS
        else:
            await self._catch_up(head.tree_size)
        if self._last_hash != head.last_hash or self._tree.root != head.root:
            raise AuditBroken(
                f"audit log: record {head.tree_size} differs from the one that the head covers",
                reason="audit_rolled_back",
            )
        self._newest = newest

    async def _catch_up_with_ours(self) -> None:
        ours = self.ours()
        if ours is None:
            signed = 0 if self._newest is None else self._newest.head.tree_size
            await self._catch_up()
            if self._tree.size > signed:
                _log.info("taking over records that no head covers", after=signed)
            self.on_takeover(ChainHead(self._tree.size, self._last_hash))
            return
        await self._catch_up(ours.seq)
        if (self._tree.size, self._last_hash) != (ours.seq, ours.hash):
            raise AuditBroken(
                f"audit log: record {ours.seq} differs from the one that this Authority wrote; "
                "no head is signed",
                reason="audit_rolled_back",
            )

    async def _catch_up(self, end: int | None = None) -> None:
        """Take the rows that are not yet in the tree, at most up to *end*."""
        while end is None or self._tree.size < end:
            limit = BATCH if end is None else min(BATCH, end - self._tree.size)
            rows = await self.chain.rows(self._tree.size + 1, limit)
            for row in rows:
                self._take(row)
            if len(rows) < limit:
                return

    def _take(self, row: ChainRow) -> None:
        expected = chain_hash(self._tree.size + 1, self._last_hash, row.canonical)
        if (row.seq, row.prev_hash, row.hash) != (self._tree.size + 1, self._last_hash, expected):
            raise AuditBroken(f"audit log: record {self._tree.size + 1} does not verify")
        if row.seq == self.restored_seq:
            self._restored = RestoredProof(row.canonical, tuple(self._tree.edge))
        self._tree.append(leaf_hash(row.canonical, row.signature))
        self._last_hash = row.hash

    def _signed(self) -> SignedHead:
        previous = NO_HEAD if self._newest is None else self._newest.hash
        head = Head(
            cluster=self.cluster,
            log_id=self.log_id,
            tree_size=self._tree.size,
            root=self._tree.root,
            last_hash=self._last_hash,
            time=rfc3339(self.now()),
            lease_epoch=self.lease_epoch(),
            leader=self.leader,
            previous_head_hash=previous,
            key_id=self.key.key_id,
        )
        signed = sign_head(head, self.key, self._tree.edge)
        is_restored = self._tree.size == self.restored_seq
        return evolve(signed, restored=self._restored) if is_restored else signed
