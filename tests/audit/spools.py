"""Spools for tests: a disk that can be made to fail, and an Authority that takes rows."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from svc.audit.log.record import Sealer
from svc.audit.spool.disk import SpoolFiles
from svc.audit.spool.entries import Extent, SpoolEntry
from svc.audit.spool.file_system import Disk
from svc.audit.spool.quota import SpoolQuota
from svc.audit.spool.rows import RowMaker
from svc.audit.spool.segments import Numbered
from svc.messages.spooled import SpoolState, batch, read_spooled, spooled_message
from svc.model.audit.events import REFUSALS_SUMMARY
from svc.model.audit.ledger import GENESIS
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.spool import SpoolRow, read_place, row_hash, verify_row
from svc.model.canonical import decode

ORIGIN = "p" * 26
KEY = Ed25519PrivateKey.from_private_bytes(b"\5" * 32)
RAW = KEY.public_key().public_bytes_raw()
ROOM = 1 << 24


class Killed(BaseException):
    """The process is no more: nothing after this happens."""


class FaultyDisk(Disk):
    """A disk that does as it is told.

    Attributes:
        cut: After so many bytes of the next write the process is killed.
        errors: By call (``write``, ``sync``, ``wipe``, ``truncate``, ``sync_directory``,
            ``try_room``): what the next one raises.
        bad_syncs: By their number in :attr:`syncs`: those that fail.
        free: Bytes that a new file, or a try, may have.
    """

    def __init__(self) -> None:
        self.cut: int | None = None
        self.errors: dict[str, BaseException] = {}
        self.syncs = 0
        self.bad_syncs: set[int] = set()
        self.free: int | None = None

    def write(self, descriptor: int, data: bytes) -> None:
        if self.cut is not None:
            os.write(descriptor, data[: self.cut % (len(data) + 1)])
            raise Killed
        if "write" in self.errors:
            os.write(descriptor, data[: len(data) // 2])
        self._fail("write")
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        if self.syncs in self.bad_syncs:
            raise OSError(errno.EIO, "no")
        self._fail("sync")

    def wipe(self, descriptor: int, begin: int, end: int) -> None:
        if "wipe" in self.errors:
            super().wipe(descriptor, begin, begin + (end - begin) // 2)
        self._fail("wipe")
        self._fit(end)
        super().wipe(descriptor, begin, end)

    def truncate(self, descriptor: int, size: int) -> None:
        self._fail("truncate")
        super().truncate(descriptor, size)

    def sync_directory(self, path: Path) -> None:
        self._fail("sync_directory")

    def try_room(self, path: Path, size: int) -> None:
        self._fail("try_room")
        self._fit(size)

    def _fit(self, size: int) -> None:
        if self.free is not None and size > self.free:
            raise OSError(errno.ENOSPC, "no")

    def _fail(self, call: str) -> None:
        if call in self.errors:
            raise self.errors.pop(call)


_numbers = count(1)


def entropy(count: int) -> bytes:
    """Never the same twice."""
    return next(_numbers).to_bytes(count, "big")


def maker(origin: str = ORIGIN) -> RowMaker:
    """Of one origin, with the one key."""
    return RowMaker(
        origin=origin, key=KEY, sealer=Sealer(entropy), now=lambda: 1_763_733_600.0, entropy=entropy
    )


def files(
    root: Path, disk: Disk | None = None, room: int = ROOM, segment: int = 4096
) -> SpoolFiles:
    """The spools in *root*, not opened."""
    return SpoolFiles(
        root=root,
        maker=maker(),
        room=SpoolQuota(room),
        disk=disk or FaultyDisk(),
        segment_bytes=segment,
    )


def record(name: str = "r", size: int = 0) -> AuditRecord:
    """A record by which its row can be known again."""
    return AuditRecord(
        event_id=name,
        time=1_763_733_600.5,
        event=REFUSALS_SUMMARY,
        actor=Actor("node", ORIGIN),
        origin=ORIGIN,
        reason="x" * size or None,
        details={"count": 1},
    )


def written(spool: SpoolFiles, *names: str, holder: str | None = None) -> list[str]:
    """Write records of these names; why each was refused, or an empty word."""
    outcomes = spool.commit([SpoolEntry(record(name), holder) for name in names])
    return [one.reason if one else "" for one in outcomes]


def name_of(row: SpoolRow) -> str:
    """The name of a row's record, or its event's where it is the spool's own."""
    form = decode(row.canonical)
    assert isinstance(form, dict)
    word = form["event_id"] if form["event"] == REFUSALS_SUMMARY.name else form["event"]
    assert isinstance(word, str)
    return word


def kept(spool: SpoolFiles, extent: Extent) -> list[Numbered]:
    """All rows of one spool that it still gives out."""
    found: list[Numbered] = []
    while more := spool.rows(extent.spool_id, found[-1][0] + 1 if found else extent.first):
        found += more
    return found


def names(spool: SpoolFiles) -> list[list[tuple[int, str]]]:
    """Of each spool: its rows, by number and name."""
    return [[(n, name_of(row)) for n, row in kept(spool, one)] for one in spool.spools()]


class Taken:
    """What an Authority has of spools; it takes rows in order, each once, signed and chained.

    Attributes:
        seen: Every row that ever came, by spool and number.
    """

    def __init__(self, origin: str = ORIGIN) -> None:
        self.origin = origin
        self.seen: dict[tuple[str, int], SpoolRow] = {}
        self.received: dict[str, list[SpoolRow]] = {}
        self.covered: dict[str, int] = {}

    def take(self, spool_id: str, rows: Sequence[SpoolRow]) -> SpoolState:
        """Take a batch; raises AssertionError at what no honest origin sends."""
        sent_id, sent = read_spooled(spooled_message(spool_id, rows))
        assert batch(sent) == sent == tuple(rows)
        for row in sent:
            origin, place = read_place(row.canonical)
            assert (origin, place.spool_id) == (self.origin, sent_id)
            verify_row(row, RAW)
            known = self.seen.setdefault((sent_id, place.n), row)
            assert known == row, f"two rows with the number {place.n}"
            mine = self.received.setdefault(sent_id, [])
            if place.n == len(mine) + 1:
                assert place.prev == (row_hash(mine[-1].canonical) if mine else GENESIS)
                mine.append(row)
        return self.state(spool_id)

    def state(self, spool_id: str) -> SpoolState:
        """How far it has a spool."""
        return SpoolState(len(self.received.get(spool_id, ())), self.covered.get(spool_id, 0))

    def cover(self, spool_id: str) -> None:
        """A head covers all that was received."""
        self.covered[spool_id] = len(self.received.get(spool_id, ()))

    def go_back(self, spool_id: str) -> None:
        """What no head covers is not there any more."""
        del self.received.get(spool_id, [])[self.covered.get(spool_id, 0) :]
