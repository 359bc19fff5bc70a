"""The spool of a role, as the reactor thread uses it: many writers share one write.

Files are touched in one thread, by one batch at a time; what is asked for
meanwhile is the next batch.  A writer waits for the disk and for nobody else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.audit.spool.disk import (
    Extent,
    Outcome,
    SpoolEntry,
    SpoolFiles,
    SpoolRequest,
    Waiting,
)
from svc.audit.spool.refusals import full
from svc.audit.spool.segments import Numbered
from svc.errors import SvcError, Unavailable
from svc.interfaces.audit import IAuditSink
from svc.model.audit.record import AuditRecord
from svc.model.audit.request import RequestRecord
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_audit")

BATCH = 1024
"""Records in one write."""

BUFFERED_SECS = 0.25
"""How long a request that passed may wait for others, before all are written."""

MAX_WAITING = 16_384
"""Records that wait for the disk; past it their writers are refused at once."""

LEVELS = (0.5, 0.75, 0.9)
"""Parts of the room: the log says once that each is passed."""

MEND_SECS = 5.0
"""Between two tries to begin a spool on a disk that refused."""

_Waiter = tuple[Waiting, Deferred[None] | None]
"""What is to be written, and who waits for it; nobody does where a request passed already."""


@implementer(IAuditSink)
@define(eq=False)
class Spool:
    """See the module.

    Attributes:
        committed: Called when there are new rows to be delivered.
        has_room: Called when there is a spool, and room for what others than the origin cause.
        buffering: Times the writes of requests, which pass before they are on the disk; None
            where each waits for the disk.
    """

    files: SpoolFiles
    in_thread: InThread
    committed: Callable[[], object]
    has_room: Callable[[], object]
    buffering: IReactorTime | None = None
    in_turn: Callable[[Callable[[], object]], object] | None = None
    _is_turn_asked: bool = False
    _soon: IDelayedCall | None = None
    _retried: list[_Waiter] = field(factory=list)
    _waiting: deque[_Waiter] = field(factory=deque)
    _is_writing: bool = False
    _in_batch: int = 0
    _idle: list[Deferred[None]] = field(factory=list)
    _level: int = 0
    _failed: SvcError | None = None
    _no_room: SvcError | None = None

    @property
    def not_durable(self) -> int:
        """Records whose writers wait for the disk."""
        return self._in_batch + len(self._waiting)

    async def open(self) -> None:
        """Find what former lives left and begin a spool; a disk that refuses is only logged."""
        refusal = await self.in_thread(self.files.open)
        if refusal is not None:
            _log.error(
                "an audit spool could not be started", reason=refusal.reason, text=refusal.text
            )
        self._report(refusal)

    async def mend(self) -> None:
        """Open a new spool if the disk refused the last one; called periodically.

        Where there is one, see that the disk has room for more: nobody may have written lately.
        """
        if self._failed is None:
            self._look_for_room(await self.in_thread(self.files.try_disk))
            self._report()
        else:
            self._report(await self.in_thread(self.files.open))
            self._retry()

    def check(self) -> None:
        """What would have to be recorded must not be begun while nothing can be.

        Raises:
            SvcError: the disk refused what was written last, or is full.
        """
        refusal = self._failed or self._no_room
        if refusal is not None:
            raise refusal

    def _look_for_room(self, refusal: SvcError | None) -> None:
        before, self._no_room = self._no_room, refusal
        if refusal is not None and before is None:
            _log.error("the disk is full", directory=str(self.files.root), reason=refusal.reason)
        elif refusal is None and before is not None:
            _log.info("the disk has free space again", directory=str(self.files.root))

    async def write(self, record: AuditRecord, holder: str | None = None) -> None:
        if len(self._waiting) >= MAX_WAITING:
            raise full()
        durable: Deferred[None] = Deferred()
        self._waiting.append((SpoolEntry(record, holder), durable))
        if not self._is_writing:
            self._begin()
        await durable

    def write_request(self, request: RequestRecord, holder: str) -> Deferred[None] | None:
        if len(self._waiting) + len(self._retried) >= MAX_WAITING:
            raise full()
        if self.buffering is not None:
            self.check()  # nothing passes while nothing is written
        entry = self.files.take(request, holder)
        durable: Deferred[None] | None = None
        if self.buffering is None:
            durable = Deferred()
        self._waiting.append((entry, durable))
        if not self._is_writing:
            if len(self._waiting) >= BATCH or (self.buffering is None and self.in_turn is None):
                self._begin()
            elif self.buffering is None:
                self._begin_in_turn()
            else:
                self._begin_late()
        return durable

    def _begin_in_turn(self) -> None:
        if self.in_turn is not None and not self._is_turn_asked:
            self._is_turn_asked = True
            self.in_turn(self._turn_over)

    def _turn_over(self) -> None:
        self._is_turn_asked = False
        if self._waiting and not self._is_writing:
            self._begin()

    def _flush(self) -> None:
        self._soon = None
        if self._waiting and not self._is_writing:
            self._begin()

    def _retry(self) -> None:
        """Write what passed before the disk refused it, once there is a spool again."""
        if self._failed is None and self._retried:
            self._waiting.extendleft(reversed(self._retried))
            self._retried.clear()
            self._flush()

    async def close(self) -> None:
        """Close the spool after writing the waiting rows; no further rows are accepted."""
        if self._soon is not None:
            self._soon.cancel()
        self._waiting.extendleft(reversed(self._retried))
        self._retried.clear()
        self._flush()
        while self._is_writing:
            idle: Deferred[None] = Deferred()
            self._idle.append(idle)
            await idle
        if self._retried:
            _log.error("requests that passed are not on record", requests=len(self._retried))
        refusal = await self.in_thread(self.files.close)
        if refusal is not None:
            _log.warn("the audit spool was not closed properly", reason=refusal.reason)
        self.committed()

    async def spools(self) -> tuple[Extent, ...]:
        """All that hold rows, the one that is written last."""
        found: tuple[Extent, ...] = await self.in_thread(self.files.spools)
        return found

    async def rows(self, spool_id: str, first: int) -> tuple[Numbered, ...]:
        """Rows of a spool from number *first* on, as many as one call carries."""
        found: tuple[Numbered, ...] = await self.in_thread(lambda: self.files.rows(spool_id, first))
        return found

    async def covered(self, spool_id: str, n: int) -> None:
        """Rows up to *n* are under a signed head: they leave the spool."""
        await self.in_thread(lambda: self.files.covered(spool_id, n))
        self._report()

    def _begin(self) -> None:
        self._is_writing = True
        batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        self._in_batch = len(batch)
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        entries = [entry for entry, _ in batch]
        writing = self.in_thread(partial(self.files.commit, entries))
        writing.addCallback(self._committed, batch)
        writing.addErrback(self._broken, batch)
        writing.addCallback(lambda _: self._written())

    def _committed(self, outcomes: Sequence[Outcome], batch: Sequence[_Waiter]) -> None:
        self._report(next((one for one in outcomes if one is not None), None))
        for waiter, refusal in zip(batch, outcomes, strict=True):
            self._answer(waiter, refusal)
        if None in outcomes:
            self.committed()

    def _broken(self, failure: Failure, batch: Sequence[_Waiter]) -> None:
        """Whatever went wrong: nobody is left waiting, and nothing is granted."""
        _log.failure("writing the audit spool failed", failure)
        refusal = Unavailable(
            "the audit spool cannot be written, so no session opens", reason="audit_unavailable"
        )
        for waiter in batch:
            self._answer(waiter, refusal)

    def _answer(self, waiter: _Waiter, refusal: SvcError | None) -> None:
        entry, durable = waiter
        if refusal is not None and durable is None:
            self._retried.append(waiter)  # it passed, so it stays until it is written
            return
        if refusal is not None and isinstance(entry, SpoolRequest):
            self.files.give_back(entry)
        if durable is None or durable.called:
            return  # its writer went away
        if refusal is None:
            durable.callback(None)
        else:
            durable.errback(refusal)

    def _written(self) -> None:
        """Go on with what was asked for meanwhile, by those just answered too."""
        self._is_writing, self._in_batch = False, 0
        if not self._waiting:
            idle, self._idle = self._idle, []
            for one in idle:
                one.callback(None)
        elif self._idle or len(self._waiting) >= BATCH:
            self._begin()
        elif all(durable is None for _, durable in self._waiting):
            self._begin_late()  # what has passed already waits for more, as before
        elif self.in_turn is not None:
            self._begin_in_turn()
        else:
            self._begin()

    def _begin_late(self) -> None:
        if self.buffering is not None and self._soon is None:
            self._soon = self.buffering.callLater(BUFFERED_SECS, self._flush)

    def _report(self, refusal: SvcError | None = None) -> None:
        """Say once that the spool fills, and once that there is room again."""
        room = self.files.room
        self._failed = None if self.files.is_live else refusal or self._failed
        if self._failed is None and self._no_room is None and room.has_for_others:
            self.has_room()
        level = sum(room.used >= part * room.most for part in LEVELS)
        if level > self._level:
            _log.warn(
                "the audit spool is filling up: Authority does not accept its rows",
                percent=round(100 * room.used / room.most),
                used=room.used,
                most=room.most,
            )
            self._level = level
        elif self._level and room.used < LEVELS[0] / 2 * room.most:
            _log.info("the audit spool has free space again", used=room.used, most=room.most)
            self._level = 0
