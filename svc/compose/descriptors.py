"""Raises the limit of open files as far as needed, and reports when it is reached."""

from __future__ import annotations

import resource
from collections.abc import Callable

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.logger import ILogObserver, LogEvent, Logger, globalLogPublisher
from zope.interface import implementer

_log = Logger(namespace="svc")

REPORT_SECS = 10.0
"""At most one warning in this time; it says for how many connections it stands."""

_CLOSED = "EMFILE recovery: Closed socket"

SPARE = 256
"""For the store, targets, logs and whatever else is no connection of a listener."""


def needed(connections: int, others: int = 0) -> int:
    """How many descriptors a process may need; the arguments are those of :func:`make_room`."""
    return connections + others + SPARE


def make_room(
    connections: int,
    others: int = 0,
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
        others: Descriptors of direct lanes and their pipes.
    """
    soft, hard = get()
    if soft != hard:
        try:
            put((hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # some systems allow less than they say; the warning tells
    if soft != resource.RLIM_INFINITY and soft < needed(connections, others):
        _log.warn(
            "the limit of open files is below what limits.max_connections (and a quarter as many "
            "direct lanes) may need",
            open_files=soft,
            needed=needed(connections, others),
        )


@implementer(ILogObserver)
@define(slots=False, eq=False)
class RefusedByTheSystem(Service):
    """Warns, now and then, of connections that could not be taken: no descriptor was left.

    Twisted survives it and says so line by line, at a level that is not shown:
    whoever causes it must not fill the log, and the operator must hear of it.
    """

    clock: IReactorTime
    _reported_at: float | None = field(default=None, init=False)
    _unreported: int = field(default=0, init=False)

    def startService(self) -> None:
        """Listen."""
        Service.startService(self)
        globalLogPublisher.addObserver(self)

    def stopService(self) -> None:
        """Listen no more."""
        Service.stopService(self)
        globalLogPublisher.removeObserver(self)

    def __call__(self, event: LogEvent) -> None:
        """Called by Twisted for every event of the process."""
        message = str(event.get("log_format", ""))
        error = event.get("acceptError", "ECONNABORTED")  # which is its caller's doing
        if error == "ECONNABORTED" and not message.startswith(_CLOSED):
            return
        self._unreported += 1
        now = self.clock.seconds()
        if self._reported_at is None or now - self._reported_at >= REPORT_SECS:
            count, self._unreported, self._reported_at = self._unreported, 0, now
            _log.warn(
                "connections were refused: the process reached its limit of open files; raise "
                "that limit, or lower limits.max_connections",
                count=count,
            )
