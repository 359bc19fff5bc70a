"""The process's limit of open files, as high as its connections may need."""

from __future__ import annotations

import resource
from collections.abc import Callable

from twisted.logger import Logger

_log = Logger(namespace="svc")

SPARE = 256
"""For the store, targets, logs and whatever else is no connection of a listener."""


def make_room(
    connections: int,
    get: Callable[[], tuple[int, int]] = lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    put: Callable[[tuple[int, int]], object] = lambda both: resource.setrlimit(
        resource.RLIMIT_NOFILE, both
    ),
) -> None:
    """Raise the soft limit of open files to the hard one; warn where that is too low.

    Without it the first address that connects often enough takes every
    descriptor there is, and ``limits.max_connections`` is never reached.
    Called once, before anything listens.

    Args:
        connections: Which the process may hold at once.
    """
    soft, hard = get()
    if soft != hard:
        try:
            put((hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # some systems allow less than they say; the warning tells
    if soft != resource.RLIM_INFINITY and soft < connections + SPARE:
        _log.warn(
            "the limit of open files is below what limits.max_connections may need",
            open_files=soft,
            needed=connections + SPARE,
        )
