"""Connectors on a Proxy: who is registered, who is refused, and how a tunnel ends."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import formatEvent, globalLogPublisher

from svc.errors import Denied, Fault, SvcError
from svc.messages.control import RegistrationVerdict
from svc.messages.tunnel import (
    Goodbye,
    Hello,
    Nonce,
    OpenNotice,
    OpenRefused,
    Renew,
    Renewed,
)
from svc.model.cluster.registration import AcceptedRegistration, Withheld
from svc.model.principal import Role
from svc.model.session.tunnels import EndReason, TunnelEnded, TunnelRefused, TunnelRegistered
from svc.model.signing import Signed
from svc.proxy.tunnels.down_queue import MAX_UNSENT
from svc.proxy.uplink.health import GATHER_SECS
from svc.rpc.status import status_of
from svc.wire.status import Code
from tests.proxy.pieces import Node, ProxyTests
from tests.support.proof import proves

_BECAUSE = "Authority refused the registration because "
REFUSALS = {
    "unknown_node": (Code.PERMISSION_DENIED, f"{_BECAUSE}it does not know the node"),
    "revoked_node": (Code.PERMISSION_DENIED, f"{_BECAUSE}the node was revoked"),
    "authority_unreachable": (
        Code.UNAVAILABLE,
        "registration refused because Authority cannot be reached",
    ),
    "malformed_registration": (Code.INVALID_ARGUMENT, f"{_BECAUSE}it is malformed"),
    "resource_owned_by_peer": (
        Code.ALREADY_EXISTS,
        f"{_BECAUSE}a resource belongs to another node",
    ),
    "catalog_permits_none": (
        Code.FAILED_PRECONDITION,
        f"{_BECAUSE}the catalog permits none of its resources",
    ),
    "no_resource_kinds": (
        Code.FAILED_PRECONDITION,
        f"{_BECAUSE}it carries no resource kinds",
    ),
}
"""Each refusal's word: the status of the Connector's call, and the Proxy's log line."""


class _Lines:
    """The events that one logger was given, by sentence."""

    def __init__(self, case: Any) -> None:
        self.events: list[Any] = []
        observer: Any = self.events.append
        globalLogPublisher.addObserver(observer)
        case.addCleanup(globalLogPublisher.removeObserver, observer)

    def __call__(self, line: str) -> list[Any]:
        return [one for one in self.events if formatEvent(one) == line]


class RegistrationTests(ProxyTests):
    @proves("G-TUN-02")
    def test_registered(self) -> None:
        """An accepted Connector is told so, with what is withheld, and serves its resource."""
        self.authority.verdict = RegistrationVerdict(
            True, served=("db1",), withheld=(Withheld("host1", "not_in_catalog"),)
        )
        node = self.site.node()
        accepted = node.last(AcceptedRegistration)
        self.assertEqual(accepted, AcceptedRegistration(90, (Withheld("host1", "not_in_catalog"),)))
        self.assertEqual(len(self.events(TunnelRegistered)), 1)
        self.assertEqual(self.site.gauges[("tunnels",)], 1)
        self.assertEqual(self.site.gauges[("streams",)], 1)
        self.assertEqual(self.site.counts[("stream", "open")], 1)

    @proves("G-TUN-01", "G-OPEN-04")
    def test_no_certificate(self) -> None:
        """A tunnel without a client certificate is refused as unauthenticated."""
        wire = self.site.connect(None)
        failure = _outcome(self.site, wire.channel.stream("/gate.v1.Tunnel/Register"))
        self.assertEqual(failure.fault, Fault.UNAUTHENTICATED)

    def test_persons_are_no_nodes(self) -> None:
        """A person's certificate registers no tunnel."""
        node = Node(self.site, self.site.cluster.person)
        self.site.turn()
        self.assertEqual(node.reason, "certificate_role")

    @proves("G-OPEN-04")
    def test_expired_between(self) -> None:
        """A certificate that ended after the handshake starts no further call."""
        short = self.site.cluster.world.identity(Role.CONNECTOR, lifetime=4.0)
        node = Node(self.site, short)
        self.site.turn()
        self.site.pass_time(5)
        late = _outcome(self.site, node.wire.channel.stream("/gate.v1.Tunnel/Register"))
        self.assertEqual((late.reason, late.fault), ("certificate_expired", Fault.UNAUTHENTICATED))


class RefusalTests(ProxyTests):
    @proves("G-TUN-03", "G-MET-17", "G-OPEN-04", "G-LOG-10", "G-TUN-10", "G-ERR-09", "X-41")
    def test_verdicts(self) -> None:
        """Each refusal of Authority's gives its own status, word and log line, and counts once."""
        lines = _Lines(self)
        for count, (reason, (code, text)) in enumerate(REFUSALS.items(), 1):
            self.authority.verdict = RegistrationVerdict(False, reason, "because")
            node = self.site.node()
            assert node.error is not None
            self.assertEqual((node.reason, status_of(node.error).code), (reason, code))
            [line] = lines(text)
            self.assertEqual(line["node"], node.identity.facts.principal.id)
            self.assertEqual(len(self.events(TunnelRefused)), count)
            self.assertEqual(self.site.counts[("stream", "refused")], count)
        self.assertEqual(self.events(TunnelRegistered), [])
        self.assertEqual(self.site.gauges[("tunnels",)], 0)

    @proves("G-TUN-06")
    def test_authority_away(self) -> None:
        """Without Authority a Connector is refused at once, and registers when it is back."""
        self.site.lose_authority()
        self.assertNotRegistered(self.site.node(), "authority_unreachable")
        self.assertEqual(self.site.counts[("stream", "dial_failed")], 1)
        self.authority.is_up = True
        self.site.pass_time(10)
        self.assertEqual(self.site.node().reason, "")
        self.assertEqual(len(self.events(TunnelRegistered)), 1)

    @proves("G-MET-26")
    def test_relayed_streams(self) -> None:
        """A stream counts once as what came of it: open, refused, not reached, or nobody there."""
        self.site.node()
        self.authority.verdict = RegistrationVerdict(False, "revoked_node", "because")
        self.site.node()
        self.site.lose_authority()
        self.site.node()
        self.site.link.dial = None
        self.assertEqual(self.site.node().reason, "authority_unreachable")
        words = ("open", "refused", "dial_failed", "unconfigured")
        self.assertEqual([self.site.counts["stream", word] for word in words], [1, 1, 1, 1])

    def test_refused_proxy(self) -> None:
        """A Proxy that Authority does not admit never calls the Connector revoked."""
        self.authority.registration_error = Denied("revoked", reason="revoked_node")
        self.assertNotRegistered(self.site.node(), "authority_unreachable")

    def test_authority_dies_before_its_verdict(self) -> None:
        """An Authority that goes away in the middle of a registration was not reached."""
        self.authority.holding = Deferred()
        node = self.site.node()
        self.site.lose_authority()
        self.assertNotRegistered(node, "authority_unreachable")

    @proves("G-TUN-07")
    def test_garbage(self) -> None:
        """Garbage instead of a hello is a malformed registration."""
        node = Node(self.site)
        self.site.turn()
        node.say(b"\xff\xff garbage")
        self.site.turn()
        self.assertNotRegistered(node, "malformed_registration")
        self.assertEqual(self.authority.tunnels, [])

    def test_out_of_order(self) -> None:
        """A renewal before the registration is a malformed registration."""
        node = Node(self.site)
        self.site.turn()
        node.tell(Hello("first", "0.11.0"))
        node.tell(Renew())
        self.assertNotRegistered(node, "malformed_registration")

    def test_other_node(self) -> None:
        """A registration of another node than the certificate's is not passed on."""
        self.assertNotRegistered(self.site.node(node_id="b" * 26), "malformed_registration")
        self.assertEqual(self.authority.registrations, [])

    def test_silence(self) -> None:
        """A Connector that never signs is refused, and Authority's stream is let go."""
        node = Node(self.site)
        self.site.turn()
        node.tell(Hello("first", "0.11.0"))
        self.assertIsInstance(node.said[-1], Nonce)
        self.site.pass_time(31)
        self.assertNotRegistered(node, "malformed_registration")
        self.assertEqual(self.site.links[-1].channel.open_streams, 1)

    def test_no_hello(self) -> None:
        """A Connector that says nothing at all is refused within ten seconds."""
        node = Node(self.site)
        self.site.pass_time(11)
        self.assertNotRegistered(node, "malformed_registration")

    def test_connector_leaves_before(self) -> None:
        """A Connector that leaves before the verdict was neither registered nor refused."""
        self.authority.holding = Deferred()
        node = self.site.node()
        node.wire.cut()
        self.site.turn()
        self.assertEqual(self.site.routed, [])
        self.assertEqual(self.site.links[-1].channel.open_streams, 1)

    def test_leaves_in_order_before(self) -> None:
        """A goodbye before the verdict leaves no tunnel behind."""
        self.authority.holding = Deferred()
        node = self.site.node()
        node.tell(Goodbye())
        self.authority.holding.callback(None)
        self.site.turn()
        self.assertEqual(self.site.routed, [])
        self.assertTrue(node.is_over)

    def test_same_process_twice(self) -> None:
        """The same process with the same generation is refused once, and the first stays."""
        self.site.node()
        again = self.site.node()
        self.assertEqual(again.reason, "stale_registration")
        self.assertEqual(len(self.events(TunnelRefused)), 1)
        self.assertEqual(self.site.gauges[("tunnels",)], 1)
        self.assertEqual(self.site.links[-1].channel.open_streams, 2)


class EndTests(ProxyTests):
    def assertEnded(self, reason: EndReason) -> TunnelEnded:
        [ended] = self.events(TunnelEnded)
        self.assertEqual(ended.reason, reason)
        self.assertEqual(self.site.gauges[("tunnels",)], 0)
        self.assertEqual(self.site.gauges[("streams",)], 0)
        return ended  # type: ignore[no-any-return]

    @proves("G-TUN-11")
    def test_goodbye(self) -> None:
        """A Connector that says goodbye ends its tunnel in order."""
        node = self.site.node()
        node.tell(Goodbye())
        self.assertEnded(EndReason.CLOSED)
        self.assertTrue(node.is_over)
        self.assertEqual(node.reason, "")
        self.assertEqual(self.authority.calls, [])

    @proves("G-TUN-11")
    def test_proxy_stops(self) -> None:
        """A Proxy that stops ends its tunnels in order, and their calls well."""
        node = self.site.node()
        self.site.routes.close()
        self.site.turn()
        self.assertEnded(EndReason.CLOSED)
        self.assertEqual((node.is_over, node.reason), (True, ""))

    def test_cut_at_the_drain(self) -> None:
        """A drain that cuts the connection is an orderly end as well."""
        self.site.node()
        Deferred.fromCoroutine(self.site.server.drain(1.0))
        self.site.pass_time(2)
        self.assertEnded(EndReason.CLOSED)

    @proves("G-TUN-12", "G-TUN-17", "G-TUN-18", "G-MET-16")
    def test_killed(self) -> None:
        """A Connector that dies is a broken transport, told once with how long it lasted."""
        node = self.site.node()
        self.site.pass_time(5)
        node.wire.cut()
        self.site.turn()
        self.assertAlmostEqual(self.assertEnded(EndReason.TRANSPORT_ERROR).seconds, 5.0)
        self.assertEqual(self.authority.calls, [])

    @proves("G-TUN-13")
    def test_stopped_process(self) -> None:
        """A Connector that neither speaks nor closes is found within 25 seconds."""
        node = self.site.node()
        node.wire.is_stopped = True
        self.site.pass_time(24.5)
        self.assertEqual(self.events(TunnelEnded), [])
        self.site.pass_time(0.6)
        self.assertEnded(EndReason.KEEPALIVE_FAILED)

    def test_answering_process_lives(self) -> None:
        """A Connector that answers pings and renews keeps its tunnel for minutes."""
        node = self.site.node()
        for _ in range(10):
            self.site.pass_time(30)
            node.tell(Renew())
        self.assertEqual(self.events(TunnelEnded), [])
        self.assertIsInstance(node.said[-1], Renewed)

    def test_a_report_comes_with_a_renewal(self) -> None:
        """It is on its way to Authority, or the Connector hears that it is not."""
        node, report = self.site.node(), Signed(b"well", b"signature", (b"certificate",))
        node.tell(Renew(report))
        self.assertEqual(node.said[-1], Renewed(health_taken=True))
        self.site.pass_time(GATHER_SECS)
        self.assertEqual(self.authority.health, [report])
        self.site.lose_authority()
        node.tell(Renew(report))
        self.assertEqual(node.said[-1], Renewed(health_taken=False))

    @proves("G-TUN-14")
    def test_evicted(self) -> None:
        """Authority takes a registration back: the tunnel ends as evicted, and its call says so."""
        node = self.site.node()
        Deferred.fromCoroutine(self.authority.evict("revoked_node"))
        self.site.turn()
        self.assertEnded(EndReason.EVICTED)
        self.assertEqual((node.reason, node.error and node.error.fault), ("evicted", Fault.ABORTED))

    @proves("G-TUN-15")
    def test_superseded(self) -> None:
        """Another process of the same node takes the tunnel over; the gauge stays at one."""
        node = self.site.node()
        self.site.node(instance_id="second")
        [ended] = self.events(TunnelEnded)
        self.assertEqual(ended.reason, EndReason.SUPERSEDED)
        self.assertEqual(node.reason, "superseded")
        self.assertEqual(self.site.gauges[("tunnels",)], 1)
        self.assertEqual(self.site.gauges[("streams",)], 1)
        self.assertEqual(len(self.authority.calls), 1)

    @proves("G-TUN-16")
    def test_lease(self) -> None:
        """A Connector that answers pings but does not renew loses its lease."""
        node = self.site.node()
        self.site.pass_time(89)
        self.assertEqual(self.events(TunnelEnded), [])
        self.site.pass_time(2)
        self.assertEnded(EndReason.LEASE_EXPIRED)
        self.assertEqual(node.reason, "lease_expired")

    def test_garbage_later(self) -> None:
        """Garbage on a registered tunnel breaks it, once."""
        node = self.site.node()
        node.say(b"\xff\xff garbage")
        self.site.turn()
        self.assertEnded(EndReason.TRANSPORT_ERROR)

    def test_reads_nothing(self) -> None:
        """A Connector that reads nothing is given up before it costs much."""
        node = self.site.node()
        tunnel = self.site.routes.tunnels[0]
        node.wire.is_stopped = True
        # What the transport takes does not count: the call is held up as by a full connection.
        call_waits: Deferred[None] = Deferred()

        def never(_message: bytes) -> Deferred[None]:
            return call_waits

        outbox: Any = tunnel._send.__self__  # type: ignore[attr-defined]
        self.patch(outbox, "call", _Stuck(never))
        for _ in range(MAX_UNSENT + 1):
            tunnel._send(AcceptedRegistration(90))
        self.assertEqual(self.events(TunnelEnded), [])
        tunnel._send(AcceptedRegistration(90))
        self.assertEqual(len(self.events(TunnelEnded)), 1)


class AuthorityBackTests(ProxyTests):
    def test_registered_anew(self) -> None:
        """Over Authority's absence the tunnel stays, and is registered again without a redial."""
        node = self.site.node()
        self.site.lose_authority()
        self.site.pass_time(40)
        self.assertEqual(self.site.gauges[("streams",)], 0)
        self.assertEqual(self.events(TunnelEnded), [])
        self.authority.is_up = True
        self.authority.verdict = RegistrationVerdict(True, served=("db1", "db2"))
        self.site.pass_time(6)
        node.tell(node.registration())
        self.site.turn()
        self.assertEqual(len(self.authority.registrations), 2)
        self.assertEqual(len(self.events(TunnelRegistered)), 1)
        self.assertEqual(self.site.routes.tunnels[0].resources, ("db1", "db2"))
        self.assertEqual(self.site.gauges[("streams",)], 1)
        self.assertEqual(
            len([one for one in node.said if isinstance(one, AcceptedRegistration)]), 2
        )

    def test_refused_anew(self) -> None:
        """A node that was revoked meanwhile is evicted when Authority is back."""
        node = self.site.node()
        self.site.lose_authority()
        self.authority.is_up = True
        self.authority.verdict = RegistrationVerdict(False, "revoked_node", "the node was revoked")
        self.site.pass_time(6)
        node.tell(node.registration())
        self.site.turn()
        [ended] = self.events(TunnelEnded)
        self.assertEqual(ended.reason, EndReason.EVICTED)
        self.assertEqual(self.events(TunnelRefused), [])

    def test_authority_unwell(self) -> None:
        """An Authority that is there but cannot answer is asked again and again, not in a storm."""
        self.site.node()
        self.authority.registration_error = SvcError(
            "store", reason="store_unavailable", fault=Fault.UNAVAILABLE
        )
        self.site.lose_authority()
        self.authority.is_up = True
        self.site.pass_time(60)
        self.assertEqual(self.events(TunnelEnded), [])
        self.assertTrue(4 < len(self.authority.tunnels) < 15, len(self.authority.tunnels))

    def test_many_absences(self) -> None:
        """Absences leave nothing behind, however many there are."""
        node = self.site.node()
        for _ in range(20):
            self.site.lose_authority()
            self.authority.is_up = True
            self.site.pass_time(6)
            node.tell(node.registration())
            node.tell(Renew())
        self.assertEqual(len(self.authority.calls), 1)
        self.assertEqual(self.site.counts[("stream", "open")], 21)
        self.assertEqual(self.site.gauges[("streams",)], 1)
        node.tell(Goodbye())
        self.assertEqual(len(self.events(TunnelEnded)), 1)


class CarryTests(ProxyTests):
    def test_wrong_secret(self) -> None:
        """A carry stream with another secret moves no byte, and the session still opens."""
        node = self.site.node()
        client = self.site.open()
        notice = node.last(OpenNotice)
        self.assertEqual(node.carry(notice, bytes(32)).reason, "carry_refused")
        self.assertEqual(client.heard, [])
        node.carry(notice)
        self.assertEqual(len(client.heard), 1)

    def test_other_connection(self) -> None:
        """A carry stream on another tunnel's connection is refused with the same words."""
        node = self.site.node()
        other = self.site.node(self.site.cluster.world.identity(Role.CONNECTOR))
        client = self.site.open()
        # The newest tunnel of the resource is asked.
        notice = other.last(OpenNotice)
        self.assertEqual(node.carry(notice).reason, "carry_refused")
        self.assertEqual(client.heard, [])

    def test_refused_by_connector(self) -> None:
        """What a Connector finds wrong reaches the person as its word, with the decision's id."""
        node = self.site.node()
        client = self.site.open()
        node.tell(OpenRefused(node.last(OpenNotice).session_uid, "target_unreachable"))
        self.assertEqual(client.reason, "target_unreachable")
        assert client.error is not None
        self.assertEqual(client.error.details["decision_id"], "d" * 32)
        self.assertEqual([one.reason for one in self.authority.ended], ["target_unreachable"])


class _Stuck:
    def __init__(self, offer: Any) -> None:
        self.offer = offer


def _outcome(site: Any, stream: Any) -> SvcError:
    got: list[Any] = []
    Deferred.fromCoroutine(stream.receive()).addBoth(got.append)
    site.turn()
    return got[0].value  # type: ignore[no-any-return]
