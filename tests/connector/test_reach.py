"""Where a Connector may connect to."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint
from twisted.internet.interfaces import (
    IReactorPluggableNameResolver,
    IReactorTCP,
    IReactorTime,
    IResolutionReceiver,
)
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import directlyProvides
from zope.interface.verify import verifyObject

from svc.connector.reach import Reach, ReachReactor, parse_reach
from svc.errors import ConfigError, SvcError
from tests.kinds.served import tcp

SPECIAL = (
    "169.254.169.254",
    "169.254.0.1",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "255.255.255.255",
    "100.100.100.200",
    "168.63.129.16",
    "240.0.0.1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "ff02::1",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::169.254.169.254",
    "::ffff:0.0.0.0",
    # Teredo: the client, whose bits are turned over, and the server.
    "2001:0:4136:e378:8000:63bf:5601:5601",
    "2001:0:a9fe:a9fe:8000:63bf:3fff:fdd2",
    # NAT64 of a network's own prefix, of 96, 64, 56 and 48 bits.
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:7:8:9:a9fe:a9fe",
    "64:ff9b:1:7:a9:fea9:fe00:0",
    "64:ff9b:1:7a9:fe:a9fe::",
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1::",
    # Translated without a state, and inside the tunnel of a site.
    "::ffff:0:a9fe:a9fe",
    "2001:db8::5efe:a9fe:a9fe",
    "2001:db8::200:5efe:a9fe:a9fe",
)


class ReachTests(SynchronousTestCase):
    def test_special_addresses(self) -> None:
        """Link-local, metadata, multicast and unspecified addresses are refused in any disguise."""
        for address in SPECIAL:
            self.assertFalse(Reach().allows(address), address)
            self.assertFalse(parse_reach(["0.0.0.0/0", "::/0"]).allows(address), address)

    def test_special_but_meant(self) -> None:
        """An address listed by itself is within reach, whatever it is; its neighbour is not."""
        reach = parse_reach(["169.254.169.254", "fe80::/64", "10.0.0.0/8"])
        for address in ("169.254.169.254", "fe80::1", "10.1.2.3", "::ffff:10.1.2.3"):
            self.assertTrue(reach.allows(address), address)
        for address in ("169.254.169.253", "fe80:1::1", "11.0.0.1", "127.0.0.1", "::1"):
            self.assertFalse(reach.allows(address), address)

    def test_disguises_of_ordinary_addresses(self) -> None:
        """What is inside a disguise is judged as it is by itself, whichever the disguise."""
        reach = parse_reach(["192.0.2.0/24", "10.20.0.0/16"])
        for address in (
            "::ffff:192.0.2.45",
            "64:ff9b::192.0.2.45",
            "2002:c000:22d::1",
            "2001:0:c000:205:8000:63bf:3fff:fdd2",
            "::ffff:0:192.0.2.45",
        ):
            self.assertTrue(Reach().allows(address), address)
            self.assertTrue(reach.allows(address), address)
            self.assertFalse(parse_reach(["198.51.100.0/24"]).allows(address), address)

    def test_networks_own_translation(self) -> None:
        """What a network's own NAT64 prefix leads to is not known: it must be listed by itself."""
        for address in ("64:ff9b:1::c000:22d", "64:ff9b:1:a9fe:a9:fe00:808:808"):
            self.assertFalse(Reach().allows(address), address)
            self.assertFalse(parse_reach(["::/0", "0.0.0.0/0"]).allows(address), address)
            self.assertTrue(parse_reach(["64:ff9b:1::/48"]).allows(address), address)

    def test_nothing_listed(self) -> None:
        """Without a list every ordinary address is within reach, the host's own included."""
        for address in ("10.0.0.1", "127.0.0.1", "::1", "192.0.2.1", "2001:db8::1"):
            self.assertTrue(Reach().allows(address), address)

    def test_names_are_no_addresses(self) -> None:
        """Only literal addresses are judged; everything else is refused."""
        for text in ("localhost", "", "0x7f.1", "127.1", "2130706433", "1.2.3.4 ", "٣.1.1.1"):
            self.assertFalse(Reach().allows(text), text)

    def test_unreadable_list(self) -> None:
        """An entry that is no network is refused by its place."""
        for text in ("db1", "10.0.0.1/8", "10.0.0.0/33", ""):
            refusal = self.assertRaises(ConfigError, parse_reach, ["10.0.0.1", text])
            self.assertEqual(refusal.where, "connector.reach[1]")

    @given(st.ip_addresses())
    @settings(deadline=None)
    def test_listed_means_listed(self, ip: Any) -> None:
        """An address listed by itself is always within reach."""
        plain = str(ip)
        self.assertTrue(parse_reach([plain]).allows(plain) or ip.version == 6)


class Names:
    """A resolver of the test's own names; counts what it was asked."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked = 0

    def resolveHostName(self, receiver: IResolutionReceiver, *_: object) -> Any:
        self.asked += 1
        receiver.resolutionBegan(self)  # type: ignore[arg-type]
        for address in self.addresses:
            receiver.addressResolved(IPv4Address("TCP", address, 7000))
        receiver.resolutionComplete()
        return self


class ReactorTests(SynchronousTestCase):
    def setUp(self) -> None:
        reactor: Any = MemoryReactorClock()
        self.reactor = reactor
        self.names = Names()
        self.reactor.nameResolver = self.names
        directlyProvides(self.reactor, IReactorPluggableNameResolver)
        self.guard = ReachReactor(self.reactor, Reach())

    def dial(self, host: str, *addresses: str) -> Any:
        self.names.addresses = addresses
        target = tcp.dialer.parse("db1", {"address": f"{host}:7000"}, "x")
        return tcp.dialer.endpoint(self.guard, target, {}).connect(Factory.forProtocol(Protocol))

    def dialed(self) -> list[str]:
        return [call[0] for call in self.reactor.tcpClients]

    def test_is_a_reactor(self) -> None:
        """Kinds may use it as the reactor they know."""
        for interface in (IReactorTCP, IReactorTime, IReactorPluggableNameResolver):
            verifyObject(interface, self.guard)

    def test_resolved_once_and_judged(self) -> None:
        """A name is resolved once; an address of it out of reach is left out."""
        connecting = self.dial("db1.internal", "169.254.169.254", "10.0.0.9")
        self.assertEqual(self.dialed(), ["10.0.0.9"])
        self.assertEqual((self.names.asked, self.guard.turned_away), (1, ["169.254.169.254"]))
        connecting.cancel()
        self.failureResultOf(connecting)

    def test_name_that_leads_to_metadata(self) -> None:
        """A name whose only address is out of reach is not dialed."""
        self.failureResultOf(self.dial("db1.internal", "169.254.169.254"))
        self.assertEqual((self.dialed(), self.guard.turned_away), ([], ["169.254.169.254"]))

    def test_literal_out_of_reach(self) -> None:
        """An address written in the configuration is judged like any other."""
        self.failureResultOf(self.dial("169.254.169.254", "169.254.169.254"))
        self.assertEqual(self.dialed(), [])

    def test_no_way_around(self) -> None:
        """A kind that does not ask the resolver, or names a host, is refused all the same."""
        factory = Factory.forProtocol(Protocol)
        for host in ("169.254.169.254", "localhost", "metadata.internal"):
            connecting = TCP4ClientEndpoint(self.guard, host, 80).connect(factory)
            error = self.failureResultOf(connecting, SvcError).value
            self.assertEqual(error.reason, "address_out_of_reach")
        self.assertEqual(self.dialed(), [])

    def test_hostname_endpoint_of_a_kind(self) -> None:
        """The endpoint most kinds use works as ever within reach."""
        self.names.addresses = ("10.0.0.9",)
        endpoint = HostnameEndpoint(self.guard, "db1.internal", 5432)
        connecting = endpoint.connect(Factory.forProtocol(Protocol))
        self.assertEqual(self.dialed(), ["10.0.0.9"])
        connecting.cancel()
        self.failureResultOf(connecting)
