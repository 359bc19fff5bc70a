"""Whom a peer's address stands for where a share is given to each, and the shares (rule R18)."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from attrs import define, field

IPV6_PREFIX = 64

MAX_SOURCES = 65_536
IDLE_SECS = 600.0
"""An address that has asked nothing for so long is forgotten."""


def source_of(host: str) -> str:
    """IPv4 as it is; of IPv6 the network a site is given; what is no address as it is."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((address, IPV6_PREFIX), strict=False))
    return str(address)


@define
class AddressBudget:
    """A token bucket an address, in a table of bounded size.

    Attributes:
        per_minute: Tokens that come back to a bucket each minute.
        burst: Tokens a full bucket holds.
    """

    per_minute: float = 60.0
    burst: float = 20.0
    _buckets: dict[str, tuple[float, float]] = field(factory=dict)

    def take(self, host: str, now: float) -> float:
        """Take one token of *host*.

        Args:
            now: Seconds of a steady clock.

        Returns:
            0 where one was left and is taken; else in how many seconds there is one.
        """
        wait, left = self._look(host, now)
        key = source_of(host)
        # Last in the table: those that asked longest ago are forgotten first.
        self._buckets.pop(key, None)
        self._buckets[key] = (left if wait else left - 1, now)
        if len(self._buckets) > MAX_SOURCES:
            del self._buckets[next(iter(self._buckets))]
        return wait

    def wait(self, host: str, now: float) -> float:
        """As :meth:`take`, and nothing is taken."""
        return self._look(host, now)[0]

    def sources(self, now: float) -> int:
        """How many addresses are remembered."""
        self._forget(now)
        return len(self._buckets)

    def _look(self, host: str, now: float) -> tuple[float, float]:
        """Seconds until there is a token, and how many there are."""
        self._forget(now)
        left, then = self._buckets.get(source_of(host), (self.burst, now))
        left = min(self.burst, left + (now - then) * self.per_minute / 60)
        return max(0.0, 1 - left) * 60 / self.per_minute, left

    def _forget(self, now: float) -> None:
        while self._buckets:
            oldest = next(iter(self._buckets))
            if now - self._buckets[oldest][1] < IDLE_SECS:
                return
            del self._buckets[oldest]
