"""The files of a backup as one tar stream, written and read piece by piece."""

from __future__ import annotations

import json
import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, BinaryIO

from attrs import asdict, define, field, frozen

from svc.errors import BackupBroken
from svc.ops.backup.classes import class_of
from svc.ops.backup.manifest import KeptFile, Stamp, stamp_of

STAMP = "generation.json"
CHUNK = 1 << 16
_PLAIN = re.compile(r"[^/\0]+(?:/[^/\0]+)*\Z")


@frozen
class Source:
    """A file to be packed: where it lies, or what it holds; and its path in the archive."""

    path: str
    place: Path | None = None
    data: bytes = b""


@define
class Packer:
    """Packs files.

    Attributes:
        kept: What was packed; whole once :meth:`chunks` has ended.
    """

    stamp: Stamp
    sources: Iterable[Source]
    uid: int
    kept: list[KeptFile] = field(init=False, factory=list)

    def chunks(self) -> Iterator[bytes]:
        """The stream.

        Raises:
            BackupBroken: a file is not ours, or changed under the reading.
        """
        stamp = json.dumps(asdict(self.stamp)).encode()
        yield from _padded(_info(STAMP, len(stamp)).tobuf(tarfile.PAX_FORMAT), stamp)
        for source in self.sources:
            yield from self._packed(source)
        yield bytes(2 * tarfile.BLOCKSIZE)

    def _packed(self, source: Source) -> Iterator[bytes]:
        if source.place is None:
            yield from self._of_bytes(source.path, source.data)
            return
        status = source.place.lstat()
        if stat.S_ISLNK(status.st_mode):
            yield self._link(source.path, os.readlink(source.place))
            return
        yield from self._of_file(source.path, source.place)

    def _of_bytes(self, path: str, data: bytes) -> Iterator[bytes]:
        self._keep(path, len(data), sha256(data).hexdigest(), 0o600)
        yield from _padded(_info(path, len(data)).tobuf(tarfile.PAX_FORMAT), data)

    def _link(self, path: str, to: str) -> bytes:
        if "/" in to or to in (".", ".."):
            raise BackupBroken(f"{path}: is a symbolic link that leads out of its directory")
        info = _info(path, 0)
        info.type, info.linkname = tarfile.SYMTYPE, to
        self._keep(path, 0, "", 0o777, to)
        return info.tobuf(tarfile.PAX_FORMAT)

    def _of_file(self, path: str, place: Path) -> Iterator[bytes]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with open(os.open(place, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != self.uid:
                raise BackupBroken(f"{place}: is not owned by the Authority's user")
            mode = stat.S_IMODE(status.st_mode) & 0o700
            yield _info(path, status.st_size, mode).tobuf(tarfile.PAX_FORMAT)
            digest, left = sha256(), status.st_size
            while left:
                data = file.read(min(CHUNK, left))
                if not data:
                    raise BackupBroken(f"{place}: became shorter while it was copied; try again")
                digest.update(data)
                left -= len(data)
                yield data
            yield bytes(-status.st_size % tarfile.BLOCKSIZE)
            self._keep(path, status.st_size, digest.hexdigest(), mode)

    def _keep(self, path: str, size: int, digest: str, mode: int, link: str = "") -> None:
        self.kept.append(
            KeptFile(path=path, sort=class_of(path), size=size, sha256=digest, mode=mode, link=link)
        )


def unpack(
    stream: BinaryIO,
    expected: Stamp,
    files: Iterable[KeptFile],
    place_of: Callable[[KeptFile], Path | None],
) -> None:
    """Write the files of *stream* where *place_of* says, and see them all.

    Args:
        expected: The stamp that the stream must bear.
        files: What must be in it, in its order, no more and no less.
        place_of: Where a file goes; None: it is only looked at.

    Raises:
        BackupBroken: naming the first file that is not as it should be.
    """
    wanted, links = iter(files), set[str]()
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK) as tar:
            _check_stamp(tar, expected)
            while (info := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # it would keep every one
                file = next(wanted, None)
                if file is None or info.name != file.path or not _is_as(info, file):
                    raise BackupBroken(f"{info.name}: does not match the manifest")
                if any(file.path.startswith(link) for link in links):
                    raise BackupBroken(f"{info.name}: it lies below a symbolic link")
                if file.link:
                    links.add(f"{file.path}/")
                _take(file, None if file.link else tar.extractfile(info), place_of(file))
    except tarfile.TarError:
        raise BackupBroken("files.tar.age: it is not a complete archive") from None
    missing = next(wanted, None)
    if missing is not None:
        raise BackupBroken(f"{missing.path}: is missing (class {missing.sort})")
    while stream.read(CHUNK):
        pass  # what pads the archive


def _check_stamp(tar: tarfile.TarFile, expected: Stamp) -> None:
    info = tar.next()
    content = None if info is None or info.name != STAMP else tar.extractfile(info)
    try:
        found = stamp_of(None if content is None else json.loads(content.read(CHUNK)))
    except ValueError:
        found = stamp_of(None)
    if found != expected:
        raise BackupBroken(
            f"files.tar.age: is of {found.text}; the manifest is of {expected.text}",
            reason="backup_mismatch",
        )


def _is_as(info: tarfile.TarInfo, file: KeptFile) -> bool:
    """Whether the archive's entry is of the manifest's form, and of one that may be written."""
    steps = file.path.split("/")
    if not _PLAIN.match(file.path) or ".." in steps or "." in steps:
        return False
    if file.sort != class_of(file.path):
        return False
    if file.link:
        is_beside = "/" not in file.link and file.link not in (".", "..")
        return info.issym() and info.linkname == file.link and is_beside
    return info.isreg() and info.size == file.size and info.mode == file.mode


def _take(file: KeptFile, content: IO[bytes] | None, place: Path | None) -> None:
    if place is not None:
        for above in reversed([each for each in place.parents if not each.exists()]):
            above.mkdir(mode=0o700)
    if content is None:
        if place is not None:
            place.symlink_to(file.link)
        return
    digest = sha256()
    out = None if place is None else _created(place, file.mode)
    try:
        while data := content.read(CHUNK):
            digest.update(data)
            if out is not None:
                out.write(data)
        if out is not None:
            out.flush()
            os.fsync(out.fileno())
    finally:
        if out is not None:
            out.close()
    if digest.hexdigest() != file.sha256:
        raise BackupBroken(f"{file.path}: differs from the manifest (SHA-256)")


def _created(place: Path, mode: int) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(place, flags, mode & 0o700), "wb")


def _info(path: str, size: int, mode: int = 0o600) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.size, info.mode = size, mode
    return info


def _padded(head: bytes, data: bytes) -> Iterator[bytes]:
    yield head + data + bytes(-len(data) % tarfile.BLOCKSIZE)
