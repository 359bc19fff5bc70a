"""Which Proxies are here, which relay sessions to each other, and what each can reach by others.

A Proxy says at its greeting where others reach it; one that says nothing relays none, in either
direction.  Nothing is kept in the store: who serves what is known by the tunnels that stand now.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from attrs import define, field

from svc.authority.registry.routes import Registered, Registrations
from svc.messages.snapshot import MAX_SERVED_BY_PEERS
from svc.model.cluster.resource import Assigned


@define
class PeerProxies:
    """The Proxies that follow this Authority, and those that relay.

    Attributes:
        registrations: Whose tunnels they are to share.
    """

    registrations: Registrations = field(factory=Registrations)
    _streams: dict[str, int] = field(factory=dict, init=False)
    _addresses: dict[str, str] = field(factory=dict, init=False)
    _changes: int = field(default=0, init=False)

    @property
    def version(self) -> tuple[int, int]:
        """Another one after each change of what any Proxy can reach through others."""
        return self._changes, self.registrations.changes

    @property
    def here(self) -> tuple[str, ...]:
        """The Proxies that follow the snapshot now, in order of their ids."""
        return tuple(sorted(self._streams))

    def streams(self, proxy_id: str) -> int:
        """How many snapshot streams this Proxy has open; 0: it is not here."""
        return self._streams.get(proxy_id, 0)

    def enter(self, proxy_id: str) -> None:
        """A Proxy follows the snapshot over one more stream."""
        self._streams[proxy_id] = self.streams(proxy_id) + 1

    def leave(self, proxy_id: str) -> bool:
        """One of its streams has ended; whether it was the last."""
        self._streams[proxy_id] -= 1
        if self._streams[proxy_id]:
            return False
        del self._streams[proxy_id]
        return True

    def unreached(self, through: Set[str]) -> tuple[str, ...]:
        """Of the Proxies that are here those that do not reach what is served *through* others."""
        is_relayed = not through.isdisjoint(self._addresses)
        return tuple(
            one
            for one in self.here
            if one not in through and not (is_relayed and one in self._addresses)
        )

    def greeted(self, proxy_id: str, address: str) -> None:
        """A Proxy has said where others reach it; empty: it relays none.

        That holds until it says otherwise: one that is gone has no tunnels, so nothing goes there.
        """
        if self._addresses.get(proxy_id, "") == address:
            return
        self._changes += 1
        if address:
            self._addresses[proxy_id] = address
        else:
            del self._addresses[proxy_id]

    def address(self, proxy_id: str) -> str:
        """Where others reach this Proxy; empty: it relays none."""
        return self._addresses.get(proxy_id, "")

    def serving(
        self, wanted: Assigned, proxy_id: str, is_trusted: Callable[[str], bool]
    ) -> Registered | None:
        """The registration that a session which enters this Proxy goes by.

        One at this Proxy comes first; then the newest at one that it may relay to, and of those
        one at a Proxy that is trusted, if there is any.

        Args:
            is_trusted: Whether a Proxy, by its id, may carry the session.
        """
        here = self.registrations.serving(wanted, proxy_id)
        if here is not None or proxy_id not in self._addresses:
            return here
        others = [
            one for one in self.registrations.all_serving(wanted) if one.proxy_id in self._addresses
        ]
        return max(others, key=lambda one: (is_trusted(one.proxy_id), one.since), default=None)

    def reachable(self, proxy_id: str) -> frozenset[str]:
        """The resources that this Proxy can reach through others, and not by itself."""
        if proxy_id not in self._addresses:
            return frozenset()
        others = [one for one in self._addresses if one != proxy_id]
        found: set[str] = set()
        for other in others:
            found |= self.registrations.served_through(other)
        found -= self.registrations.served_through(proxy_id)
        return frozenset(sorted(found)[:MAX_SERVED_BY_PEERS])
