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

from svc.audit.spool.ahead_queue import AheadQueue
from svc.audit.spool.disk import SpoolFiles
from svc.audit.spool.entries import Extent, Outcome, SpoolEntry, SpoolRequest, Waiting
from svc.audit.spool.entry.forms import Recorded
from svc.audit.spool.refusals import full
from svc.audit.spool.segments import Numbered
from svc.errors import SvcError, Unavailable
from svc.interfaces.audit import IAuditSink
from svc.model.audit.record import AuditRecord
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_audit")

BATCH = 1024
"""Records in one write."""

BUFFERED_SECS = 0.25
"""How long a request that passed may wait for others, before all are written."""

AHEAD_SECS = 0.1
"""How long one that is on the disk already waits for others, before all enter a row."""

MAX_WAITING = 16_384
"""Records that wait for the disk; past it their writers are refused at once."""

LEVELS = (0.5, 0.75, 0.9)
"""Parts of the room: the log says once that each is passed."""

MEND_SECS = 5.0
"""Between two tries to begin a spool on a disk that refused."""


@implementer(IAuditSink)
@define(eq=False)
class Spool:
    """See the module.

    Attributes:
        committed: Called when there are new rows to be delivered.
        has_room: Called when there is a spool, and room for what others than the origin cause.
        clock: Times the rows of requests.
        waits: Whether each request waits for the disk, as ``audit.requests = durable`` says.
    """

    files: SpoolFiles
    in_thread: InThread
    committed: Callable[[], object]
    has_room: Callable[[], object]
    clock: IReactorTime
    waits: bool = True
    _ahead: AheadQueue = field(init=False)
    _soon: IDelayedCall | None = None
    _retried: list[SpoolRequest] = field(factory=list)
    """What passed and could not be written; it stays until it is."""
    _waiting: deque[Waiting] = field(factory=deque)
    _is_writing: bool = False
    _batch: Sequence[Waiting] = ()
    _idle: list[Deferred[None]] = field(factory=list)
    _level: int = 0
    _failed: SvcError | None = None
    _no_room: SvcError | None = None
    _doubt: SvcError | None = None
    """Why requests were refused when :meth:`mend` looked last, although rows could be written."""
    _defect: SvcError | None = None
    """There while what has passed cannot be written, whatever the disk says."""

    @_ahead.default
    def _before_rows(self) -> AheadQueue:
        return AheadQueue(
            write_ahead=self.files.write_ahead,
            in_thread=self.in_thread,
            written=self._passed,
            refused=self.files.give_back,
            in_turn=partial(self.clock.callLater, 0),
        )

    @property
    def not_durable(self) -> int:
        """Records that a crash would lose now."""
        return len(self._ahead) + sum(
            not isinstance(one, SpoolRequest) or one.ahead is None
            for one in (*self._batch, *self._waiting, *self._retried)
        )

    async def open(self) -> None:
        """Find what former lives left and begin a spool; a disk that refuses is only logged."""
        refusal = await self._opened()
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
            self._look_for_room(await self.in_thread(self._try_disk))
            self._report()
        else:
            self._report(await self._opened())
        self._retry()
        await self._try_ahead()

    async def _try_ahead(self) -> None:
        """Where no request was refused since the last look, see whether one still would be."""
        doubt, self._doubt = self._doubt, self._ahead.refusal
        if doubt is None or doubt is not self._ahead.refusal:
            return
        outcome = await self.in_thread(partial(self.files.write_ahead, ()))
        if self._ahead.refusal is doubt:  # no request was written meanwhile
            self._ahead.refusal = self._doubt = outcome

    async def _opened(self) -> SvcError | None:
        """Begin a spool; returns why there is none."""

        def begun() -> tuple[Outcome, Outcome]:
            refusal = self.files.open()
            return refusal, None if refusal is not None else self._try_disk()

        refusal, no_room = await self.in_thread(begun)
        if refusal is None:
            self._look_for_room(no_room)
        return refusal

    def _try_disk(self) -> Outcome:
        return self.files.try_disk(is_ahead=self.waits)

    def check(self) -> None:
        """What would have to be recorded must not be begun while nothing can be.

        Raises:
            SvcError: the disk refused what was written last, or is full.
        """
        refusal = self._failed or self._no_room or self._defect
        if refusal is not None:
            raise refusal

    def check_requests(self) -> None:
        """As :meth:`check`, for what is asked inside a session.

        Nothing is kept from being tried: of several requests the disk may have refused one.

        Raises:
            SvcError: the last request was refused, because it could not be recorded.
        """
        self.check()
        if self._ahead.refusal is not None:
            raise self._ahead.refusal

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
        self._waiting.append(SpoolEntry(record, holder, durable))
        if not self._is_writing:
            self._begin()
        await durable

    def write_request(self, request: Recorded, holder: str) -> Deferred[None] | None:
        waiting = len(self._waiting) + len(self._retried)
        if waiting + len(self._ahead) >= MAX_WAITING:
            raise full()
        self.check()  # nothing passes while nothing can be written
        entry = self.files.take(request, holder)
        if self.waits:
            return self._ahead.write(entry)
        if self._retried:
            self._retried.append(entry)
            return None
        self._waiting.append(entry)
        if self._soon is None or waiting >= BATCH - 1:
            self._begin_in_time()
        return None

    def _passed(self, entries: Sequence[SpoolRequest]) -> None:
        """They enter rows in a moment; the number of each in its session is that of its turn."""
        if self._retried:
            self._retried += entries
            return
        self._waiting.extend(entries)
        self._begin_in_time()

    def _begin_in_time(self) -> None:
        if self._is_writing:
            return
        if len(self._waiting) >= BATCH:
            self._begin()
        else:
            self._begin_late()

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
        await self._ahead.idle()
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
            _log.error(
                "requests that passed are not on record yet: the next start of this Proxy records "
                "them"
                if self.waits
                else "requests that passed are not on record",
                requests=len(self._retried),
            )
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
        self._batch = batch
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        writing = self.in_thread(partial(self.files.commit, batch))
        writing.addCallback(self._committed, batch)
        writing.addErrback(self._broken, batch)
        writing.addCallback(lambda _: self._written())

    def _committed(self, outcomes: Sequence[Outcome], batch: Sequence[Waiting]) -> None:
        self._report(next(filter(None, outcomes), None))
        for one, refusal in zip(batch, outcomes, strict=True):
            if refusal is not None or isinstance(one, SpoolEntry):
                self._answer(one, refusal)
        if not self._retried and any(isinstance(one, SpoolRequest) for one in batch):
            self._defect = None
        self._hold_back()
        if None in outcomes:
            self.committed()

    def _broken(self, failure: Failure, batch: Sequence[Waiting]) -> None:
        """Whatever went wrong: nobody is left waiting, and nothing is granted."""
        _log.failure("writing the audit spool failed", failure)
        refusal = Unavailable(
            "the audit spool cannot be written, so no session opens and no request passes",
            reason="audit_unavailable",
        )
        for one in batch:
            self._answer(one, refusal)
        if self._retried:
            self._defect = refusal
        self._hold_back()

    def _hold_back(self) -> None:
        """What passed after a request that was not written is not written before it."""
        if self._retried:
            self._retried += [one for one in self._waiting if isinstance(one, SpoolRequest)]
            self._waiting = deque(one for one in self._waiting if isinstance(one, SpoolEntry))

    def _answer(self, one: Waiting, refusal: SvcError | None) -> None:
        if isinstance(one, SpoolRequest):
            if refusal is not None:
                self._retried.append(one)
            return
        durable = one.durable
        if durable is None or durable.called:
            return  # its writer went away
        if refusal is None:
            durable.callback(None)
        else:
            durable.errback(refusal)

    def _written(self) -> None:
        """Go on with what was asked for meanwhile, by those just answered too."""
        self._is_writing, self._batch = False, ()
        if not self._waiting:
            idle, self._idle = self._idle, []
            for one in idle:
                one.callback(None)
        elif self._idle or len(self._waiting) >= BATCH:
            self._begin()
        elif all(isinstance(one, SpoolRequest) for one in self._waiting):
            self._begin_late()  # what has passed already waits for more, as before
        else:
            self._begin()

    def _begin_late(self) -> None:
        if self._soon is None:
            wait = AHEAD_SECS if self.waits else BUFFERED_SECS
            self._soon = self.clock.callLater(wait, self._flush)

    def _report(self, refusal: SvcError | None = None) -> None:
        """Say once that the spool fills, and once that there is room again."""
        room = self.files.room
        self._failed = None if self.files.is_live else refusal or self._failed
        refusal = self._failed or self._no_room or self._defect
        if refusal is None and room.has_for_others:
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
