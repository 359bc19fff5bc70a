"""The listener of the sign-in page: few connections, each with little time."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.page.pages import Answer, IncomingRequest
from svc.authority.sign_in_page.listener import (
    MOST_CONNECTIONS,
    MOST_OF_SOURCE,
    MOST_SECS,
    FewConnections,
    sign_in_site,
)
from svc.authority.sign_in_page.pages import MAX_BODY
from svc.runtime.services import BackgroundTasks
from svc.telemetry.listener import REQUEST_SECS


class Echo:
    """Pages that say what they were asked."""

    def __init__(self) -> None:
        self.asked: list[IncomingRequest] = []

    async def answer(self, ask: IncomingRequest, host: str) -> Answer:
        """Keep it."""
        self.asked.append(ask)
        return Answer(200, b"ok", (("Content-Type", "text/plain"),))


class Wire(StringTransport):
    """One connection of a browser."""

    def __init__(self, host: str) -> None:
        super().__init__(peerAddress=IPv4Address("TCP", host, 40_000))
        self.is_cut = False

    def abortConnection(self) -> None:
        """Cut."""
        self.is_cut = True


class SignInListenerTests(SynchronousTestCase):
    """Without TLS, which is a layer of Twisted's."""

    def setUp(self) -> None:
        self.clock, self.pages, self.is_on = Clock(), Echo(), True
        site = sign_in_site(
            pages=self.pages,
            host="sign-in.test",
            is_on=lambda: self.is_on,
            clock=self.clock,
            tasks=BackgroundTasks(),
        )
        self.few = FewConnections(site, self.clock)

    def connected(self, host: str = "192.0.2.1") -> tuple[Any, Wire]:
        """One connection; None where it is not taken."""
        wire = Wire(host)
        protocol = self.few.buildProtocol(wire.getPeer())
        if protocol is not None:
            protocol.makeConnection(wire)
        return protocol, wire

    def test_answers(self) -> None:
        """A request comes whole."""
        protocol, wire = self.connected()
        head = "POST /sign-in/x HTTP/1.1\r\nHost: sign-in.test\r\nOrigin: a\r\nContent-Length: 2"
        protocol.dataReceived(f"{head}\r\n\r\n{{}}".encode())
        self.assertIn(b"HTTP/1.1 200 OK", wire.value())
        (ask,) = self.pages.asked
        self.assertEqual((ask.method, ask.body), ("POST", b"{}"))
        self.assertEqual((ask.hosts, ask.origins), ([b"sign-in.test"], [b"a"]))

    def test_not_the_leader(self) -> None:
        """Another Authority than the one that leads says so."""
        self.is_on = False
        protocol, wire = self.connected()
        protocol.dataReceived(b"GET / HTTP/1.1\r\nHost: sign-in.test\r\n\r\n")
        self.assertIn(b"HTTP/1.1 503", wire.value())
        self.assertEqual(self.pages.asked, [])

    def test_oversize(self) -> None:
        """What is too large, or too long under way, is cut."""
        protocol, wire = self.connected()
        head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {MAX_BODY + 2}\r\n\r\n"
        protocol.dataReceived(head.encode() + b"x" * MAX_BODY)
        self.assertFalse(wire.is_cut)
        protocol.dataReceived(b"x")
        self.assertTrue(wire.is_cut)
        _, slow = self.connected()
        self.clock.advance(REQUEST_SECS)
        self.assertTrue(slow.is_cut)
        self.assertEqual(self.pages.asked, [])

    def test_few_at_once(self) -> None:
        """An address has a share of the connections; all have an end."""
        mine = [self.connected() for _ in range(MOST_OF_SOURCE)]
        self.assertIsNone(self.connected()[0])
        for number in range(MOST_OF_SOURCE, MOST_CONNECTIONS):
            self.assertIsNotNone(self.connected(f"198.51.100.{number % 250}")[0])
        self.assertIsNone(self.connected("203.0.113.1")[0])
        protocol, _ = mine[0]
        protocol.connectionLost(None)
        self.assertIsNotNone(self.connected()[0])
        protocol, wire = mine[1]
        for _ in range(int(MOST_SECS / 5)):
            self.clock.advance(5)
            protocol.dataReceived(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertTrue(wire.is_cut)

    def test_a_network_is_one_source(self) -> None:
        """All addresses of one IPv6 network have one share, as they are one site's."""
        mine = [self.connected(f"2001:db8::{number:x}")[0] for number in range(MOST_OF_SOURCE)]
        self.assertNotIn(None, mine)
        self.assertIsNone(self.connected("2001:db8::ffff:1")[0])
        self.assertIsNotNone(self.connected("2001:db8:0:1::1")[0])
        mine[0].connectionLost(None)
        self.assertIsNotNone(self.connected("2001:db8::ffff:1")[0])
