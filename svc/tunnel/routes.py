"""Which tunnels are registered on this Proxy, and what they serve.

Invariants: at most one tunnel a node; each registered tunnel is told to have
ended exactly once; so what is told registered less what is told ended is
always the number of tunnels here.  A tunnel that handed over to another
connection of its process is none of them, but what it still carries ends with
its node's eviction.  Who may register is decided by Authority, before anything
here is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from twisted.logger import Logger

from svc.errors import Fault, SvcError
from svc.model.cluster.registration import NO_INVENTORY, Inventory
from svc.model.cluster.resource import Assigned
from svc.model.session.tunnels import (
    EndReason,
    Miss,
    SessionsLeft,
    TunnelChanged,
    TunnelEnded,
    TunnelEvent,
    TunnelRefused,
)
from svc.model.session.tunnels import TunnelRegistered as Registered
from svc.tunnel.transport import RegisteredTunnel

_log = Logger(namespace="svc_tunnel")

_OF_THE_NODE = frozenset({EndReason.EVICTED, EndReason.SUPERSEDED})
"""Ends that mean all the node's connections, those that handed over included."""

MAX_REMEMBERED = 100_000
"""Resources whose former server is remembered; the oldest are forgotten first."""


class RouteTable:
    """The tunnels of one Proxy.

    Args:
        on_event: Hears of every registration, refusal and end, in order; must not
            raise nor call back into the table.
        on_reassigned: Called with the node of a Connector that is meant to serve otherwise
            than what goes on over it began by; under the same conditions as *on_event*.
    """

    def __init__(
        self,
        on_event: Callable[[TunnelEvent], object],
        on_reassigned: Callable[[str], object],
    ) -> None:
        self._on_event = on_event
        self._on_reassigned = on_reassigned
        self._by_node: dict[str, RegisteredTunnel] = {}
        # By identity: the tunnel holds the connection, so an id is never used again here.
        self._by_connection: dict[int, RegisteredTunnel] = {}
        self._by_resource: dict[str, list[RegisteredTunnel]] = {}
        self._departed: dict[str, None] = {}
        self._handed_over: dict[str, list[RegisteredTunnel]] = {}

    def __len__(self) -> int:
        return len(self._by_node)

    @property
    def tunnels(self) -> tuple[RegisteredTunnel, ...]:
        """Those registered now."""
        return tuple(self._by_node.values())

    def register(self, tunnel: RegisteredTunnel) -> None:
        """Take an accepted tunnel; an older one of its node ends ``superseded``.

        One of the same process only hands over: its sessions go on.

        Raises:
            SvcError: ``stale_registration`` when the same process has registered
                here with the same or a higher generation; counted as refused.
        """
        older = self._by_node.get(tunnel.node_id)
        if older is not None and _is_stale(tunnel, older):
            self.refuse(tunnel.node_id, "stale_registration")
            raise SvcError(
                "this process has registered here since",
                reason="stale_registration",
                fault=Fault.ABORTED,
            )
        if older is not None and older.instance_id != tunnel.instance_id:
            older.close(EndReason.SUPERSEDED)
            older = None
        tunnel.start(self._ended)
        self._by_node[tunnel.node_id] = tunnel
        self._by_connection[id(tunnel.connection)] = tunnel
        self._route(tunnel)
        if older is not None:
            # After the new one is in its place: there is no moment without a route.
            self._handed_over.setdefault(older.node_id, []).append(older)
            older.hand_over(self._left)
        _log.info("tunnel registered", node=tunnel.node_id, resources=len(tunnel.resources))
        self._on_event(Registered(tunnel.node_id, tuple(sorted(tunnel.resources))))
        if tunnel.node_id in self._handed_over:
            # Also where the tunnel between broke: what an older one carries went by older words.
            self._on_reassigned(tunnel.node_id)

    def change(
        self,
        tunnel: RegisteredTunnel,
        generation: int,
        resources: Collection[str],
        inventory: Inventory = NO_INVENTORY,
    ) -> None:
        """The tunnel registered again without a redial; nothing is counted.

        Called when Authority came back and answered again, perhaps otherwise.
        A tunnel that has ended meanwhile is left alone.
        """
        if self._by_node.get(tunnel.node_id) is not tunnel:
            return
        self._unroute(tunnel)
        tunnel.generation, tunnel.resources = generation, resources
        self._route(tunnel)
        before, tunnel.inventory = tunnel.inventory, inventory
        self._on_event(TunnelChanged(tunnel.node_id, tuple(sorted(resources))))
        if before != inventory:
            self._on_reassigned(tunnel.node_id)

    def still_assigned(self, node_id: str, wanted: Assigned) -> bool:
        """Whether nothing that Authority said last of this Connector speaks against it."""
        tunnel = self._by_node.get(node_id)
        return tunnel is None or tunnel.inventory.holds(wanted)

    def refuse(self, node_id: str, reason: str) -> None:
        """Tell of a registration that was refused; the tunnels here stay as they are."""
        _log.warn("tunnel registration refused", node=node_id, reason=reason)
        self._on_event(TunnelRefused(node_id, reason))

    def find(self, resource_id: str) -> RegisteredTunnel | Miss:
        """A tunnel that serves the resource and takes sessions, the newest first, or why not."""
        for tunnel in reversed(self._by_resource.get(resource_id, [])):
            if tunnel.open_for_sessions:
                return tunnel
        known = resource_id in self._by_resource or resource_id in self._departed
        # After a restart of this Proxy, Authority tells by its catalog who served it once.
        return Miss.DEPARTED if known else Miss.UNKNOWN

    def tunnel_on(self, connection: object) -> RegisteredTunnel | None:
        """The tunnel registered on this connection: the only one its streams may be for."""
        return self._by_connection.get(id(connection))

    def evict(self, node_id: str) -> bool:
        """End the node's tunnel, by order of Authority or operator; whether there was one."""
        tunnel = self._by_node.get(node_id)
        if tunnel is None:
            self._abandon(node_id, EndReason.EVICTED)
            return False
        tunnel.close(EndReason.EVICTED)
        return True

    def drain(self) -> None:
        """Take no more sessions on any tunnel, and say so.  Called when the role stops."""
        for tunnel in self.tunnels:
            tunnel.drain()

    def close(self) -> None:
        """End every tunnel in order.  Called when the role stops."""
        for tunnel in self.tunnels:
            tunnel.close(EndReason.CLOSED)
        for node_id in tuple(self._handed_over):
            self._abandon(node_id, EndReason.CLOSED)

    def _ended(
        self, tunnel: RegisteredTunnel, reason: EndReason, seconds: float, sessions: tuple[str, ...]
    ) -> None:
        if self._by_node.get(tunnel.node_id) is tunnel:
            del self._by_node[tunnel.node_id]
        has_handed_over = tunnel in self._handed_over.get(tunnel.node_id, ())
        if not has_handed_over:
            self._disconnect(tunnel)
        self._unroute(tunnel)
        _log.info(
            "tunnel ended",
            node=tunnel.node_id,
            reason=reason.value,
            seconds=round(seconds, 3),
            sessions=len(sessions),
        )
        self._on_event(
            TunnelEnded(
                node_id=tunnel.node_id, reason=reason, seconds=seconds, session_uids=sessions
            )
        )
        if reason in _OF_THE_NODE and not has_handed_over:
            self._abandon(tunnel.node_id, reason)

    def _disconnect(self, tunnel: RegisteredTunnel) -> None:
        if self._by_connection.get(id(tunnel.connection)) is tunnel:
            del self._by_connection[id(tunnel.connection)]

    def _left(self, tunnel: RegisteredTunnel) -> None:
        """Nothing is left of a tunnel that had handed over."""
        self._disconnect(tunnel)
        others = self._handed_over.get(tunnel.node_id, [])
        if tunnel in others:
            others.remove(tunnel)
        if not others:
            self._handed_over.pop(tunnel.node_id, None)

    def _abandon(self, node_id: str, reason: EndReason) -> None:
        """What lives on of tunnels that had handed over ends now."""
        uids: list[str] = []
        for tunnel in tuple(self._handed_over.get(node_id, ())):
            uids += tunnel.abandon(reason)
            self._left(tunnel)
        if uids:
            _log.info("sessions of older connections ended", node=node_id, sessions=len(uids))
            self._on_event(SessionsLeft(node_id, reason, tuple(uids)))

    def _route(self, tunnel: RegisteredTunnel) -> None:
        for resource in tunnel.resources:
            self._by_resource.setdefault(resource, []).append(tunnel)
            self._departed.pop(resource, None)

    def _unroute(self, tunnel: RegisteredTunnel) -> None:
        for resource in tunnel.resources:
            serving = self._by_resource.get(resource, [])
            if tunnel in serving:
                serving.remove(tunnel)
            if not serving:
                self._by_resource.pop(resource, None)
                self._remember([resource])

    def _remember(self, resources: Iterable[str]) -> None:
        for resource in resources:
            self._departed.pop(resource, None)
            self._departed[resource] = None
        while len(self._departed) > MAX_REMEMBERED:
            del self._departed[next(iter(self._departed))]


def _is_stale(newer: RegisteredTunnel, older: RegisteredTunnel) -> bool:
    """Another process of the node always supersedes; the same one only by a higher generation."""
    return newer.instance_id == older.instance_id and newer.generation <= older.generation
