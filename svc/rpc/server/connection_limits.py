"""Limits the connections of a listener: in total, for each source, and by rate.

What is past either is refused before a byte is read or written, so that it
costs no handshake.  A refusal is logged, but no more often than every few
seconds: whoever is refused must not fill the log by trying again.
"""

from __future__ import annotations

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.ratelimit.source import AddressBudget, source_of

_log = Logger(namespace="svc_rpc")

MAX_CONNECTIONS = 8192
MAX_OF_ADDRESS = 1024
PER_MINUTE = 18_000
LOG_SECONDS = 10.0
"""At most one line of each reason in this time; it says how many it stands for."""


@define
class ConnectionLimits:
    """Counts the connections of one listener.

    Attributes:
        clock: Spaces the lines of the log.
        most: Connections in all.
        most_of_address: Connections of one address (of IPv6, one network of 64 bits).
        per_minute: New ones of one address in a minute, and those of ten seconds at once: a
            handshake costs everybody about a millisecond, however soon its caller leaves again.
        listener: The key of the configuration, for the log.
    """

    clock: IReactorTime
    most: int = MAX_CONNECTIONS
    most_of_address: int = MAX_OF_ADDRESS
    listener: str = ""
    per_minute: float = PER_MINUTE
    count: int = field(default=0, init=False)
    anonymous: int = field(default=0, init=False)
    _of: dict[str, int] = field(factory=dict, init=False)
    _arrivals: AddressBudget = field(init=False)
    _unreported: dict[str, int] = field(factory=dict, init=False)
    _reported_at: dict[str, float] = field(factory=dict, init=False)

    @_arrivals.default
    def _none_yet(self) -> AddressBudget:
        return AddressBudget(self.per_minute, max(self.most_of_address, self.per_minute / 6))

    def refuses(self, host: str) -> bool:
        """Whether there is no room for another connection of *host*; logged now and then.

        Args:
            host: The peer's address; empty for a peer without one, such as a local socket's.
        """
        source = source_of(host) if host else ""
        if self.count >= self.most:
            self._report("too_many_connections", source)
        elif source and self._of.get(source, 0) >= self.most_of_address:
            self._report("too_many_of_address", source)
        elif source and self._arrivals.wait(source, self.clock.seconds()):
            self._report("too_many_new", source)
        else:
            return False
        return True

    def entered(self, host: str) -> None:
        """One more is there."""
        self.count += 1
        if host:
            source = source_of(host)
            self._of[source] = self._of.get(source, 0) + 1
            self._arrivals.take(source, self.clock.seconds())

    def left(self, host: str) -> None:
        """One that had entered is gone."""
        self.count -= 1
        if host:
            source = source_of(host)
            self._of[source] -= 1
            if not self._of[source]:
                del self._of[source]

    def admits_anonymous(self, host: str) -> bool:
        """Whether a peer that showed no certificate may stay; counted from then on if so.

        Half of the room is kept from such peers: however many addresses a
        stranger has, nodes and persons still get in.
        """
        if self.anonymous >= self.most // 2:
            self._report("too_many_anonymous", source_of(host) if host else "")
            return False
        self.anonymous += 1
        return True

    def anonymous_left(self) -> None:
        """One that :meth:`admits_anonymous` let stay is gone."""
        self.anonymous -= 1

    @property
    def sources(self) -> int:
        """How many sources are remembered: those that are connected."""
        return len(self._of)

    def _report(self, reason: str, source: str) -> None:
        count = self._unreported.get(reason, 0) + 1
        now = self.clock.seconds()
        last = self._reported_at.get(reason)
        if last is not None and now - last < LOG_SECONDS:
            self._unreported[reason] = count
            return
        self._unreported[reason], self._reported_at[reason] = 0, now
        _log.warn(
            "connection refused",
            reason=reason,
            listener=self.listener,
            source=source,
            count=count,
        )
