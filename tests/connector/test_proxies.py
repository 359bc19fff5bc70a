"""A Connector with several addresses of Proxies: so many connections, each to another Proxy."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.connector.cycle import Tunnels
from svc.connector.proxies import Proxies, ProxyAddress
from svc.connector.service import ConnectorService
from svc.errors import Unavailable
from svc.interfaces.rpc import IRpcCall, Peer, RpcService
from svc.messages.tunnel import Nonce, decode_registration, decode_up, encode_down
from svc.model.cluster.registration import AcceptedRegistration
from svc.model.signing import Signed
from svc.runtime.backoff import Backoff
from tests.connector.gateway import Gateway
from tests.rpc.memory import Pair
from tests.support.proof import proves


class Dialed:
    """A channel whose peer is the Proxy that the test says."""

    def __init__(self, channel: Any, proxy: str) -> None:
        self._channel = channel
        self.peer = Peer(proxy, 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class Site:
    """Addresses and the Proxies at them; None: nobody answers there."""

    def __init__(self, count: int, **at: str | None) -> None:
        self.at = at
        self.dialed: list[str] = []
        self.generations: list[tuple[str, int]] = []
        self.told: list[str] = []
        self.duplicates = 0
        self.up: dict[str, list[Pair]] = {}
        self.gateway = gateway = Gateway()
        self.clock = gateway.clock
        proxies = Proxies([self._way(address) for address in at], self._duplicate)
        self.tunnels = [
            Tunnels(
                connector=gateway.tunnels.connector,
                proxies=proxies,
                proxy_of=lambda peer: peer.host,
                sign=gateway.sign,
                sessions=gateway.connector_sessions,
                tasks=gateway.tasks,
                clock=gateway.clock,
            )
            for _ in range(count)
        ]
        self.service = ConnectorService(
            tunnels=self.tunnels,
            sessions=gateway.connector_sessions,
            clock=gateway.clock,
            backoff=lambda: Backoff(first=1.0, longest=60.0),
            on_event=lambda word, reason: self.told.append(word),
            serving=lambda: None,
        )

    def _duplicate(self) -> None:
        self.duplicates += 1

    def _way(self, address: str) -> ProxyAddress:
        async def dial() -> Any:
            self.dialed.append(address)
            proxy = self.at[address]
            if proxy is None:
                raise Unavailable("nobody there", reason="cannot_connect")

            async def register(call: IRpcCall) -> None:
                await self._register(call, proxy)

            pair = Pair([RpcService("gate.v1.Tunnel", {"Register": register})], clock=self.clock)
            self.gateway.pairs.append(pair)
            self.up.setdefault(address, []).append(pair)
            return Dialed(pair.channel, proxy)

        return ProxyAddress(address, dial)

    async def _register(self, call: IRpcCall, proxy: str) -> None:
        await call.receive()
        await call.send(encode_down(Nonce(bytes(32))))
        signed = decode_up(await call.receive() or b"")
        assert isinstance(signed, Signed)
        registration = decode_registration(signed.payload)
        assert registration.proxy_id == proxy
        self.generations.append((proxy, registration.generation))
        await call.send(encode_down(AcceptedRegistration(90)))
        while await call.receive() is not None:
            pass

    def lose(self, address: str, *, for_good: bool = True) -> None:
        """Break the connections to an address."""
        if for_good:
            self.at[address] = None
        for pair in self.up.pop(address):
            pair.server_side.abortConnection()
        self.gateway.turn()

    @property
    def connected(self) -> int:
        """As the gauge counts."""
        return self.told.count("registered") - self.told.count("ended")


class ProxiesTests(SynchronousTestCase):
    """See the module."""

    def site(self, count: int, **at: str | None) -> Site:
        """A Connector that has dialed; it is stopped after the test."""
        site = Site(count, **at)
        self.addCleanup(site.gateway.turn)
        self.successResultOf(site.service.startService())
        site.gateway.turn()
        self.addCleanup(site.gateway.tasks.stopService)
        self.addCleanup(site.service.stopService)
        return site

    @proves("X-45")
    def test_one(self) -> None:
        """With a count of 1 the first address is dialed and no other."""
        site = self.site(1, a="P1", b="P2")
        site.gateway.advance(300)
        self.assertEqual((site.dialed, site.connected), (["a"], 1))

    @proves("G-CFG-12")
    def test_two(self) -> None:
        """With a count of 2 there is a connection to each of two Proxies, and none more."""
        site = self.site(2, a="P1", b="P2", c="P3")
        self.assertEqual(sorted(site.dialed), ["a", "b"])
        self.assertEqual(
            (site.connected, sorted(p for p, _ in site.generations)), (2, ["P1", "P2"])
        )

    def test_fails_over(self) -> None:
        """A connection that is lost is made to another address, after the wait."""
        site = self.site(1, a="P1", b="P2")
        site.lose("a", for_good=False)
        self.assertEqual((site.dialed, site.connected), (["a"], 0))
        site.gateway.advance(1)
        self.assertEqual((site.dialed, site.connected), (["a", "b"], 1))

    def test_the_count_is_kept(self) -> None:
        """Of three Proxies one that goes is replaced by the one that was free."""
        site = self.site(2, a="P1", b="P2", c="P3")
        site.lose("a")
        site.gateway.advance(1)
        self.assertEqual((site.dialed[2:], site.connected), (["c"], 2))
        site.lose("b")
        site.gateway.advance(1)
        self.assertEqual(site.connected, 1)
        site.at["a"] = "P1"
        site.gateway.advance(3)
        self.assertEqual(site.connected, 2)

    def test_all_are_tried_before_the_wait(self) -> None:
        """Addresses where nobody answers are passed over at once, and all waited for together."""
        site = self.site(1, a=None, b=None, c="P3")
        self.assertEqual((site.dialed, site.connected), (["a", "b", "c"], 1))
        site.lose("c")
        site.gateway.advance(1)
        self.assertEqual(site.dialed[3:], ["a", "b", "c"])
        site.gateway.advance(1)
        self.assertEqual(len(site.dialed), 6)
        site.gateway.advance(1)
        self.assertEqual(len(site.dialed), 9)

    @proves("G-MET-50", "X-45", "G-TUN-23", "G-OPEN-47")
    def test_two_names_of_one_proxy(self) -> None:
        """A second connection to one Proxy is counted, closed, and made to another address."""
        site = self.site(2, a="P1", b="P1", c="P2")
        self.assertEqual(site.dialed, ["a", "b", "c"])
        self.assertEqual((site.duplicates, site.connected), (1, 2))
        self.assertEqual([p for p, _ in site.generations], ["P1", "P2"])
        self.assertTrue(site.up["b"][0].server_side.disconnected)

    @proves("U-NOTE-21")
    def test_one_address_in_front_of_one_proxy(self) -> None:
        """Where there is no second Proxy one connection stays, and the other is sought in time."""
        site = self.site(2, a="P1")
        self.assertEqual((site.dialed, site.duplicates, site.connected), (["a"] * 2, 1, 1))
        site.gateway.advance(0.9)
        self.assertEqual(site.duplicates, 1)
        site.gateway.advance(0.1)
        self.assertEqual(site.duplicates, 2)
        site.at["a"] = "P2"
        site.gateway.advance(2)
        self.assertEqual((site.duplicates, site.connected), (2, 2))

    def test_an_address_in_use_is_left_alone(self) -> None:
        """While another address is dead, the one in use is not dialed a second time."""
        site = self.site(2, a="P1", b=None)
        for _ in range(10):
            site.gateway.advance(5)
        self.assertEqual((site.dialed.count("a"), site.duplicates, site.connected), (1, 0, 1))

    def test_generations_go_up_over_all_connections(self) -> None:
        """What another connection registers at a Proxy is newer than what was there before."""
        site = self.site(2, a="P1", b="P2")
        for _ in range(3):
            site.lose("a", for_good=False)
            site.gateway.advance(9)
        numbers = [generation for _, generation in site.generations]
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_a_proxy_whose_connection_ended_is_free(self) -> None:
        """After its connection is lost a Proxy may be reached by another name."""
        site = self.site(1, a="P1", b="P1")
        site.lose("a")
        site.gateway.advance(1)
        self.assertEqual((site.duplicates, site.connected, site.dialed), (0, 1, ["a", "b"]))
