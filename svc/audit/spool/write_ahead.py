"""Requests on the disk before they are in a row: a write-ahead log (ADR 64).

A row is signed, hashed and linked, and costs the Authority a transaction, so it
should hold many requests; but where ``audit.requests`` is ``durable``, none may
pass before it is on the disk.  So each is written here first, as it is and
without a signature, and enters a row with others a moment later.  What a crash
leaves here enters a row of the next life.

There are two files, written in turn: each is emptied once all of its requests
are in rows, so neither grows for long.  Everything here blocks, and is called
from one thread at a time.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.logger import Logger

from svc.audit.spool.file_system import Disk, is_at
from svc.audit.spool.framing import Framed, framed, frames
from svc.model.audit.request import SealedRequest, SessionNumbers
from svc.runtime import durable

_log = Logger(namespace="svc_audit")

FILE_BYTES = 128 * 1024
"""Once a file is longer, the other one is written, if it is empty."""

DAMAGED = ".damaged"
_SUFFIX = ".requests"


@define(eq=False)
class AheadFile:
    """One of the two files.

    Attributes:
        head: Bytes before the first request.
        size: Bytes that count.
        left: How many of its requests are in no row yet.
    """

    path: Path
    descriptor: int
    head: int
    size: int
    left: int = 0


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
    _former: dict[Path, bool] = field(factory=dict, init=False)
    """Files of former lives, and whether each is damaged."""
    _cuts: list[list[Any]] = field(factory=list, init=False)
    _written: int = field(default=0, init=False)
    _named: int = field(default=0, init=False)

    def append(self, requests: Sequence[SealedRequest]) -> AheadFile:
        """Write requests that are about to pass; returns the file, once they are durable in it.

        Each takes the next number of its session.

        Raises:
            OSError: none of them may pass, and their numbers are free again.
        """
        numbers: dict[SessionNumbers, int] = {}
        data = bytearray()
        for at, one in enumerate(requests, self._written + 1):
            n = numbers.get(one.numbers, one.numbers.ahead) + 1
            numbers[one.numbers] = n
            data += framed(at, _text(one, n))
        file = self._durable(bytes(data))
        self._written += len(requests)
        file.left += len(requests)
        for session, n in numbers.items():
            session.ahead = n
        return file

    def in_rows(self, file: AheadFile, count: int) -> None:
        """So many requests of a file are in durable rows now; the last ones empty it."""
        file.left -= count
        if file.left:
            return
        if file not in self._files:
            _remove(file.path)
            return
        try:
            # Durable before anything else is: a row that a head covers leaves the disk, and what
            # is in it must not come back from here.
            self.disk.truncate(file.descriptor, file.head)
            self.disk.sync(file.descriptor)
            file.size = file.head
        except OSError:
            self._leave(file)

    def close(self) -> None:
        """Write no more; only files whose requests are in no row stay."""
        files, self._files = self._files, []
        for file in files:
            os.close(file.descriptor)
            if not file.left:
                _remove(file.path)

    def left(self, newest: Callable[[], Mapping[str, int]]) -> list[SealedRequest]:
        """What former lives let pass and did not put in rows, in its order; called before all else.

        Args:
            newest: The number of each session's newest request in a row, if the last write to a
                spool put it there: a crash leaves no other request in both places.

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
        kept = sorted(counted, key=attrgetter("at"))
        in_rows = newest() if kept else {}
        numbers: dict[str, SessionNumbers] = {}
        left = []
        for one in kept:
            uid, n = one.sealed.numbers.session_uid, one.session_n
            if n > in_rows.get(uid, 0):
                of = numbers.setdefault(uid, SessionNumbers(uid, last=n - 1))
                left.append(evolve(one.sealed, numbers=of))
        return left

    def _found(self) -> list[_Read]:
        """The files of former lives whose requests are this node's."""
        found: list[_Read] = []
        self._former.clear()
        for path in sorted(self.root.glob(f"*{_SUFFIX}")) if self.root.is_dir() else ():
            self._named = max(self._named, int(path.stem) if path.stem.isdigit() else 0)
            read = _Read.of(path)
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
        """What former lives left is in durable rows."""
        for path, is_damaged in self._former.items():
            if is_damaged:
                _set_aside(path)
            else:
                _remove(path)
        self._former.clear()

    def _durable(self, data: bytes) -> AheadFile:
        for _ in range(2):
            file = self._current()
            try:
                self.disk.write(file.descriptor, data)
                self.disk.sync(file.descriptor)
            except OSError:
                self._leave(file)
                raise
            if is_at(file.path, file.descriptor):
                file.size += len(data)
                return file
            # Somebody removed it: what was in it is in memory, and enters a row all the same.
            self._leave(file)
        raise FileNotFoundError(errno.ENOENT, "its directory was removed", str(self.root))

    def _current(self) -> AheadFile:
        if self._files and self._files[0].size < self.file_bytes:
            return self._files[0]
        if len(self._files) < 2:
            self._files.insert(0, self._made())
        elif not self._files[1].left:
            self._files.reverse()
        return self._files[0]

    def _made(self) -> AheadFile:
        """A new file, durable with its name."""
        if not self.root.is_dir():
            self.root.mkdir(mode=0o700, parents=True)
            self.disk.sync_directory(self.root.parent)
        self._named += 1
        path = self.root / f"{self._named:08d}{_SUFFIX}"
        head = framed(0, _json({"origin": self.origin, "cuts": self._cuts}))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            self.disk.write(descriptor, head)
            self.disk.sync(descriptor)
            self.disk.sync_directory(self.root)
        except BaseException:
            os.close(descriptor)
            _remove(path)
            raise
        return AheadFile(path=path, descriptor=descriptor, head=len(head), size=len(head))

    def _leave(self, file: AheadFile) -> None:
        """Never write a file again that failed; what counts of it stays until it is in rows."""
        self._files.remove(file)
        try:
            self.disk.truncate(file.descriptor, file.size)
            self.disk.sync(file.descriptor)
        except OSError:
            # Its end was refused: the next file says how much of this one counts.
            self._cuts.append([file.path.name, file.size])
        os.close(file.descriptor)
        if not file.left:
            _remove(file.path)


@frozen
class _Written:
    """A request as a file holds it.

    Attributes:
        at: Its place in the order of writing.
        end: The byte after it.
        session_n: Its number among the requests of its session.
        sealed: Its ``numbers`` are its own, and name the session alone.
    """

    at: int
    end: int
    session_n: int
    sealed: SealedRequest


@frozen
class _Read:
    """What a file of a former life holds.

    Attributes:
        origin: Empty where not even that can be read.
        cuts: Of files before it: their names, and how many bytes of each count.
    """

    name: str
    origin: str
    cuts: list[Any]
    requests: list[_Written]
    is_damaged: bool

    @classmethod
    def of(cls, path: Path) -> _Read:
        """Read it.  Raises OSError."""
        found = list(frames(path.read_bytes()))
        # Bytes at the end that are no whole request were never acknowledged.
        while found and not isinstance(found[-1], Framed):
            found.pop()
        head, requests = _head(found[0]) if found else {}, list(_requests(found[1:]))
        return cls(
            name=path.name,
            origin=head.get("origin", ""),
            cuts=head.get("cuts", []),
            requests=requests,
            is_damaged=bool(found) and (not head or len(requests) < len(found) - 1),
        )


def _head(first: object) -> dict[str, Any]:
    form = json.loads(first.payload) if isinstance(first, Framed) and first.n == 0 else {}
    return form if isinstance(form, dict) else {}


def _requests(found: Sequence[object]) -> Iterator[_Written]:
    for one in found:
        if isinstance(one, Framed) and one.n:
            session_n, sealed = _read(one.payload)
            yield _Written(at=one.n, end=one.end, session_n=session_n, sealed=sealed)


def _text(one: SealedRequest, n: int) -> bytes:
    values = [[path, salt.hex(), value] for path, salt, value in one.values]
    about = [one.numbers.session_uid, n, *one.common, one.decision_id, one.size]
    return _json([*about, one.before, one.after, values])


def _read(payload: bytes) -> tuple[int, SealedRequest]:
    """What :func:`_text` wrote: the frame's checksum says that it is unchanged."""
    form: Any = json.loads(payload)
    uid, n, version, digest, type_, decision_id, size, before, after, values = form
    sealed = SealedRequest(
        numbers=SessionNumbers(uid),
        common=(version, digest, type_),
        decision_id=decision_id,
        before=before,
        after=after,
        values=[(path, bytes.fromhex(salt), value) for path, salt, value in values],
        size=size,
    )
    return n, sealed


def _json(form: Any) -> bytes:
    return json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _set_aside(path: Path) -> None:
    """Keep a damaged file for whoever wants to look at it; what is whole in it is recorded."""
    aside = path.with_suffix(DAMAGED)
    with suppress(OSError):
        durable.move(path, aside)
    _log.error("requests that passed are lost: the file that held them is damaged", file=str(aside))
