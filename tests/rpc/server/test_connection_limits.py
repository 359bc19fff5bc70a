"""How many connections a listener holds, and what becomes of the next one."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svc.interfaces.rpc import IRpcCall, RpcService
from svc.rpc.server.connection_limits import LOG_SECONDS, ConnectionLimits
from svc.rpc.server.server import RpcServerFactory, ServerConnection
from svc.wire.limits import WireLimits
from tests.rpc.memory import Pair
from tests.support.nothing import nothing

HOSTS = (
    "192.0.2.1",
    "::ffff:192.0.2.1",
    "192.0.2.2",
    "2001:db8::1",
    "2001:db8::2:0:0:1",
    "2001:db8:0:1::1",
    "fe80::1%eth0",
    "",
)
ONE_SOURCE = (("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8::1", "2001:db8::2:0:0:1"))


class CountTests(SynchronousTestCase):
    """The counts by themselves."""

    @given(st.lists(st.tuples(st.sampled_from(HOSTS), st.booleans())))
    def test_never_past_either_limit(self, steps: list[tuple[str, bool]]) -> None:
        """Whoever comes and goes, no limit is passed, and nothing is remembered of who is gone."""
        connection_limits = ConnectionLimits(Clock(), 5, 2)
        inside: list[str] = []
        for host, comes in steps:
            if comes:
                if not connection_limits.refuses(host):
                    connection_limits.entered(host)
                    inside.append(host)
            elif host in inside:
                inside.remove(host)
                connection_limits.left(host)
            self.assertEqual(connection_limits.count, len(inside))
            self.assertLessEqual(connection_limits.count, 5)
            same = {several: one for one, *rest in ONE_SOURCE for several in (one, *rest)}
            of = Counter(same.get(one, one) for one in inside if one)
            self.assertLessEqual(max(of.values(), default=0), 2)
            self.assertEqual(connection_limits.sources, len(of))
            self.assertEqual(connection_limits.refuses(""), len(inside) == 5)

    def test_log_is_not_filled(self) -> None:
        """Thousands of refusals are a few lines, each saying why and how many it stands for."""
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        clock = Clock()
        connection_limits = ConnectionLimits(
            clock=clock, most=2, most_of_address=1, listener="endpoints.public_listen"
        )
        connection_limits.entered("192.0.2.1")
        for _ in range(1000):
            self.assertTrue(connection_limits.refuses("192.0.2.1"))
        connection_limits.entered("192.0.2.2")
        self.assertTrue(connection_limits.refuses("192.0.2.3"))
        clock.advance(LOG_SECONDS)
        connection_limits.left("192.0.2.2")
        self.assertTrue(connection_limits.refuses("192.0.2.1"))
        told = [(one["reason"], one["source"], one["count"]) for one in events if "reason" in one]
        self.assertEqual(
            told,
            [
                ("too_many_of_address", "192.0.2.1", 1),
                ("too_many_connections", "192.0.2.3", 1),
                ("too_many_of_address", "192.0.2.1", 1000),
            ],
        )
        self.assertEqual(
            {one["listener"] for one in events if "reason" in one}, {"endpoints.public_listen"}
        )


class ListenerTests(SynchronousTestCase):
    """A listener with room for three, two of an address."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.broken = False
        self.factory = RpcServerFactory(
            [],
            self.clock,
            plaintext=True,
            on_problem=self.tell,
            connection_limits=ConnectionLimits(self.clock, 3, 2),
            admit=nothing,
        )

    def tell(self, what: str, detail: str) -> None:
        if self.broken:
            raise LookupError(what)

    def come(self, host: str) -> tuple[ServerConnection, StringTransport] | None:
        """Connect from there; None where it is refused."""
        kind: Any = IPv6Address if ":" in host else IPv4Address
        protocol = self.factory.buildProtocol(kind("TCP", host, 1) if host else UNIXAddress(b""))
        if protocol is None:
            return None
        transport = StringTransport()
        protocol.makeConnection(transport)
        return protocol, transport

    def test_of_one_address(self) -> None:
        """The third of an address, or of an IPv6 network, is refused; another's is not."""
        for hosts in (("192.0.2.1",) * 3, ("2001:db8::1", "2001:db8::2", "2001:db8::3")):
            with self.subTest(hosts=hosts):
                self.setUp()
                self.assertEqual([self.come(one) is None for one in hosts], [False, False, True])
                self.assertIsNotNone(self.come("198.51.100.1"))

    def test_in_all(self) -> None:
        """The fourth of anybody is refused, also over a local socket."""
        for number in range(3):
            self.assertIsNotNone(self.come(f"192.0.2.{number}"))
        self.assertIsNone(self.come("192.0.2.9"))
        self.assertIsNone(self.come(""))

    def test_local_sockets_have_no_address(self) -> None:
        """Of a local socket's peers only the whole number counts."""
        self.assertEqual([self.come("") is None for _ in range(4)], [False, False, False, True])

    def test_room_is_given_back(self) -> None:
        """Who leaves makes room, however it ends: by itself, late, broken, or amid a failure."""

        def leave(protocol: ServerConnection, transport: StringTransport) -> None:
            protocol.connectionLost()

        def never_speak(protocol: ServerConnection, transport: StringTransport) -> None:
            self.clock.advance(10)
            self.assertTrue(transport.disconnected)
            protocol.connectionLost()

        def babble(protocol: ServerConnection, transport: StringTransport) -> None:
            protocol.dataReceived(b"GET / HTTP/1.1\r\n\r\n")
            protocol.connectionLost()

        def break_us(protocol: ServerConnection, transport: StringTransport) -> None:
            self.broken = True
            self.assertRaises(LookupError, protocol.connectionLost)

        for ending in (leave, never_speak, babble, break_us):
            with self.subTest(ending=ending.__name__):
                self.setUp()
                come = [self.come("192.0.2.1"), self.come("192.0.2.1")]
                self.assertIsNone(self.come("192.0.2.1"))
                for one in come:
                    assert one is not None
                    ending(*one)
                self.assertEqual(
                    (self.factory.connection_limits.count, self.factory.connection_limits.sources),
                    (0, 0),
                )
                self.assertIsNotNone(self.come("192.0.2.1"))

    def test_half_is_kept_from_strangers(self) -> None:
        """Peers without a certificate get half of the room; who leaves gives it back."""
        connection_limits = ConnectionLimits(self.clock, 6, 6)
        self.factory = RpcServerFactory(
            [],
            self.clock,
            plaintext=True,
            anonymous=WireLimits(),
            connection_limits=connection_limits,
            admit=nothing,
        )
        come = [self.come(f"192.0.2.{number}") for number in range(4)]
        ends = [one and one[0].end_reason for one in come]
        self.assertEqual(ends, [None, None, None, "too_many_anonymous"])
        for one in come:
            assert one is not None
            one[0].connectionLost()
        self.assertEqual((connection_limits.anonymous, connection_limits.count), (0, 0))
        self.assertEqual([self.come("")[0].end_reason for _ in range(3)], [None] * 3)  # type: ignore[index]

    def test_strangers_are_told_their_limit(self) -> None:
        """A peer without a certificate is told in the settings how many calls it may have open."""
        limits = WireLimits(max_streams=8)
        self.factory = RpcServerFactory(
            [], self.clock, plaintext=True, anonymous=limits, admit=nothing
        )
        come = self.come("192.0.2.1")
        assert come is not None
        caller = H2Connection(H2Configuration(client_side=True))
        caller.initiate_connection()
        self.clock.advance(0)
        caller.receive_data(come[1].value())
        self.assertEqual(caller.remote_settings.max_concurrent_streams, 8)
        come[0].connectionLost()

    def test_too_fast(self) -> None:
        """One address that connects and leaves again and again is slowed down; another is not."""
        self.factory.connection_limits = ConnectionLimits(self.clock, 3, 2, per_minute=60)

        def come_and_leave(host: str) -> bool:
            come = self.come(host)
            if come is not None:
                come[0].connectionLost()
            return come is not None

        self.assertEqual(
            [come_and_leave("192.0.2.1") for _ in range(12)], [True] * 10 + [False] * 2
        )
        self.assertTrue(come_and_leave("192.0.2.2"))
        self.assertTrue(come_and_leave(""))
        self.clock.advance(1)
        self.assertEqual([come_and_leave("192.0.2.1") for _ in range(2)], [True, False])

    def test_never_connected(self) -> None:
        """What was made for a peer and never connected takes no room."""
        for _ in range(9):
            self.assertIsNotNone(self.factory.buildProtocol(IPv4Address("TCP", "192.0.2.1", 1)))
        self.assertEqual(self.factory.connection_limits.count, 0)

    def test_amid_calls(self) -> None:
        """A connection that breaks amid a call is counted out once."""

        async def wait(call: IRpcCall) -> None:
            await call.receive()

        pair = Pair([RpcService("t.T", {"Wait": wait})])
        pair.channel.stream("/t.T/Wait")
        pair.turn()
        self.assertEqual(pair.factory.connection_limits.count, 1)
        pair.server_side.abortConnection()
        pair.turn()
        self.assertEqual(pair.factory.connection_limits.count, 0)
        pair.factory.connection_ended(pair.server)
        self.assertEqual(pair.factory.connection_limits.count, 0)
