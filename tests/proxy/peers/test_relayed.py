"""A session that goes through two Proxies: what passes, and how it ends on both."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from svc.errors import Fault
from svc.messages.session import decode_opened
from svc.messages.tunnel import OpenNotice, OpenRefused
from svc.model.session.tunnels import EndReason
from svc.proxy.peers.service import PeerService
from svc.proxy.sessions.carry import Carried
from svc.ratelimit.limits import Rate
from svc.rpc.client.channel import ClientStream
from svc.rpc.frames import EOF, parse_frame
from tests.proxy.peers.pieces import PeersTests
from tests.proxy.pieces import Talk, data
from tests.support.proof import proves

NOBODY = '@id("nobody") forbid (principal, action, resource);'


class RelayedTests(PeersTests):
    def assertEnded(self, client: Talk, carry: Talk, reason: str) -> None:
        """Both ends heard the reason, nothing counts it any more, and the ingress reports it."""
        self.assertEqual((client.is_over, client.reason), (True, reason))
        self.assertEqual((carry.is_over, carry.reason), (True, reason))
        self.assertEqual(self.active, (0, 0))
        self.assertEqual([one.reason for one in self.near.authority.ended], [reason])
        self.assertEqual((self.far.authority.ended, self.far.authority.departures), ([], []))

    @proves("G-SES-12", "G-MET-13", "G-MET-46")
    def test_both_ways(self) -> None:
        """Bytes pass both ways, both Proxies count it, and the one it entered reports it."""
        node, client, carry = self.carried()
        _, payload = parse_frame(client.heard[0])
        grant, _ = decode_opened(bytes(payload))
        self.assertEqual(grant, node.last(OpenNotice).grant)
        client.say(data(b"question"))
        carry.say(data(b"answer"))
        self.turn()
        self.assertEqual((carry.data, client.data), (b"question", b"answer"))
        self.assertEqual(self.outcomes, {"ingress accepted": 1, "egress accepted": 1})
        client.stream.end()
        self.turn()
        self.assertEqual((client.is_over, client.reason), (True, ""))
        self.assertEqual((carry.is_over, carry.reason), (True, ""))
        [ended] = self.near.authority.ended
        self.assertEqual((ended.reason, ended.bytes_up, ended.bytes_down), ("closed", 15, 13))
        self.assertEqual(self.far.authority.ended, [])
        self.assertEqual(self.near.counts[("session", "tcp")], 1)
        self.assertEqual(self.far.counts[("session", "tcp")], 0)

    def test_half_close(self) -> None:
        """The end of writing passes in band, and the other direction goes on."""
        _, client, carry = self.carried()
        client.say(EOF)
        self.turn()
        self.assertEqual(carry.heard, [EOF])
        carry.say(data(b"late"))
        self.turn()
        self.assertEqual(client.data, b"late")
        carry.stream.end()
        self.turn()
        self.assertEqual((client.is_over, client.reason), (True, ""))
        self.assertEqual([one.reason for one in self.near.authority.ended], ["closed"])

    def test_one_connection(self) -> None:
        """Sessions share the connection between two Proxies."""
        node, _, _ = self.carried()
        second = self.near.open()
        self.turn()
        node.carry(node.last(OpenNotice))
        self.turn()
        self.assertEqual((self.active, second.error), ((2, 2), None))
        self.assertEqual(len(self.near.peer_wires), 1)

    def test_client_breaks_off(self) -> None:
        """A person who leaves is gone on both."""
        _, client, carry = self.carried()
        client.stream.cancel()
        self.turn()
        assert carry.error is not None
        self.assertEqual(carry.error.fault, Fault.CANCELLED)
        self.assertEqual([one.reason for one in self.near.authority.ended], ["cancelled"])
        self.assertEqual(self.active, (0, 0))

    def test_openings_are_broken_off(self) -> None:
        """However often a person breaks openings off: it ends nobody's session but those."""
        self.far.peers.budget.buckets.change(Rate(per_minute=60_000, burst=10_000))
        node, client, carry = self.carried()
        for _ in range(3):
            wire = self.near.connect(self.near.cluster.person)
            for _ in range(100):
                self.near.open(wire).stream.cancel()
        self.turn()
        self.assertEqual(sum(isinstance(one, OpenNotice) for one in node.said), 301)
        self.assertEqual((len(self.near.peer_wires), client.error, self.active), (1, None, (1, 1)))
        client.say(data(b"still here"))
        self.turn()
        self.assertEqual(carry.data, b"still here")

    def test_connector_breaks_off(self) -> None:
        """A target that resets gives the person a break."""
        _, client, carry = self.carried()
        carry.stream.cancel()
        self.turn()
        self.assertEqual(client.reason, "broken")
        self.assertEqual([one.reason for one in self.near.authority.ended], ["broken"])

    def test_tunnel_dies(self) -> None:
        """The end of the tunnel is the person's answer; the egress has nothing to report."""
        node, client, _ = self.carried()
        node.wire.cut()
        self.turn()
        self.assertEqual(client.reason, "tunnel_transport_error")
        self.assertEqual(
            [one.reason for one in self.near.authority.ended], ["tunnel_transport_error"]
        )
        self.assertEqual((self.far.authority.ended, self.far.authority.departures), ([], []))

    def test_tunnel_closed(self) -> None:
        """The words of a tunnel's end are kept apart."""
        _, client, carry = self.carried()
        [tunnel] = self.far.routes.tunnels
        tunnel.close(EndReason.EVICTED)
        self.turn()
        self.assertEnded(client, carry, "tunnel_evicted")

    def test_policy_changes(self) -> None:
        """What the policy no longer allows ends where it entered, and so on both, with the word."""
        _, client, carry = self.carried()
        authority = self.near.authority
        bundle = authority._bundle(("db1",), revision=8, version=4, text=NOBODY)
        authority.publish(authority.frame(bundle))
        self.turn()
        self.assertEnded(client, carry, "policy_changed")

    def test_person_is_revoked(self) -> None:
        """Each Proxy looks by itself: the one that hears of it first ends it on both."""
        node = self.far.node()
        for site in (self.near, self.far):
            with self.subTest(first=site is self.near):
                _, client, carry = self.carried(node)
                for hears in (site, self.near):
                    hears.authority.beat(self.near.cluster.person.facts.principal.uri)
                    self.turn()
                self.assertEqual((client.reason, carry.reason), ("revoked", "revoked"))
                self.assertEqual(self.active, (0, 0))
                for hears in (site, self.near):
                    hears.authority.beat()
                    self.turn()

    def test_only_the_other_one_says_it(self) -> None:
        """What the Authority says to both is not taken from the other Proxy alone."""
        _, client, carry = self.carried()
        self.far.authority.beat(self.near.cluster.person.facts.principal.uri)
        self.turn()
        self.assertEqual((carry.reason, client.is_over), ("revoked", False))
        self.near.pass_time(6.0)
        self.assertEqual((client.reason, self.active), ("peer_proxy_lost", (0, 0)))
        [ended] = self.near.authority.ended
        self.assertEqual(ended.reason, "peer_proxy_lost")

    def test_words_of_the_other_one(self) -> None:
        """It says how its tunnel and Connector ended; it decides nothing that is ours to decide."""
        node = self.far.node()
        for said, heard in (
            ("proxy_revoked", "peer_proxy_revoked"),
            ("assignment_changed", "assignment_changed"),
            ("tunnel_lease_expired", "tunnel_lease_expired"),
            ("policy_changed", "peer_proxy_lost"),
            ("closed", "peer_proxy_lost"),
            ("not_recorded", "peer_proxy_lost"),
            ("anything", "peer_proxy_lost"),
        ):
            with self.subTest(said=said):
                _, client, _ = self.carried(node)
                self.far.peers._live.end_all(said)
                self.turn()
                self.assertEqual((client.reason, self.active), (heard, (0, 0)))

    def test_connector_is_revoked(self) -> None:
        """The Proxy that a session entered ends it too, whatever the other one does."""
        _, client, _ = self.carried()
        self.near.authority.beat(self.near.cluster.connector.facts.principal.uri)
        self.turn()
        self.assertEqual((client.reason, self.active), ("tunnel_evicted", (0, 0)))
        again = self.near.open()
        self.turn()
        self.assertEqual((again.reason, self.active), ("tunnel_evicted", (0, 0)))

    def test_nothing_passes_after_the_break(self) -> None:
        """What is queued for another Proxy that takes its time to hear of an end stays here."""

        async def not_heard(_service: PeerService, _request: object, _call: object) -> None:
            await Deferred[None]()

        self.patch(PeerService, "_end", not_heard)
        _, client, carry = self.carried()
        [uid] = self.near.sessions._open
        stalled: Deferred[None] = Deferred()
        carry.stalled = stalled
        for _ in range(40):
            client.say(data(bytes(65_536)))
        self.turn()
        session = self.near.sessions._live.get(uid)
        assert session is not None and isinstance(session.movable, Carried)
        stream = session.movable._carry
        assert isinstance(stream, ClientStream)
        queued = stream._stream.queued
        self.assertGreater(queued, 0)
        self.near.sessions.end_all()
        self.turn()
        carry.stalled = None
        stalled.callback(None)
        self.turn()
        [ended] = self.near.authority.ended
        self.assertLessEqual(sum(5 + len(one) for one in carry.heard), ended.bytes_up - queued)
        self.near.pass_time(3.0)
        self.assertEqual(self.active, (0, 0))

    def test_other_proxy_is_revoked(self) -> None:
        """A session does not go through a Proxy that one of the two knows to be revoked."""
        node = self.far.node()
        for site, other in ((self.near, self.far), (self.far, self.near)):
            with self.subTest(revoked_is_far=other is self.far):
                _, client, carry = self.carried(node)
                site.authority.beat(other.cluster.proxy.facts.principal.uri)
                self.turn()
                self.assertEqual(client.reason, "peer_proxy_revoked")
                self.assertEqual(carry.reason, "peer_proxy_revoked")
                site.authority.beat()
                self.turn()

    def test_not_joined(self) -> None:
        """A failure of our own leaves nothing open at the other Proxy."""
        joined = Carried.carried_by

        def failing(carried: Carried, carry: Any, answer: Any = None) -> Any:
            if isinstance(carry, ClientStream):
                raise ValueError("a fault of this test")
            return joined(carried, carry, answer)

        self.patch(Carried, "carried_by", failing)
        node, client = self.opening()
        node.carry(node.last(OpenNotice))
        self.turn()
        self.assertTrue(client.is_over)
        self.assertEqual((self.active, self.far.peers.open_sessions), ((0, 0), 0))
        self.flushLoggedErrors(ValueError)

    def test_egress_takes_no_more_calls(self) -> None:
        """What is open goes on where it is; what opens takes a new connection."""
        node, client, carry = self.carried()
        [wire] = self.near.peer_wires
        wire.server.wire.go_away()
        wire.server.schedule()
        self.turn()
        second = self.near.open()
        self.turn()
        node.carry(node.last(OpenNotice))
        self.turn()
        self.assertEqual((second.error, self.active), (None, (2, 2)))
        self.assertEqual(len(self.near.peer_wires), 2)
        client.say(data(b"still here"))
        self.turn()
        self.assertEqual(carry.data, b"still here")

    def test_either_stops(self) -> None:
        """The person is told that a Proxy was stopped, whichever of the two it is."""
        _, client, carry = self.carried()
        self.near.sessions.end_all()
        self.turn()
        self.assertEnded(client, carry, "draining")

    def test_egress_stops(self) -> None:
        """Open sessions may finish; then they end with the word, and none is opened."""
        _, client, carry = self.carried()
        self.far.peers.drain()
        self.turn()
        self.assertEqual(self.active, (1, 1))
        refused = self.near.open()
        self.turn()
        self.assertEqual(refused.reason, "draining")
        self.far.peers.end_all()
        self.turn()
        self.assertEqual((client.reason, carry.reason), ("draining", "draining"))

    def test_connection_between_them_is_lost(self) -> None:
        """The person hears what was lost; the next session takes a new connection."""
        node, client, carry = self.carried()
        self.near.peer_wires[-1].cut()
        self.turn()
        self.assertEqual(client.reason, "peer_proxy_lost")
        self.assertTrue(carry.is_over)
        self.assertEqual(self.active, (0, 0))
        self.near.open()
        self.turn()
        node.carry(node.last(OpenNotice))
        self.turn()
        self.assertEqual((self.active, len(self.near.peer_wires)), ((1, 1), 2))

    def test_other_proxy_falls_silent(self) -> None:
        """A connection that carries nothing any more is found out, and its sessions end."""
        _, client, carry = self.carried()
        [wire] = self.near.peer_wires
        wire.is_stopped = True
        times = self.far.times
        self.near.pass_time(times.keepalive_interval + times.keepalive_timeout + 1)
        self.assertTrue(carry.is_over)
        self.assertEqual((client.reason, self.active), ("peer_proxy_lost", (0, 0)))

    def test_no_direct_lane(self) -> None:
        """A relayed session stays where it is."""
        self.carried()
        [uid] = self.near.sessions._open
        session = self.near.sessions._live.get(uid)
        assert session is not None and session.movable is not None
        assert session.movable.route is not None
        self.assertFalse(session.movable.route.takes_lanes)

    def test_connector_refuses(self) -> None:
        """The Connector's own word reaches the person, in our text."""
        node, client = self.opening()
        node.tell(OpenRefused(node.last(OpenNotice).session_uid, "target_unreachable"))
        self.turn()
        self.assertEqual((client.reason, self.active), ("target_unreachable", (0, 0)))
        self.assertEqual(self.outcomes, {"ingress rejected": 1, "egress rejected": 1})

    def test_client_leaves_before_it_is_open(self) -> None:
        """Nobody is opened to: the Connector's stream comes too late."""
        node, client = self.opening()
        client.stream.cancel()
        self.turn()
        carry = node.carry(node.last(OpenNotice))
        self.assertEqual((carry.reason, self.active), ("carry_refused", (0, 0)))
        self.assertEqual(self.outcomes, {})
