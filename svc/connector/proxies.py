"""Which Proxy each tunnel is connected to: each tunnel has a different one.

Two connections to one Proxy fail together, so the second is worth nothing and
is not kept.  Which Proxy is at an address is known only from its certificate:
one Proxy may have several names, and one name may lead to several Proxies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence

from attrs import define, field, frozen
from twisted.logger import Logger

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcChannel

_log = Logger(namespace="svc_connector")


class DuplicateProxy(SvcError):
    """The Proxy that was reached has a connection of ours already."""

    fault = Fault.PRECONDITION
    reason = "duplicate_proxy"


@frozen(eq=False)
class ProxyAddress:
    """One configured address.

    Attributes:
        dial: Connects over TLS, keepalive included; raises SvcError.
    """

    address: str
    dial: Callable[[], Awaitable[IRpcChannel]]


@define(eq=False)
class Proxies:
    """The addresses in the order configured, shared out among the tunnels.

    Attributes:
        duplicate: Called for each connection that is dropped because it led to
            a Proxy that had one.
    """

    ways: Sequence[ProxyAddress]
    duplicate: Callable[[], object]
    _used: dict[Hashable, int] = field(factory=dict, init=False)
    _first: dict[Hashable, int] = field(factory=dict, init=False)
    _held: dict[Hashable, tuple[Hashable, str]] = field(factory=dict, init=False)
    _reported: set[tuple[str, str]] = field(factory=set, init=False)
    _generation: int = field(default=0, init=False)

    def next_way(self, tunnels: Hashable, tried: Sequence[ProxyAddress]) -> ProxyAddress | None:
        """Where *tunnels* is to dial next, after those it has *tried* in this cycle.

        An address that another tunnel uses is dialed only where every address is
        in use: then one may stand for several Proxies.  It counts as used by
        *tunnels* until its next, or :meth:`leave`.
        """
        others = {index for other, index in self._used.items() if other is not tunnels}
        count, first = len(self.ways), self._first.get(tunnels, 0)
        order = [(first + step) % count for step in range(count)]
        left = [index for index in order if self.ways[index] not in tried]
        free = [index for index in left if index not in others]
        only_used = all(self.ways.index(way) in others for way in tried)
        chosen = free or (left if only_used else [])
        if not chosen:
            return None
        self._used[tunnels] = chosen[0]
        return self.ways[chosen[0]]

    def current(self, tunnels: Hashable) -> ProxyAddress:
        """The address that *tunnels* uses."""
        return self.ways[self._used[tunnels]]

    def leave(self, tunnels: Hashable) -> None:
        """The cycle of *tunnels* is over: its address is free."""
        self._used.pop(tunnels, None)

    def hold(self, leg: Hashable, tunnels: Hashable, proxy_id: str) -> None:
        """Keep this Proxy for *tunnels*, whose *leg* has reached it.

        Raises:
            DuplicateProxy: another tunnel leads there.
        """
        reported = (self.current(tunnels).address, proxy_id)
        if any(held == proxy_id and other is not tunnels for other, held in self._held.values()):
            self.duplicate()
            if reported not in self._reported:
                self._reported.add(reported)
                _log.warn(
                    "an address reaches a Proxy that is already connected: endpoints.proxy "
                    "reaches fewer Proxies than connector.proxy_connection_count requires, or "
                    "lists one twice",
                    address=reported[0],
                    proxy=proxy_id,
                    reason=DuplicateProxy.reason,
                )
            raise DuplicateProxy(
                f"{reported[0]}: it leads to the Proxy {proxy_id}, which is already connected"
            )
        self._reported.discard(reported)
        self._held[leg] = (tunnels, proxy_id)
        self._first[tunnels] = (self._used[tunnels] + 1) % len(self.ways)

    def release(self, leg: Hashable) -> None:
        """*leg* leads to its Proxy no more, or only to finish what it carries.  Idempotent."""
        self._held.pop(leg, None)

    def next_generation(self) -> int:
        """The number of a registration: higher than those of all tunnels before."""
        self._generation += 1
        return self._generation
