"""Connections between Proxies: when another one is made, and how many there are."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from svc.interfaces.rpc import IRpcChannel
from svc.model.principal import Role
from svc.proxy.peers import links
from svc.rpc.max_age import Freshness
from tests.proxy.peers.pieces import PeersTests


class LinksTests(PeersTests):
    """The near Proxy's connections."""

    def channel(self, address: str = "10.0.5.12:7405") -> IRpcChannel:
        got: list[Any] = []
        asking = self.near.peer_links.channel(self.far.cluster.proxy_id, address)
        Deferred.fromCoroutine(asking).addBoth(got.append)
        self.turn()
        [channel] = got
        return channel  # type: ignore[no-any-return]

    def test_one_is_kept(self) -> None:
        """The same one is used until it ends."""
        first = self.channel()
        self.assertIs(self.channel(), first)
        self.near.peer_wires[-1].cut()
        self.turn()
        self.assertIsNot(self.channel(), first)

    def grows_old(self, **ours: Any) -> IRpcChannel:
        """A connection on which a certificate is about to end."""
        world = self.near.cluster.world
        identity = world.identity(Role.PROXY, **ours)
        self.near.peer_links.fresh = Freshness(
            clock=self.near.clock,
            now=world.now,
            identity=identity,
            verifier=world.verifier,
            roles=frozenset({Role.PROXY}),
        )
        first = self.channel()
        self.assertIs(self.channel(), first)
        self.near.pass_time(20 * 3600.0, step=3600.0)
        return first

    def test_replacement_is_not_reached(self) -> None:
        """Then the old one serves as long as it is good; one is tried again a minute later."""
        first = self.grows_old()
        self.near.is_reached = False
        self.assertIs(self.channel(), first)
        self.near.is_reached = True
        self.assertIs(self.channel(), first)
        self.near.pass_time(61.0)
        self.assertIsNot(self.channel(), first)
        self.near.pass_time(2.0)
        self.assertEqual(len(self.near.peer_links._links), 1)

    def test_renewed(self) -> None:
        """Where a certificate on it is about to end another one is made; the old one may finish."""
        first = self.grows_old(lifetime=3600.0)
        second = self.channel()
        self.assertIsNot(second, first)
        self.near.pass_time(2.0)
        self.assertEqual(len(self.near.peer_links._links), 1)

    def test_no_more_than_so_many(self) -> None:
        """For one more, a connection that carries nothing is given up; else it is refused."""
        self.patch(links, "MAX_LINKS", 1)
        self.channel()
        third = self.near.cluster.world.identity(Role.PROXY)
        self.near.answers_as = third
        wanted = third.facts.principal.id
        got: list[Any] = []
        asking = self.near.peer_links.channel(wanted, "10.0.5.12:7405")
        Deferred.fromCoroutine(asking).addBoth(got.append)
        self.turn()
        self.assertEqual(list(self.near.peer_links._links), [wanted])
