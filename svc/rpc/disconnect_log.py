"""Logs why connections were ended: the reason, the listener, the peer's address.

Whoever is cut off may come again at once: past a number of lines of one reason only their count
is kept, and told with the next line.
"""

from __future__ import annotations

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.rpc.call import OnProblem

_log = Logger(namespace="svc_rpc")

LINES = 50
SPAN_SECS = 10.0
"""At most so many lines of each reason in this time."""


@define
class LoggedSpan:
    """What was logged for one reason in the current time span."""

    began: float
    lines: int = 0
    unlogged: int = 0


@define
class DisconnectLog:
    """Logs the ends of one listener's connections, or of those dialed to one peer.

    Attributes:
        clock: Measures the spans.
        where: The key of the configuration that names listener or peer.
    """

    clock: IReactorTime
    where: str
    _spans: dict[str, LoggedSpan] = field(factory=dict, init=False)

    def of(self, peer: str) -> OnProblem:
        """The callback to which a connection with *peer* reports its end."""
        return _LoggedProblems(self, peer)

    def log(self, what: str, detail: str, peer: str) -> None:
        """Log that a connection with *peer* ended so, unless many did."""
        now = self.clock.seconds()
        span = self._spans.setdefault(what, LoggedSpan(now))
        if now - span.began >= SPAN_SECS:
            span.began, span.lines = now, 0
        if span.lines >= LINES:
            span.unlogged += 1
            return
        span.lines += 1
        count, span.unlogged = span.unlogged + 1, 0
        _log.warn(
            "connection ended", reason=what, detail=detail, at=self.where, peer=peer, count=count
        )


@frozen
class _LoggedProblems:
    """The listener for one connection: small, because each has one for as long as it stands."""

    disconnect_log: DisconnectLog
    peer: str
    besides: OnProblem | None = None

    def __call__(self, what: str, detail: str) -> None:
        if self.besides is not None:
            self.besides(what, detail)
        self.disconnect_log.log(what, detail, self.peer)


def also_logged(
    on_problem: OnProblem, disconnect_log: DisconnectLog | None, peer: str
) -> OnProblem:
    """The listener for a connection with *peer*: *on_problem*, and the log if there is one."""
    if disconnect_log is None:
        return on_problem
    return _LoggedProblems(disconnect_log, peer, on_problem)
