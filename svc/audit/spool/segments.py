"""One spool on disk: reads its segment files and removes them once a head covers them.

A spool is a directory named by its id, with files named by their first row's
number.  Only the process whose life the spool is appends to it; whatever is
found there at a later start is only read, so nothing of it is ever cut off or
written over.  Bytes at its end that are no row were never acknowledged.  All
of this blocks on the disk.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, field
from google.protobuf.message import DecodeError
from twisted.logger import Logger

from svc.audit.spool.aside import move_aside
from svc.audit.spool.file_system import is_at
from svc.audit.spool.framing import Damaged, Framed, frames
from svc.audit.spool.quota import SEGMENT_COST
from svc.errors import Malformed
from svc.messages.spooled import MAX_BATCH_BYTES, MAX_ROWS, batch, read_row, row_size
from svc.model.audit.batch import SESSIONS, BatchClaims, is_batch, read_headers, texts_beside
from svc.model.audit.ledger import GENESIS
from svc.model.audit.spool import FIRST_N, SpoolRow
from svc.model.canonical import decode
from svc.model.ids import is_random_id
from svc.proto.gate.v1 import control_pb2 as pb

_log = Logger(namespace="svc_audit")

_NAME = re.compile(r"[0-9]{16}\.rows\Z")

Numbered = tuple[int, SpoolRow]


@define(eq=False)
class Segment:
    """One file.

    Attributes:
        size: Bytes of it that hold acknowledged rows, as far as is known.
        held: How many of them each holder caused.
    """

    path: Path
    first: int
    last: int
    size: int = 0
    held: dict[str, int] = field(factory=dict)
    is_damaged: bool = False

    @property
    def cost(self) -> int:
        """How much of the room it uses."""
        return self.size + SEGMENT_COST


@define(eq=False)
class StoredSpool:
    """One spool, oldest segment first.

    Attributes:
        last: The number of its last acknowledged row; 0 where it has none yet.
        recent: The newest rows again, as many as one call carries: of a spool whose
            files were taken away they are all that is left.
    """

    spool_id: str
    path: Path
    segments: deque[Segment] = field(factory=deque)
    last: int = FIRST_N - 1
    recent: deque[Numbered] = field(factory=deque)
    _recent_bytes: int = 0

    @property
    def first(self) -> int:
        """The first row that is still here; past :attr:`last` where none is."""
        if self.segments:
            return self.segments[0].first
        return self.recent[0][0] if self.recent else self.last + 1

    def remember(self, n: int, row: SpoolRow) -> None:
        """Keep an acknowledged row in memory too, in the place of the oldest."""
        self.last = n
        self.recent.append((n, row))
        self._recent_bytes += row_size(row)
        while len(self.recent) > MAX_ROWS or self._recent_bytes > MAX_BATCH_BYTES:
            self._forget_oldest()

    def forget(self) -> None:
        """Keep nothing in memory any more; all of it is in files."""
        self.recent.clear()
        self._recent_bytes = 0

    def _forget_oldest(self) -> None:
        _, row = self.recent.popleft()
        self._recent_bytes -= row_size(row)

    def rows(self, first: int) -> tuple[Numbered, ...]:
        """Rows from number *first* on, as many as one call may carry; a lost one is left out."""
        found: list[Numbered] = []
        is_recent = self.recent and (self.recent[0][0] <= first or not self.segments)
        numbered = self._remembered(first) if is_recent else self._stored(first)
        taken = batch(_noted(numbered, found))
        return tuple(found[: len(taken)])

    def newest_rows(self) -> Iterator[Numbered]:
        """Those of the newest file, in which the last write of its life ended."""
        return self._stored(self.segments[-1].first) if self.segments else iter(())

    def _remembered(self, first: int) -> Iterator[Numbered]:
        return (one for one in self.recent if one[0] >= first)

    def _stored(self, first: int) -> Iterator[Numbered]:
        for segment in tuple(self.segments):
            if segment.last < first:
                continue
            for found in self._read(segment):
                if found.n < first or found.n > self.last:
                    continue
                try:
                    yield found.n, read_row(pb.SpooledRow.FromString(found.payload))
                except (DecodeError, Malformed):
                    self._damaged(segment, found.n, "a row cannot be read")

    def _read(self, segment: Segment) -> Iterator[Framed]:
        try:
            with segment.path.open("rb") as file:
                data = file.read(segment.size)
        except OSError as e:
            self._damaged(segment, segment.first, e.strerror or "cannot be read")
            return
        after = segment.first
        for found in frames(data):
            if isinstance(found, Damaged):
                self._damaged(segment, after, "bytes that are not a row")
            else:
                after = found.n + 1
                yield found

    def _damaged(self, segment: Segment, n: int, what: str) -> None:
        if not segment.is_damaged:
            segment.is_damaged = True
            _log.error(
                "rows of a spool are damaged; the rows after them are delivered",
                spool=self.spool_id,
                first_n=n,
                file=segment.path.name,
                reason=what,
            )

    def ends_at(self, n: int) -> None:
        """A later spool says that *n* was the last row acknowledged: what follows it never was."""
        for segment in self.segments:
            segment.last = min(segment.last, n)
        self.last = min(self.last, n)

    def named(self) -> Iterator[tuple[str, int]]:
        """The former spools that its announcement names, with their last rows."""
        for n, row in self.rows(FIRST_N)[:1]:
            form: Any = decode(row.canonical)
            for text in form.get("details", {}).get("former_spools", ()) if n == FIRST_N else ():
                spool_id, _, last = text.partition(":")
                if last.isdigit():
                    yield spool_id, int(last)

    def covered(self, n: int, keep: int = 0) -> list[Segment]:
        """Forget what is covered up to row *n*, and remove its files; returns what was removed.

        Args:
            keep: How many of the newest files stay all the same.
        """
        while self.recent and self.recent[0][0] <= n:
            self._forget_oldest()
        removed = []
        while len(self.segments) > keep and self.segments[0].last <= n:
            segment = self.segments.popleft()
            self._remove(segment)
            removed.append(segment)
        return removed

    def remove(self) -> list[Segment]:
        """Take the directory away; what is in memory stays.  Returns the segments it had."""
        segments = list(self.segments)
        self.segments.clear()
        for segment in segments:
            self._remove(segment)
        shutil.rmtree(self.path, ignore_errors=True)
        return segments

    def _remove(self, segment: Segment) -> None:
        with suppress(OSError):
            if segment.is_damaged:
                path = segment.path
                move_aside(path, self.path.parent, f"{self.path.name}-{path.name}")
            else:
                segment.path.unlink()


@define(eq=False)
class LiveSpool:
    """The spool of this life, and the end of its file."""

    stored: StoredSpool
    descriptor: int = -1
    prev: bytes = GENESIS

    @property
    def is_there(self) -> bool:
        """Whether the file can still be found where it was made."""
        if self.descriptor < 0:
            return self.stored.path.is_dir()
        return is_at(self.stored.segments[-1].path, self.descriptor)

    def leave(self) -> None:
        """Close the file."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def stored_spools(root: Path) -> list[StoredSpool]:
    """The spools that lie in *root*, oldest first; what holds no row is removed."""
    paths = [one for one in root.iterdir() if is_random_id(one.name) and one.is_dir()]
    found = []
    for path in sorted(paths, key=lambda one: (one.stat().st_mtime_ns, one.name)):
        spool = _stored_spool(path)
        if spool is None:
            shutil.rmtree(path, ignore_errors=True)
        else:
            found.append(spool)
    by_id = {one.spool_id: one for one in found}
    for spool in found:
        for spool_id, last in spool.named():
            if spool_id in by_id:
                by_id[spool_id].ends_at(last)
    return found


def newest_requests(spools: Iterable[StoredSpool]) -> dict[str, int]:
    """By session: the number of its newest request in the newest file of each spool."""
    newest: dict[str, int] = {}
    for spool in spools:
        for _, row in spool.newest_rows():
            form: Any = decode(row.canonical)
            if not is_batch(form):
                continue
            with suppress(Malformed):  # the Authority will say so, too
                claims = BatchClaims.of(form)
                headers = read_headers(texts_beside(row.personal)[SESSIONS], claims)
                for header, (_, last) in zip(headers, claims.spans, strict=True):
                    newest[header.session_uid] = max(last, newest.get(header.session_uid, 0))
    return newest


def _stored_spool(path: Path) -> StoredSpool | None:
    spool = StoredSpool(path.name, path)
    later: Segment | None = None
    for file in sorted((one for one in path.iterdir() if _NAME.match(one.name)), reverse=True):
        segment = Segment(path=file, first=int(file.stem), last=0, size=file.stat().st_size)
        if later is None:
            _find_end(spool, segment)
        else:
            segment.last = later.first - 1
        if segment.last >= segment.first:
            spool.segments.appendleft(segment)
            later = segment
    spool.last = spool.segments[-1].last if spool.segments else FIRST_N - 1
    return spool if spool.segments else None


def _find_end(spool: StoredSpool, segment: Segment) -> None:
    """Set the number of a segment's last whole row, and where that ends."""
    rows = [one for one in frames(segment.path.read_bytes()) if isinstance(one, Framed)]
    end = rows[-1].end if rows else 0
    if end < segment.size:
        _log.info(
            "a spool ends with a row that was never acknowledged",
            spool=spool.spool_id,
            file=segment.path.name,
            bytes=segment.size - end,
        )
    segment.size = end
    segment.last = rows[-1].n if rows else 0


def _noted(numbered: Iterator[Numbered], into: list[Numbered]) -> Iterator[SpoolRow]:
    for one in numbered:
        into.append(one)
        yield one[1]
