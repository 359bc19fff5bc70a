"""What a spool asks of the file system.  Every call blocks."""

from __future__ import annotations

import os
from pathlib import Path

from svc.runtime import durable


class Disk:
    """The file system itself; tests give a spool one that fails."""

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of *data*."""
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    def sync(self, descriptor: int) -> None:
        """Return once what was written is durable."""
        getattr(os, "fdatasync", os.fsync)(descriptor)

    def wipe(self, descriptor: int, begin: int, end: int) -> None:
        """Write zeros over bytes of a file; the next write goes where it would have gone."""
        at = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, begin, os.SEEK_SET)
        self.write(descriptor, bytes(end - begin))
        os.lseek(descriptor, at, os.SEEK_SET)

    def truncate(self, descriptor: int, size: int) -> None:
        """Keep the first *size* bytes of a file."""
        os.ftruncate(descriptor, size)

    def sync_directory(self, path: Path) -> None:
        """Return once the names in a directory are durable."""
        durable.sync_directory(path)

    def try_room(self, path: Path, size: int) -> None:
        """Return if *size* bytes fit into a directory."""
        durable.try_room(path, size)


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file can still be found at *path*: what is written to it counts only then."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
