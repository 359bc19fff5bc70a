"""The spools of one origin on its disk: it writes one and only reads the former ones.

Everything here blocks, and is called from one thread at a time.  What a commit
is asked to write is on the disk when it returns, or its writer is refused.
After a failure nobody knows what the disk holds, so the file that failed is
never written again: the next commit begins a new spool, and a disk that was
full heals by itself.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, field
from twisted.logger import Logger

from svc.audit.spool.batches import in_batches
from svc.audit.spool.entries import (
    Extent,
    Outcome,
    SpoolEntry,
    SpoolRequest,
    SpoolWrite,
    Waiting,
)
from svc.audit.spool.entry.forms import Recorded
from svc.audit.spool.file_system import Disk
from svc.audit.spool.framing import framed
from svc.audit.spool.quota import SEGMENT_COST, SpoolQuota
from svc.audit.spool.refusals import closed, disk_full, full, refusal_of, why
from svc.audit.spool.rows import RowMaker
from svc.audit.spool.segments import (
    LiveSpool,
    Numbered,
    Segment,
    StoredSpool,
    newest_requests,
    stored_spools,
)
from svc.audit.spool.write_ahead import WriteAhead
from svc.errors import SvcError
from svc.messages.spooled import row_message
from svc.model.audit.record import AuditRecord
from svc.model.audit.spool import SpoolPlace
from svc.model.ids import random_id
from svc.runtime import durable

_log = Logger(namespace="svc_audit")

SEGMENT_BYTES = 1 << 20
"""A file that is longer is followed by another: room comes free a file at a time."""

REQUEST_COST = 2048
"""Taken of the room for what is around a request, until it is known how many share that."""

AHEAD = "ahead"
"""Beside the spools: the directory of requests that are in no row yet."""

MAX_FORMER = 250
"""So many former spools are named where a new one is announced."""


class _Gone(Exception):
    """The files were taken away under us."""


@define(eq=False)
class SpoolFiles:
    """See the module.

    Attributes:
        root: A private directory; made if it is not there.
        room: What may be taken of the disk.
    """

    root: Path
    maker: RowMaker
    room: SpoolQuota
    disk: Disk = field(factory=Disk)
    segment_bytes: int = SEGMENT_BYTES
    _stored: dict[str, StoredSpool] = field(factory=dict)
    _live: LiveSpool | None = None
    _left: list[SpoolRequest] = field(factory=list)
    """Of former lives, and in no row yet."""
    _covered: dict[str, int] = field(factory=dict)
    """Rows that may go, by spool."""
    _is_found: bool = False
    _is_closed: bool = False
    _ahead: WriteAhead = field(init=False)

    @_ahead.default
    def _beside_the_spools(self) -> WriteAhead:
        return WriteAhead(root=self.root / AHEAD, origin=self.maker.origin, disk=self.disk)

    def open(self) -> Outcome:
        """Find what former lives left, and begin a spool; called first, and after a failure.

        Returns:
            Why no spool could be begun; the next commit tries again.
        """
        return closed() if self._is_closed else self._commit((), [])

    def try_disk(self, *, is_ahead: bool) -> Outcome:
        """Check for a full disk while nobody writes; return why nothing could be written.

        Args:
            is_ahead: Requests are written ahead, so that the next one may need a new file for that.
        """
        needed = durable.TRIED_BYTES + (self._ahead.next_file_bytes if is_ahead else 0)
        try:
            self.disk.try_room(self.root, needed)
        except OSError as e:
            if durable.is_full(e):
                return disk_full()
        return None

    def _file(self, error: OSError) -> str:
        """The file that an error is about, for whoever has to make room beside it."""
        live = self._live
        if error.filename or live is None or not live.stored.segments:
            return str(error.filename or self.root)
        return str(live.stored.segments[-1].path)

    @property
    def is_live(self) -> bool:
        """Whether a spool can be written: not after the disk refused, until it is tried again."""
        return self._live is not None

    def commit(self, entries: Sequence[Waiting]) -> list[Outcome]:
        """Write the records of *entries* in their order; each has its outcome."""
        outcomes: list[Outcome] = [None] * len(entries)
        refusal = closed() if self._is_closed else self._commit(entries, outcomes)
        return [one or refusal for one in outcomes]

    def write_ahead(self, requests: Sequence[SpoolRequest]) -> Outcome:
        """Write requests before they are in rows: they may pass, and are committed a moment later.

        Where there are none, it is tried whether they could be written.

        Returns:
            Why none of them may pass.
        """
        if self._is_closed:
            return closed()
        try:
            self._find()
            self.maker.seal(requests)
            run = self._ahead.append([one.sealed for one in requests])
        except OSError as e:
            _log.error("requests cannot be written ahead", reason=why(e), file=self._file(e))
            return refusal_of(e)
        for one in requests:
            one.ahead = run
        return None

    def close(self) -> Outcome:
        """End the spool in order: its last row says so, and no other follows."""
        outcome: Outcome = None
        if not self._is_closed and self._live is not None:
            [outcome] = self.commit([SpoolEntry(self.maker.closing)])
        self._is_closed = True
        if self._live is not None:
            self._live.leave()
        self._ahead.close()
        return outcome

    def spools(self) -> tuple[Extent, ...]:
        """All that hold rows, the one that is written last."""
        return tuple(Extent(one.spool_id, one.first, one.last) for one in self._stored.values())

    def rows(self, spool_id: str, first: int) -> tuple[Numbered, ...]:
        """Rows of a spool from number *first* on, as many as one call carries."""
        spool = self._stored.get(spool_id)
        return () if spool is None else spool.rows(first)

    def covered(self, spool_id: str, n: int) -> None:
        """Rows up to *n* are under a signed head: they may go."""
        self._covered[spool_id] = max(n, self._covered.get(spool_id, 0))
        self._settle()

    def _settle(self) -> None:
        """Make durable which requests are in rows, and remove the rows that are covered.

        Rows stay until then: without them, a start would put their requests in rows again.
        """
        try:
            self._ahead.settle()
        except OSError:
            return  # it is tried again before another row is written
        covered, self._covered = self._covered, {}
        for spool_id, n in covered.items():
            spool = self._stored.get(spool_id)
            if spool is not None:
                self._remove_covered(spool, n)

    def _remove_covered(self, spool: StoredSpool, n: int) -> None:
        is_live = self._live is not None and spool is self._live.stored
        self._free(spool.covered(n, keep=1 if is_live else 0))
        if not is_live and n >= spool.last:
            self._free(spool.remove())
            del self._stored[spool.spool_id]

    def take(self, request: Recorded, holder: str) -> SpoolRequest:
        """Check a request and take room for it; it has to be committed or given back.

        Touches no file, so whoever is about to let the request pass calls it.

        Raises:
            SvcError: it may not be written, or there is no room for it.
        """
        form = self.maker.checked(request)
        cost = form.size + form.beside + REQUEST_COST
        if not self.room.take(cost, holder):
            raise full()
        return SpoolRequest((form, request), holder, cost)

    def give_back(self, requests: Sequence[SpoolRequest]) -> None:
        """Give back the room of requests that are not written."""
        for one in requests:
            cost, holder = one.cost, one.holder
            self.room.give_back(cost, {holder: cost} if cost and holder is not None else {})

    def _free(self, segments: Sequence[Segment]) -> None:
        for one in segments:
            self.room.give_back(one.cost, one.held)

    def _commit(self, entries: Sequence[Waiting], outcomes: list[Outcome]) -> Outcome:
        """Write; returns why nothing was written, where it was not."""
        for _ in range(2):
            outcomes[:] = [None] * len(entries)
            try:
                self._write(self._tail(), entries, outcomes)
                return None
            except _Gone:
                # What is not acknowledged is written again, into a new spool.
                self._lost()
            except OSError as e:
                _log.error("the audit spool cannot be written", reason=why(e), file=self._file(e))
                self._abandon()
                return refusal_of(e)
            except SvcError as refusal:
                return refusal
            except Exception:
                self._abandon()
                raise
        return refusal_of(FileNotFoundError(errno.ENOENT, "its directory was removed"))

    def _find(self) -> None:
        """Look for what former lives left, once.  Raises OSError."""
        if self._is_found:
            return
        self.root.mkdir(mode=0o700, exist_ok=True)
        self.disk.sync_directory(self.root.parent)
        spools = stored_spools(self.root)
        self._left = [
            SpoolRequest.of_former_life(one, one.size + REQUEST_COST)
            for one in self._ahead.left(lambda: newest_requests(spools))
        ]
        for spool in spools:
            self._stored[spool.spool_id] = spool
            self.room.found(sum(one.cost for one in spool.segments))
        self.room.found(sum(one.cost for one in self._left))
        self._is_found = True
        if not self.room.has_for_others:
            _log.error(
                "an earlier run left more audit records than proxy.spool_max_bytes has room for: "
                "no session opens until the Authority has accepted some of them; to open sessions "
                "before that, raise proxy.spool_max_bytes and restart",
                used=self.room.used,
                most=self.room.most,
            )

    def _tail(self) -> LiveSpool:
        """The spool to write to, with a file that is open."""
        self._find()
        live = self._live
        if live is None:
            live = self._begin()
        # Of a file that is open it is asked once it is written: then it counts.
        elif live.descriptor < 0 and not live.is_there:
            raise _Gone
        if live.descriptor < 0:
            self._open_segment(live)
        return live

    def _begin(self) -> LiveSpool:
        spool_id = random_id(self.maker.entropy)
        path = self.root / spool_id
        self.root.mkdir(mode=0o700, exist_ok=True)
        self.disk.sync_directory(self.root.parent)  # it may have been removed meanwhile
        path.mkdir(mode=0o700)
        live = self._live = LiveSpool(StoredSpool(spool_id, path))
        return live

    def _take(self, size: int, holder: str | None = None) -> bool:
        """Take room, if there is any.

        What former lives left enters rows whatever room there is: it has its room already, and
        nothing else would ever make any.
        """
        if self._left and holder is None:
            self.room.found(size)
            return True
        return self.room.take(size, holder)

    def _open_segment(self, live: LiveSpool) -> None:
        if not self._take(SEGMENT_COST):
            self._give_up_empty(live)
            raise full()
        stored = live.stored
        path = stored.path / f"{stored.last + 1:016d}.rows"
        stored.segments.append(Segment(path, stored.last + 1, stored.last))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        live.descriptor = os.open(path, flags, 0o600)

    def _write(self, live: LiveSpool, entries: Sequence[Waiting], outcomes: list[Outcome]) -> None:
        stored = live.stored
        batch = SpoolWrite(SpoolPlace(stored.spool_id, stored.last + 1, live.prev))
        try:
            self._ahead.settle()
            if not stored.last:
                self._add(batch, SpoolEntry(self._opening))
            requests = [one for one in entries if isinstance(one, SpoolRequest)]
            if len(requests) < len(entries):
                self._add_all(batch, entries, outcomes)
            self.maker.seal(requests)
            # Apart: on a disk that was put back, the Authority may have what was left already.
            self._add_requests(batch, self._left)
            self._add_requests(batch, requests)
            if batch.rows:
                self._make_durable(live, bytes(batch.data))
        except Exception:
            self.room.give_back(batch.taken, batch.held)
            self._give_up_empty(live)
            raise
        live.prev = batch.place.prev
        self._acknowledged(live, batch)

    def _add_all(
        self, batch: SpoolWrite, entries: Sequence[Waiting], outcomes: list[Outcome]
    ) -> None:
        """Make the rows of what is no request; each has its outcome."""
        for number, entry in enumerate(entries):
            if isinstance(entry, SpoolEntry):
                try:
                    self._add(batch, entry)
                except SvcError as refusal:
                    outcomes[number] = refusal

    def _add(self, batch: SpoolWrite, entry: SpoolEntry) -> None:
        """Make the row of an entry, where there is room for it.  Raises SvcError."""
        if not self._left and not self.room.has(1, entry.holder):
            raise full()
        place, record = batch.place, entry.record
        if not isinstance(record, AuditRecord):
            record = record(place.spool_id, place.n)
        row = self.maker.row(record, place)
        data = framed(place.n, row_message(row).SerializeToString())
        if not self._take(len(data), entry.holder):
            raise full()
        batch.taken += len(data)
        if entry.holder is not None:
            batch.held[entry.holder] = batch.held.get(entry.holder, 0) + len(data)
        batch.add(row, data)

    def _add_requests(self, batch: SpoolWrite, requests: Sequence[SpoolRequest]) -> None:
        """Make the rows of requests for which room was taken."""
        for part in in_batches(requests):
            row = self.maker.batch([one.sealed for one in part], batch.place, batch.numbers)
            data = framed(batch.place.n, row_message(row).SerializeToString())
            left = batch.pay(part, len(data))
            self.room.found(left)
            batch.taken += left
            batch.add(row, data)

    def _opening(self, spool_id: str, _: int) -> AuditRecord:
        """Names the spools that are kept, newest last, with the numbers of their last rows."""
        newest = list(self._stored.values())[-MAX_FORMER:]
        former = tuple(f"{one.spool_id}:{one.last}" for one in newest)
        return self.maker.opening(spool_id, former)

    def _make_durable(self, live: LiveSpool, data: bytes) -> None:
        stored = live.stored
        segment = stored.segments[-1]
        self.disk.write(live.descriptor, data)
        self.disk.sync(live.descriptor)
        if not segment.size:
            self.disk.sync_directory(stored.path)
            if len(stored.segments) == 1:
                self.disk.sync_directory(self.root)
        if not live.is_there:
            raise _Gone

    def _acknowledged(self, live: LiveSpool, batch: SpoolWrite) -> None:
        stored = live.stored
        segment = stored.segments[-1]
        self._stored[stored.spool_id] = stored
        segment.size += len(batch.data)
        for holder, count in (*batch.held.items(), *batch.needed.items()):
            if holder is not None:
                segment.held[holder] = segment.held.get(holder, 0) + count
        self.room.give_back(*batch.over())
        for session, n in batch.numbers.items():
            session.last = n
        for n, row in batch.rows:
            segment.last = n
            stored.remember(n, row)
        if segment.size >= self.segment_bytes:
            live.leave()
        self._in_rows(batch.requests)

    def _in_rows(self, requests: Sequence[SpoolRequest]) -> None:
        """They need not be kept in any other place any more."""
        runs = Counter([one.ahead for one in requests])
        self._ahead.in_rows({run: count for run, count in runs.items() if run is not None})
        if self._left:
            self._left = []
            self._ahead.forget_former()
        self._settle()

    def _abandon(self) -> None:
        """Never write that file again; what of it was acknowledged is delivered."""
        live, self._live = self._live, None
        if live is None:
            return
        if not live.stored.last:
            self._give_up_empty(live)
        elif live.descriptor >= 0:
            with suppress(OSError):
                os.ftruncate(live.descriptor, live.stored.segments[-1].size)
        live.leave()
        for stored in self._stored.values():
            if stored is not live.stored and stored.segments:
                stored.forget()

    def _give_up_empty(self, live: LiveSpool) -> None:
        """Leave nothing behind of a spool that holds no row."""
        if live.stored.last == 0:
            live.leave()
            self._free(live.stored.remove())
            self._live = None

    def _lost(self) -> None:
        """The live spool's files are gone: what is in memory of it is still delivered."""
        live, self._live = self._live, None
        if live is None:
            return
        stored = live.stored
        live.leave()
        self._free(list(stored.segments))
        stored.segments.clear()
        # It is still named by the next one, so that what is lost of it is missed.
        _log.error(
            "the directory of the audit spool was removed",
            spool=stored.spool_id,
            kept=len(stored.recent),
        )
