"""A role's state directory: private to its user, and used by one process at a time."""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from attrs import define, field
from twisted.application.service import Service

from svc.errors import ConfigError


@define
class StateDirectory:
    """One role's state directory: private, and one process's at a time."""

    path: Path
    _lock: int | None = None
    _made: list[Path] = field(factory=list, init=False)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def claim(self) -> None:
        """Make it if it is not there, check that it is ours alone, and lock it.

        Raises:
            ConfigError: it is not private, not writable, or another process has it.
        """
        try:
            self._make(self.path, 0o777)
            status = os.stat(self.path)
        except OSError as e:
            raise ConfigError("state_dir", f"{self.path}: {e.strerror}") from None
        if status.st_uid != os.geteuid():
            raise self._not_private("it belongs to another user: run this as that user")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise self._not_private(f"run chmod 700 {shlex.quote(str(self.path))}")
        path = self.path / "lock"
        is_new = not os.path.lexists(path)
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            what = (e.strerror or "cannot be opened").lower()
            raise ConfigError("state_dir", f"{path}: cannot be opened: {what}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that its holder removes as we open it locks nobody out.
            if not os.path.samestat(os.fstat(lock), os.stat(path)):
                raise BlockingIOError
        except OSError:
            os.close(lock)
            raise ConfigError(
                "state_dir",
                f"{self.path}: another process is using it; stop that one, or name another "
                "directory",
            ) from None
        self._lock = lock
        if is_new:
            self._made.append(path)

    def _not_private(self, remedy: str) -> ConfigError:
        text = f"{self.path}: must be accessible to this user only (mode 0700); {remedy}"
        return ConfigError("state_dir", text)

    def within(self, name: str) -> StateDirectory:
        """The directory of one of several roles, made if it is not there."""
        inner = self.path / name
        self._make(inner, 0o700)
        return StateDirectory(inner)

    def _make(self, directory: Path, above: int) -> None:
        missing = [each for each in (directory, *directory.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700 if each == directory else above, exist_ok=True)
            self._made.append(each)

    def release(self) -> None:
        """Let the next process have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def abandon(self) -> None:
        """Release it after a refused start, without the lock and the empty directories we made."""
        for each in reversed(self._made):
            with suppress(OSError):  # A directory that is not empty stays.
                each.rmdir() if each.is_dir() else each.unlink()
        self.release()


@define(slots=False, eq=False)
class StateDirectoryHold(Service):
    """Releases the state directory when everything else has stopped."""

    state: StateDirectory

    def stopService(self) -> None:
        """Release."""
        Service.stopService(self)
        self.state.release()


def is_locked(directory: Path) -> bool:
    """Whether a process has the directory now."""
    try:
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
