"""Requests on the disk before they are in a row: a write-ahead log (ADR 64).

A row is signed, hashed and linked, and costs the Authority a transaction, so it
should hold many requests.  But where ``audit.requests`` is ``durable``, no request
may pass before it is on the disk.  So each is written here first, without a
signature, and enters a row with others a moment later.  What a crash leaves here
enters a row of the next life.

There are two files, written in turn: zeros are written over what is in rows, and
a file is begun anew once all of it is.  They are made with their full size and
written over, since the disk takes twice as long where the size of a file changes.
Everything here blocks, and is called from one thread at a time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from twisted.logger import Logger

from svc.audit.spool.ahead_texts import (
    AheadContents,
    acknowledged,
    note_text,
    request_text,
)
from svc.audit.spool.aside import move_aside
from svc.audit.spool.file_system import Disk, is_at
from svc.audit.spool.framing import framed, framed_run
from svc.model.audit.request import SealedRequest, SessionNumbers

_log = Logger(namespace="svc_audit")

FILE_BYTES = 256 * 1024
"""Once a file is full, the other one is written, if it is empty; else it grows."""

_SUFFIX = ".requests"


@define(eq=False)
class AheadFile:
    """One of the two files.

    Attributes:
        head: Bytes before the first request.
        size: Bytes that count.
        left: How many of its requests are in no row yet.
        in_rows: Bytes up to the end of the newest write of which all requests are in rows.
        is_split: Of the write after these, some are.
        wiped: Bytes up to the end of what is zeros, or the head.
    """

    path: Path
    descriptor: int
    head: int
    size: int
    left: int = 0
    in_rows: int = 0
    is_split: bool = False
    wiped: int = 0

    @property
    def is_to_wipe(self) -> bool:
        """Whether something in it is in rows."""
        return self.in_rows > self.wiped or (not self.left and self.size > self.head)


@define(eq=False)
class AheadRun:
    """The requests that one write put on the disk; they enter rows in their order.

    Attributes:
        last: The number of the last one in the order of writing.
        end: The byte after it in its file.
        left: How many of them are in no row yet.
    """

    file: AheadFile
    last: int
    end: int
    left: int


@define(eq=False)
class WriteAhead:
    """See the module.

    Attributes:
        root: A private directory; made with the first request.
        origin: The node that lets the requests pass; what an earlier node of another id left in
            its place is never recorded as this one's.
    """

    root: Path
    origin: str
    disk: Disk
    file_bytes: int = FILE_BYTES
    _files: list[AheadFile] = field(factory=list, init=False)
    """The one that is written first."""
    _abandoned: list[AheadFile] = field(factory=list, init=False)
    """Files that failed, and hold what is in no row yet."""
    _stale: set[Path] = field(factory=set, init=False)
    """Files to be removed, of which all is in rows."""
    _is_removing: bool = field(default=False, init=False)
    """Whether a removal may still come undone."""
    _former: dict[Path, bool] = field(factory=dict, init=False)
    """Files of former lives, and whether each is damaged."""
    _cuts: list[list[Any]] = field(factory=list, init=False)
    """Files whose end was refused and is still there: their names, and how much of each counts."""
    _is_cut_owed: bool = field(default=False, init=False)
    """Whether no other file says so yet."""
    _written: int = field(default=0, init=False)
    _in_rows: int = field(default=0, init=False)
    """All requests up to this number are."""
    _is_owed: bool = field(default=False, init=False)
    """Whether the files do not say so yet."""
    _named: int = field(default=0, init=False)

    def append(self, requests: Sequence[SealedRequest]) -> AheadRun:
        """Write requests that are about to pass; returns once they are durable.

        Each takes the next number of its session.  Where there are none, a note is written: what
        was refused before may succeed now.

        Raises:
            OSError: none of them may pass, and their numbers are free again.
        """
        numbers: dict[SessionNumbers, int] = {}
        texts: list[bytes] = []
        first = self._written + 1
        for one in requests:
            session = one.numbers
            n = numbers[session] = numbers.get(session, session.ahead) + 1
            texts.append(request_text(one, n, first))
        note = framed(0, note_text({"cuts": self._cuts}))
        file = self._durable(framed_run(first, texts) if texts else note)
        self._written += len(requests)
        file.left += len(requests)
        for session, n in numbers.items():
            session.ahead = n
        return AheadRun(file, last=self._written, end=file.size, left=len(requests))

    @property
    def next_file_bytes(self) -> int:
        """What the disk must still have for the next file; 0 where none is made any more."""
        return self.file_bytes if len(self._files) < 2 else 0

    def in_rows(self, counts: Mapping[AheadRun, int]) -> None:
        """Requests are in durable rows; :meth:`settle` is called before any other row is.

        Args:
            counts: How many of each run are, beside those that were before; oldest run first.
        """
        for run, count in counts.items():
            run.left -= count
            file = run.file
            file.left -= count
            file.is_split = run.left > 0
            if not run.left:
                file.in_rows = run.end
            self._in_rows = max(self._in_rows, run.last - run.left)
        self._is_owed = self._is_owed or bool(counts)

    def settle(self) -> None:
        """Make durable which requests are in rows, so that no start puts them in rows again.

        Raises:
            OSError: no other row may be written before it is.
        """
        if not self._is_owed:
            return
        self._remove_stale()
        for file in [one for one in self._files if one.is_to_wipe]:
            self._wipe(file)
        self._remove_stale()  # what could not be wiped
        if self._stale or self._abandoned or any(one.is_split for one in self._files):
            self._durable(framed(0, note_text({"in_rows": self._in_rows, "cuts": self._cuts})))
        self._is_owed = False

    def _remove_stale(self) -> None:
        """Remove files for good: after a power cut, the requests in them would enter rows again."""
        for file in [one for one in self._abandoned if not one.left]:
            self._abandoned.remove(file)
            self._stale.add(file.path)
        self._is_removing = self._is_removing or bool(self._stale)
        self._stale = {one for one in self._stale if not _is_removed(one)}
        if self._is_removing and self.root.is_dir():
            self.disk.sync_directory(self.root)
        self._is_removing = False
        here = {one.name for one in self._stale} | {one.path.name for one in self._abandoned}
        self._cuts = [[name, size] for name, size in self._cuts if name in here]

    def close(self) -> None:
        """Write no more; only files whose requests are in no row stay."""
        files, self._files = self._files, []
        for file in files:
            os.close(file.descriptor)
        if self._is_owed:
            return  # the files may say which requests of other files are in rows
        for file in (*files, *self._abandoned):
            if not file.left:
                _is_removed(file.path)

    def left(self, newest: Callable[[], Mapping[str, int]]) -> list[SealedRequest]:
        """What former lives let pass and did not put in rows, in its order; called before all else.

        Args:
            newest: The number of each session's newest request in a row, if the last write to a
                spool put it there: of no other can it be unknown whether it is in a row.

        Raises:
            OSError: the directory cannot be read.
        """
        found = self._found()
        cuts = {str(name): int(size) for read in found for name, size in read.cuts}
        counted = (
            one
            for read in found
            for one in read.requests
            if one.end <= cuts.get(read.name, one.end)
        )
        after = max((read.in_rows for read in found), default=0)
        kept = sorted((one for one in counted if one.at > after), key=lambda one: one.at)
        if not any(self._former.values()):
            kept = acknowledged(kept, after)
        self._written = max(after, kept[-1].at if kept else 0)
        in_rows = newest() if kept else {}
        numbers: dict[str, SessionNumbers] = {}
        left = []
        for one in kept:
            uid, n = one.sealed.numbers.session_uid, one.session_n
            if n > in_rows.get(uid, 0):
                of = numbers.get(uid)
                if of is None or of.ahead + 1 != n:  # one before it may be damaged
                    of = numbers[uid] = SessionNumbers(uid, last=n - 1)
                of.ahead = n
                left.append(evolve(one.sealed, numbers=of))
        if not left:
            self.forget_former()
        return left

    def _found(self) -> list[AheadContents]:
        """The files of former lives whose requests are this node's."""
        found: list[AheadContents] = []
        self._former.clear()
        for path in sorted(self.root.glob(f"*{_SUFFIX}")) if self.root.is_dir() else ():
            self._named = max(self._named, int(path.stem) if path.stem.isdigit() else 0)
            read = AheadContents.of(path)
            if read.origin in ("", self.origin):
                self._former[path] = read.is_damaged
                found.append(read)
            else:
                _log.error(
                    "requests that passed under an earlier identity of this node are not recorded",
                    file=str(path),
                    requests=len(read.requests),
                )
        return found

    def forget_former(self) -> None:
        """All that former lives left is in durable rows; :meth:`settle` follows."""
        for path, is_damaged in self._former.items():
            if is_damaged:
                self._set_aside(path)
            self._stale.add(path)
        self._in_rows, self._is_owed = self._written, bool(self._stale)
        self._former.clear()

    def _set_aside(self, path: Path) -> None:
        """Keep a damaged file for whoever wants to look at it; what is whole in it is in rows."""
        kept = None
        with suppress(OSError):
            kept = move_aside(path, self.root.parent, f"{self.root.name}-{path.name}")
        _log.error(
            "requests that passed are lost: the file that held them is damaged",
            file=str(kept or path),
            is_kept=kept is not None,
        )

    def _durable(self, data: bytes) -> AheadFile:
        for _ in range(3):  # both files may be gone
            cuts = framed(0, note_text({"cuts": self._cuts})) if self._is_cut_owed else b""
            file = self._current(len(cuts) + len(data))
            try:
                self.disk.write(file.descriptor, cuts + data)
                self.disk.sync(file.descriptor)
            except OSError:
                self._leave(file)
                raise
            if is_at(file.path, file.descriptor):
                file.size += len(cuts) + len(data)
                self._is_cut_owed = False
                return file
            # Somebody removed it: what was in it is in memory, and enters a row all the same.
            self._leave(file)
        raise FileNotFoundError(errno.ENOENT, "its directory was removed", str(self.root))

    def _current(self, size: int) -> AheadFile:
        """Where the next *size* bytes are written."""
        if self._files and self._files[0].size + size <= self.file_bytes:
            return self._files[0]
        if len(self._files) < 2:
            self._files.insert(0, self._made())
        elif not self._files[1].left:
            self._files.reverse()
        return self._files[0]

    def _made(self) -> AheadFile:
        """A new file, durable with its name and its size."""
        for directory in (self.root.parent, self.root):
            directory.mkdir(mode=0o700, exist_ok=True)
            # Each time: if this failed before, what is written there may be gone after a power cut.
            self.disk.sync_directory(directory.parent)
        self._named += 1
        path = self.root / f"{self._named:08d}{_SUFFIX}"
        head = framed(0, note_text({"origin": self.origin, "cuts": self._cuts}))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            self.disk.write(descriptor, head)
            self.disk.wipe(descriptor, len(head), max(len(head), self.file_bytes))
            self.disk.sync(descriptor)
            self.disk.sync_directory(self.root)
        except BaseException:
            os.close(descriptor)
            _is_removed(path)
            raise
        at = len(head)
        return AheadFile(path=path, descriptor=descriptor, head=at, size=at, wiped=at)

    def _wipe(self, file: AheadFile) -> None:
        """Write zeros over what is in rows, and begin anew where that is all.

        Nothing older may stay: a power cut amid this leaves any part of it, and a start compares
        with the newest rows alone.
        """
        end = file.in_rows if file.left else file.size
        try:
            self.disk.wipe(file.descriptor, file.wiped, end)
            self.disk.sync(file.descriptor)
            file.wiped = end
            if not file.left:
                file.size = file.wiped = file.in_rows = file.head
                file.is_split = False
                os.lseek(file.descriptor, file.head, os.SEEK_SET)
        except OSError:
            self._leave(file)

    def _leave(self, file: AheadFile) -> None:
        """Never write a file again that failed; what counts of it stays until it is in rows."""
        self._files.remove(file)
        self._abandoned.append(file)
        self._is_owed = True
        try:
            self.disk.truncate(file.descriptor, file.size)
            self.disk.sync(file.descriptor)
        except OSError:
            # Its end was refused: the next write says how much of this file counts.
            self._cuts.append([file.path.name, file.size])
            self._is_cut_owed = True
        os.close(file.descriptor)


def _is_removed(path: Path) -> bool:
    with suppress(OSError):
        path.unlink(missing_ok=True)
        return True
    return False
