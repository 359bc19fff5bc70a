"""Files that must survive a crash: the only place where they are written, replaced and moved.

A file is whole when its bytes are synced, and there when the entry in its
directory is: a rename that was not followed by a sync of the directory may be
undone by a power cut.  Every call returns once what it did is on the disk, so
every call blocks, for as long as a hung disk hangs.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
TRIED_BYTES = 65_536
"""What is written to see whether a disk takes anything at all."""

_LEFT_SECS = 600.0


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a link is followed.

    Raises:
        OSError: it cannot be read, or is something else, such as a pipe, of which a read would
            wait for whoever writes to it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def is_full(error: BaseException) -> bool:
    """Whether a call failed because the disk, or what we may use of it, is full."""
    return isinstance(error, OSError) and error.errno in _FULL


def try_room(directory: Path, size: int = TRIED_BYTES) -> None:
    """Return if a little can be written in *directory*, and *size* bytes fit; leaves nothing there.

    Raises:
        OSError: it cannot; :func:`is_full` says whether that is for want of room.
    """
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(min(size, TRIED_BYTES)))
        file.flush()
        if size > TRIED_BYTES:
            _reserve(file.fileno(), size)
        os.fsync(file.fileno())


def _reserve(descriptor: int, size: int) -> None:
    """Take room for a file of *size* bytes: without writing them all, where the system can."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except (AttributeError, OSError) as e:
        # Not every system has it, and not for every file system.
        if isinstance(e, OSError) and e.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        left = size - TRIED_BYTES
        while left > 0:
            left -= os.write(descriptor, bytes(min(left, TRIED_BYTES)))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let each OSError name the file that it is about: one of a write or a sync does not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_new(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 that is not there yet; the caller syncs its directory.

    Raises:
        OSError: ``FileExistsError`` where something has that name, a link included.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with naming(path), open(os.open(path, flags, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, data: bytes) -> None:
    """Make *path* a file of mode 0600 that holds *data*: old bytes or new ones, never a part.

    Several processes may replace one file at a time; the last one's bytes stay.

    Raises:
        OSError: the disk refused; what was there stays, and nothing is left beside it.
    """
    beside = beside_of(path)
    beside.unlink(missing_ok=True)
    try:
        write_new(beside, data)
        _remove_leftovers(path, beside.stat().st_mtime)
        move(beside, path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def beside_of(path: Path) -> Path:
    """Where this process writes what is to replace *path*."""
    return path.with_name(f".{path.name}.{os.getpid()}.new")


def _remove_leftovers(path: Path, now: float) -> None:
    """Remove what crashes have left beside a file; what is younger may be another process's."""
    for left in path.parent.glob(f".{escape(path.name)}.*.new"):
        with suppress(FileNotFoundError):
            if now - left.stat().st_mtime > _LEFT_SECS:
                left.unlink()


def move(source: Path, target: Path) -> None:
    """Rename a file or a directory, whose content is synced already.  Raises OSError."""
    source.rename(target)
    sync_directory(target.parent)
    if source.parent != target.parent:
        sync_directory(source.parent)


def sync_directory(path: Path) -> None:
    """Sync a directory's entries to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
