"""The demo's own directories: removed at its end, or by a later demo where it was killed.

Beside each directory lies a file that its demo holds locked.  A lock that nobody holds any more is
of a demo that is dead: only such a directory is removed, and no other, whatever its name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkstemp

from attrs import frozen

PREFIX = "svc-demo-"
LOCK = ".lock"
_NEW = ".new"


@frozen
class DemoDirectory:
    """A directory of a demo that runs.

    Attributes:
        lock: Descriptor of the locked file beside it.
    """

    path: Path
    lock: int

    @classmethod
    def made(cls, purpose: str = "") -> DemoDirectory:
        """A new one, locked before it can be found; blocks for the disk.

        The lock is there before the directory: if this process is killed at any step, a later
        demo finds both.
        """
        lock, new = mkstemp(prefix=f"{PREFIX}{purpose}", suffix=_NEW)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path = Path(new.removesuffix(_NEW)).absolute()
        os.rename(new, _lock_of(path))
        path.mkdir(0o700)
        return cls(path, lock)

    def remove(self) -> None:
        """Remove it and all in it, and let its lock go."""
        shutil.rmtree(self.path, ignore_errors=True)
        _lock_of(self.path).unlink(missing_ok=True)
        os.close(self.lock)


def remove_dead() -> tuple[Path, ...]:
    """Remove what killed demos of this user left behind; the directories that were there.

    Nothing runs in them: the database's server ends with its demo, however that ends.
    """
    found = []
    for lock in sorted(Path(gettempdir()).glob(f"{PREFIX}*{LOCK}")):
        with suppress(OSError):
            if _removed(lock):
                found.append(lock.with_name(lock.name.removesuffix(LOCK)))
    return tuple(found)


def _removed(lock: Path) -> bool:
    """Whether there was a dead demo's directory beside this lock; both are gone then."""
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held, there = os.fstat(descriptor), os.lstat(lock)
        if not (_is_own(held, stat.S_ISREG) and os.path.samestat(held, there)):
            return False
        directory = lock.with_name(lock.name.removesuffix(LOCK))
        is_there = os.path.lexists(directory)
        if is_there:
            if not _is_own(os.lstat(directory), stat.S_ISDIR):
                return False
            shutil.rmtree(directory, ignore_errors=True)
        lock.unlink()
        return is_there
    finally:
        os.close(descriptor)


def _is_own(found: os.stat_result, is_form: Callable[[int], bool]) -> bool:
    return found.st_uid == os.geteuid() and is_form(found.st_mode)


def _lock_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}{LOCK}")
