"""One writer at a time: a lock file that dies with its holder.

The lock is ``flock`` on a file beside the store, so the kernel frees it
however its holder ends.  What the file says (who, where, since when) is for
people only; the lock is never judged by it.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event

from attrs import define

from svc.errors import StoreUnavailable

POLL_SECS = 0.1


@define
class FileLock:
    """A lock that is held until :meth:`release`."""

    _descriptor: int

    def release(self) -> None:
        """Let the next one in.  Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def take_lock(path: str, purpose: str, now: Callable[[], float]) -> FileLock | None:
    """Take the lock if it is free; None if another process holds it.

    Raises:
        StoreUnavailable: the lock file cannot be made.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(f"store: cannot write {path}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    since = datetime.fromtimestamp(now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    owner = f"pid {os.getpid()} on {socket.gethostname()} ({purpose}, since {since})\n"
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, owner.encode(), 0)
    return FileLock(descriptor)


def wait_for_lock(
    path: str,
    purpose: str,
    wait_secs: float,
    now: Callable[[], float],
    monotonic: Callable[[], float],
    pause: Callable[[float], object],
) -> FileLock | None:
    """Take the lock, asking again until *wait_secs* are over; None if they are.

    No database timeout takes part, so the wait is neither shorter nor longer,
    and it ends as soon as the holder does.
    """
    deadline = monotonic() + wait_secs
    while True:
        lock = take_lock(path, purpose, now)
        left = deadline - monotonic()
        if lock is not None or left <= 0:
            return lock
        pause(min(POLL_SECS, left))


def pause(secs: float) -> None:
    """Wait before asking for a lock again; only where blocking is promised."""
    Event().wait(secs)


def holder(path: str) -> str:
    """Who says to hold the lock, for a text; never a reason to act."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            owner = file.read(300).strip()
    except OSError:
        owner = ""
    return owner if owner.isprintable() and owner else "an unnamed process"
