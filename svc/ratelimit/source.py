"""Whom a peer's address stands for where a share is given to each, and the shares (rule R18)."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from attrs import define, field

from svc.ratelimit.limits import Buckets, Rate

IPV6_PREFIX = 64

MAX_SOURCES = 65_536
IDLE_SECS = 600.0
"""An address that has asked nothing for so long is forgotten."""


@lru_cache(maxsize=1024)
def source_of(host: str) -> str:
    """IPv4 as it is; of IPv6 the network a site is given; what is no address as it is.

    The last ones are remembered: each connection and each call asks several times.
    """
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
    """A token bucket a source, in a table of bounded size.

    See :class:`~svc.ratelimit.bucket.Buckets`.

    Attributes:
        per_minute: Tokens that come back to a bucket each minute.
        burst: Tokens a full bucket holds.
    """

    per_minute: float = 60.0
    burst: float = 20.0
    _buckets: Buckets = field(init=False)

    @_buckets.default
    def _none_yet(self) -> Buckets:
        return Buckets(Rate(self.per_minute, self.burst), MAX_SOURCES, IDLE_SECS)

    def change(self, per_minute: float, burst: float) -> None:
        """Go by another rate from now on."""
        self.per_minute, self.burst = per_minute, burst
        self._buckets.change(Rate(per_minute, burst))

    def take(self, host: str, now: float) -> float:
        """Take one token of *host*.

        Args:
            now: Seconds of a steady clock.

        Returns:
            0 where one was left and is taken; else in how many seconds there is one.
        """
        return self._buckets.take(source_of(host), now)

    def wait(self, host: str, now: float) -> float:
        """The same as :meth:`take`, but takes nothing."""
        return self._buckets.wait(source_of(host), now)

    def sources(self, now: float) -> int:
        """How many addresses are remembered."""
        self._buckets.forget(now)
        return len(self._buckets)
