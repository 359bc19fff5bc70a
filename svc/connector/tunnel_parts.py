"""What the connections of one tunnel share, and which of them are still open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from svc.connector.health import HealthLinks
from svc.connector.inventories import ProxyInventories
from svc.connector.opening import ConnectorSessions
from svc.connector.proxies import Proxies
from svc.interfaces.rpc import Peer
from svc.messages.tunnel import encode_registration
from svc.model.cluster.registration import HIGHEST, DeclaredResource, Registration
from svc.model.signing import Signed
from svc.rpc.keepalive import CommonTicks
from svc.rpc.max_age import Freshness
from svc.runtime.services import BackgroundTasks
from svc.tunnel.times import TunnelTimes


@frozen
class ConnectorIdentity:
    """What a Connector says of itself, the same in every cycle but for what it finds.

    Attributes:
        instance_id: New with each process.
        resources: What its configuration declares.
        found: Gives what its discovery sources find now.
        onward_key: Ed25519, raw: what Authority certifies for sessions.
    """

    cluster: str
    node_id: str
    instance_id: str
    version: str
    resources: tuple[DeclaredResource, ...]
    found: Callable[[], tuple[DeclaredResource, ...]] = tuple
    capabilities: tuple[str, ...] = ()
    onward_key: bytes = b""


class Departing(Protocol):
    """A connection of the tunnel that can be asked to end."""

    def leave(self) -> None:
        """End it in good order; idempotent."""


@define(eq=False)
class TunnelParts:
    """What the cycles and connections of one tunnel share.

    Attributes:
        proxies: Where it may lead, shared with the other tunnels.
        proxy_of: The node id of the Proxy at the other end, from its verified
            certificate; raises SvcError for anybody else (:func:`proxy_by`).
        sign: Signs the bytes of a registration with our node key.
        fresh: Says when a connection is to be made again.
        inventories: What each Proxy told us to serve.
        health: The connections that our health report can go over.
        ticks: Where leases are renewed at common times; None: each at its own.
    """

    connector: ConnectorIdentity
    proxies: Proxies
    proxy_of: Callable[[Peer], str]
    sign: Callable[[bytes], Signed]
    sessions: ConnectorSessions
    tasks: BackgroundTasks
    clock: IReactorTime
    times: TunnelTimes = field(factory=TunnelTimes)
    fresh: Freshness = field()
    inventories: ProxyInventories = field(factory=ProxyInventories)
    health: HealthLinks = field(factory=HealthLinks)
    ticks: CommonTicks | None = None
    legs: set[Departing] = field(factory=set, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    @fresh.default
    def _ageless(self) -> Freshness:
        return Freshness(self.clock)

    async def ended(self) -> None:
        """Wait until every connection there still is has closed."""
        if self.legs:
            waiting: Deferred[None] = Deferred(self._waiting.remove)
            self._waiting.append(waiting)
            await waiting

    def gone(self, leg: Departing) -> None:
        """Nothing of this connection is left.  Called by its cycle."""
        self.legs.discard(leg)
        if not self.legs:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.callback(None)

    def registration(self, proxy_id: str, nonce: bytes) -> Signed:
        """Signed over Authority's nonce; each is of a higher generation than the last."""
        me = self.connector
        return self.sign(
            encode_registration(
                Registration(
                    cluster=me.cluster,
                    node_id=me.node_id,
                    proxy_id=proxy_id,
                    nonce=nonce,
                    resources=(*me.resources, *me.found()),
                    instance_id=me.instance_id,
                    generation=self.proxies.next_generation(),
                    version=me.version,
                    capabilities=me.capabilities,
                    inventory_generation=self.inventories.generation(proxy_id),
                    onward_key=me.onward_key,
                    gate_epoch=HIGHEST,
                )
            )
        )
