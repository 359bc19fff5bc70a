"""Two Proxies of one cluster on memory transports; persons at the one, Connectors at the other."""

from __future__ import annotations

import tempfile
from copy import copy
from functools import partial
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Unavailable
from svc.interfaces.rpc import IRpcChannel, Peer
from svc.messages.tunnel import OpenNotice, Renew
from svc.model.principal import Principal, Role
from svc.pki.identity import TransportIdentity
from svc.proxy.peers.links import PeerLinks
from svc.proxy.peers.route import PeerRoutes
from svc.rpc.max_age import Freshness
from svc.rpc.server.server import RpcServerFactory
from svc.wire.limits import WireLimits
from tests.connector.pieces import Cluster
from tests.proxy.pieces import Node, Site, Talk, Wire

ADDRESS = "10.0.5.12:7405"


def shown(identity: TransportIdentity, host: str = "192.0.2.9") -> Peer:
    """One end of a connection, by the certificate that it shows."""
    return Peer(host=host, port=1, tls=True, chain=identity.chain)


class Ingress(Site):
    """A Proxy that relays what the grants say to another one.

    Attributes:
        far: That one.
        is_reached: Whether the other one answers.
        answers_as: Whose certificate it shows.
        peer_links: Its connections to others.
        peer_wires: The newest of them last.
    """

    def __init__(self, directory: Path, far: Site, cluster: Cluster) -> None:
        self.far = far
        self.is_reached = True
        self.answers_as = far.cluster.proxy
        self.peer_wires: list[Wire] = []
        super().__init__(directory, cluster, far.wires)

    def _assemble(self) -> None:
        world = self.cluster.world
        self.peer_links = PeerLinks(
            dial=self._reach,
            proxy_at=lambda channel: (
                world.verifier.verify(channel.peer.chain, {Role.PROXY}).principal.id
            ),
            clock=self.clock,
            fresh=Freshness(self.clock, world.now),
            dial_secs=15.0,
        )
        self.others = PeerRoutes(
            links=self.peer_links,
            tasks=self.tasks,
            clock=self.clock,
            open_secs=20.0,
            outcome=partial(self._count, "ingress"),
            check_not_revoked=lambda role, one: self.holder.check_not_revoked(
                Principal(world.verifier.cluster, role, one)
            ),
        )
        super()._assemble()

    async def _reach(self, address: str) -> IRpcChannel:
        assert address == ADDRESS
        if not self.is_reached:
            raise Unavailable("connection refused", reason="cannot_connect")
        wire = peer_wire(self.far, self.cluster.proxy)
        wire.client.peer = shown(self.answers_as)
        self.peer_wires.append(wire)
        await wire.client.ready
        return wire.channel


def peer_wire(far: Site, caller: TransportIdentity | None) -> Wire:
    """A connection to the private listener of a Proxy."""
    peers = far.peers
    server = RpcServerFactory(
        [peers.service()],
        far.clock,
        plaintext=True,
        admit=peers.admit,
        limits=peers.limits(WireLimits(max_streams=3)),
    )
    peer = None if caller is None else shown(caller)
    wire = Wire(far.clock, server, peer)
    far.wires.append(wire)
    return wire


class PeersTests(SynchronousTestCase):
    """A person's Proxy without tunnels, ``near``, and one with a Connector's, ``far``."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        root = Path(directory.name)
        cluster = Cluster()
        beside = copy(cluster)
        beside.proxy = cluster.world.identity(Role.PROXY)
        self.far = Site(root / "far", beside)
        self.near = Ingress(root / "near", self.far, cluster)
        self.near.authority.relays_to = beside.proxy_id
        self.near.authority.peer_address = ADDRESS
        for site in (self.far, self.near):
            site.floor.parent.mkdir(exist_ok=True)
            site.start()
        self.addCleanup(self._end)

    def _end(self) -> None:
        """Whatever a test did: after the stop every gauge is back at nothing."""
        stopping = Deferred.fromCoroutine(self.near.peer_links.stop())
        self.turn()
        self.successResultOf(stopping)
        for site in (self.near, self.far):
            site.stop()
            left = {name: value for name, value in site.gauges.items() if value}
            self.assertEqual(left, {})
            self.assertEqual((site.sessions.open_sessions, site.peers.open_sessions), (0, 0))

    def turn(self) -> None:
        self.near.turn()

    def pass_time(self, seconds: float, node: Node) -> None:
        """Let time pass; Authority is there for both, and the Connector renews its lease."""
        end = self.near.clock.seconds() + seconds
        while (left := end - self.near.clock.seconds()) > 0:
            self.near.pass_time(min(10.0, left))
            if self.far.authority.follows:
                self.far.authority.beat()
            node.tell(Renew())

    def opening(self, node: Node | None = None) -> tuple[Node, Talk]:
        """A session that its Connector was told of: the Connector, and the person's call."""
        node = node or self.far.node()
        client = self.near.open()
        self.turn()
        return node, client

    def carried(self, node: Node | None = None) -> tuple[Node, Talk, Talk]:
        """A session that passes bytes: its Connector, the person's call, the carry stream."""
        node, client = self.opening(node)
        carry = node.carry(node.last(OpenNotice))
        self.turn()
        self.assertEqual(self.active, (1, 1))
        return node, client, carry

    @property
    def active(self) -> tuple[int, int]:
        """Sessions that are open at the one and at the other."""
        return self.near.gauges[("sessions",)], self.far.gauges[("relayed",)]

    @property
    def outcomes(self) -> dict[str, int]:
        """What was counted of openings between the two."""
        return {
            f"{side} {word}": site.counts[(side, word)]
            for site, side in ((self.near, "ingress"), (self.far, "egress"))
            for word in ("accepted", "rejected")
            if site.counts[(side, word)]
        }
