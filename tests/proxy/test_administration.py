"""The admin lane of a Proxy: who may open it is decided before Authority is dialed."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.errors import Fault
from svc.interfaces.rpc import Peer
from svc.messages.relay import OPEN_METHOD, Lane, encode_relay_open
from svc.model.principal import Role
from svc.rpc.frames import open_frame
from tests.proxy.authority import Authority
from tests.proxy.lanes import LaneEndpoint
from tests.proxy.pieces import ProxyTests, Site, Talk, Wire, data
from tests.support.proof import proves

ONE_ACTION = (
    '@id("looks") permit (principal in Group::"staff", action == Action::"viewStatus", '
    "resource is Cluster);"
)
RECENT = (
    '@id("operators") permit (principal in Group::"staff", action in Action::"administer", '
    "resource is Cluster) when { context has mfa_age_seconds && context.mfa_age_seconds < 900 };"
)
FROM_HOME = (
    '@id("home") permit (principal, action in Action::"administer", resource is Cluster) when '
    "{ context has proxy_reported && context.proxy_reported has source_address && "
    'context.proxy_reported.source_address.isInRange(ip("10.0.0.0/8")) };'
)


class AdminPolicy:
    """Of tests that give the Proxy a policy."""

    site: Site
    authority: Authority

    def policy(self, text: str) -> None:
        """Let the Proxy decide by this text."""
        version = self.authority.bundle.policy_version + 1
        self.authority.bundle = self.authority._bundle(("db1",), 8, version, text)
        self.authority.publish(self.authority.frame())
        self.site.turn()


class AdminLaneTests(ProxyTests, AdminPolicy):
    """A Proxy with a policy, and an Authority that serves administrators on port 7003."""

    def setUp(self) -> None:
        super().setUp()
        self.endpoint = self.site.lane_endpoint = LaneEndpoint()

    def lane(self, identity: Any = None, wire: Wire | None = None, **where: Any) -> Talk:
        """One attempt to open the lane."""
        talk = Talk((wire or self.site.connect(identity, **where)).channel.stream(OPEN_METHOD))
        talk.say(open_frame(encode_relay_open(Lane.ADMIN)))
        self.site.turn()
        return talk

    def refused(self, talk: Talk, reason: str, fault: Fault) -> None:
        """It was refused so, and Authority was not dialed."""
        assert talk.error is not None
        self.assertEqual((talk.error.reason, talk.error.fault), (reason, fault))
        self.assertEqual(self.site.lanes_dialed, [])
        self.assertEqual(self.site.gauges[("lane",)], 0)

    @proves("G-MET-28", "G-MET-29")
    def test_opens(self) -> None:
        """One action is enough; bytes pass unread both ways, under the lane's own label."""
        self.policy(ONE_ACTION)
        talk = self.lane(self.site.cluster.person)
        self.assertEqual((talk.heard, self.site.lanes_dialed), ([open_frame(b"")], [7003]))
        [far] = self.endpoint.far
        odd = bytes(range(100))
        talk.say(data(odd))
        far.far.dataReceived(odd[::-1])
        self.site.turn()
        self.assertEqual((far.value(), talk.data), (odd, odd[::-1]))
        self.assertEqual(self.site.gauges[("lane",)], 1)
        far.loseConnection()
        self.site.turn()
        self.assertEqual(self.site.gauges[("lane",)], 0)
        self.assertEqual(self.site.counts[("lane", "admin", "open")], 1)
        self.assertEqual(self.site.counts[("lane", "renewal", "open")], 0)

    def test_without_rights(self) -> None:
        """Whoever may administer nothing is refused, counted, and named in a summary."""
        self.refused(self.lane(self.site.cluster.person), "denied", Fault.DENIED)
        self.assertEqual(self.site.counts[("lane", "admin", "refused")], 1)
        self.assertEqual(self.site.counts[("budget", "admin")], 1)
        (told,) = self.site.refusals.refusal_counter.take()
        person = self.site.cluster.person.facts.principal.id
        self.assertEqual((told.caller.id, told.budget, told.count), (person, "admin", 1))

    def test_denied_too_often(self) -> None:
        """Asking again and again is stopped by the budget of denials."""
        self.site.person_rates.denials.buckets.rate = evolve(
            self.site.person_rates.denials.buckets.rate, burst=3, per_minute=1
        )
        reasons = [self.lane(self.site.cluster.person).reason for _ in range(5)]
        self.assertEqual(reasons[:3], ["denied"] * 3)
        self.assertNotIn("denied", reasons[3:])
        self.assertEqual(self.site.lanes_dialed, [])

    def test_second_factor(self) -> None:
        """A policy that wants a recent factor lets the lane open: Authority knows how recent."""
        self.policy(RECENT)
        self.assertEqual(self.lane(self.site.cluster.person).reason, "")

    def test_source_address(self) -> None:
        """The address of the caller counts here: it is this Proxy that sees it."""
        self.policy(FROM_HOME)
        person = self.site.cluster.person
        self.refused(self.lane(person, host="192.0.2.9"), "denied", Fault.DENIED)
        self.assertEqual(self.lane(person, host="10.1.2.3").reason, "")

    def test_revoked(self) -> None:
        """A person or a certificate that was revoked opens nothing."""
        self.policy(ONE_ACTION)
        person = self.site.cluster.person
        self.authority.beat(person.facts.principal.uri)
        self.site.turn()
        self.refused(self.lane(person), "revoked", Fault.DENIED)
        sha256 = frozenset({person.facts.sha256})
        self.authority.publish(self.authority.frame(parts="nothing", revoked_certificates=sha256))
        self.site.turn()
        self.refused(self.lane(person), "revoked_certificate", Fault.DENIED)

    def test_stale(self) -> None:
        """Without a fresh policy nobody is let through, and nobody is blamed for it."""
        self.policy(ONE_ACTION)
        self.authority.publish(self.authority.frame(parts="nothing", valid_secs=5))
        self.site.turn()
        self.site.pass_time(6, beating=False)
        self.refused(self.lane(self.site.cluster.person), "policy_stale", Fault.UNAVAILABLE)
        self.assertEqual(self.site.counts[("budget", "admin")], 0)

    def test_nodes(self) -> None:
        """A node's certificate is no person's, whatever the policy says."""
        self.policy('@id("all") permit (principal, action, resource);')
        for role in (Role.CONNECTOR, Role.PROXY, Role.AUTHORITY):
            talk = self.lane(self.site.cluster.world.identity(role))
            self.refused(talk, "certificate_role", Fault.UNAUTHENTICATED)
        self.assertEqual(self.site.counts[("lane", "admin", "refused")], 3)

    def test_without_a_certificate(self) -> None:
        """Nobody comes in without one."""
        self.policy('@id("all") permit (principal, action, resource);')
        self.refused(self.lane(None), "unauthenticated", Fault.UNAUTHENTICATED)

    def test_plaintext(self) -> None:
        """On a listener without TLS the lane is refused, whatever headers the front adds."""
        self.policy('@id("all") permit (principal, action, resource);')
        wire = self.site.connect(None)
        wire.server.peer = evolve(wire.server.peer, tls=False)
        chain = self.site.cluster.person.chain
        claims: list[tuple[str, str | bytes]] = [
            ("x-forwarded-client-cert", "Hash=00;URI=spiffe://c1.example.test/user/x"),
            ("x-client-cert-bin", chain[0]),
        ]
        talk = Talk(wire.channel.stream(OPEN_METHOD, metadata=claims))
        talk.say(open_frame(encode_relay_open(Lane.ADMIN)))
        self.site.turn()
        self.refused(talk, "plaintext_listener", Fault.PRECONDITION)
        # Nor where a front's word reached the place of a verified chain.
        with self.assertRaisesRegex(Exception, "no TLS"):
            self.site.public.lanes.admit_administrator(Peer("192.0.2.7", 1, tls=False, chain=chain))

    def test_expired(self) -> None:
        """A certificate is looked at when the lane is opened, not at the handshake alone."""
        self.policy(ONE_ACTION)
        short = self.site.cluster.world.identity(Role.USER, 30.0)
        wire = self.site.connect(short)
        self.site.pass_time(31)
        self.refused(self.lane(wire=wire), "certificate_expired", Fault.UNAUTHENTICATED)

    def test_off(self) -> None:
        """An Authority that serves no administrators is said to be so; without one it is gone."""
        self.policy(ONE_ACTION)
        lanes = self.site.link.lanes
        assert lanes is not None
        self.site.link.lanes = evolve(lanes, admin_port=0)
        self.refused(self.lane(self.site.cluster.person), "admin_lane_off", Fault.PRECONDITION)
        self.site.link.lanes = None
        talk = self.lane(self.site.cluster.person)
        self.refused(talk, "authority_unreachable", Fault.UNAVAILABLE)
        self.assertEqual(self.site.counts[("lane", "admin", "unconfigured")], 2)

    def test_deadline(self) -> None:
        """A command may take long, and not for ever."""
        self.policy(ONE_ACTION)
        talk = self.lane(self.site.cluster.person)
        self.site.pass_time(3540, step=30)
        self.assertFalse(talk.is_over)
        self.site.pass_time(90, step=30)
        self.assertEqual((talk.is_over, self.endpoint.far[0].gone), (True, "aborted"))

    def test_share(self) -> None:
        """One person holds a share of the lane's places, and joining has places of its own."""
        self.policy(ONE_ACTION)
        places = self.site.public.lanes.places[Lane.ADMIN]
        places.most, places.share = 6, 2
        reasons = [self.lane(self.site.cluster.person).reason for _ in range(3)]
        self.assertEqual(reasons, ["", "", "lane_full"])
        joining = Talk(self.site.connect(None).channel.stream(OPEN_METHOD))
        joining.say(open_frame(encode_relay_open(Lane.JOIN)))
        self.site.turn()
        self.assertEqual(joining.reason, "")
