"""Sessions that move to a direct lane, as their Proxy sees it (rule R20)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from svc.errors import Fault, SvcError
from svc.lanes.preface import GO, Preface, Side
from svc.lanes.rendezvous import RENDEZVOUS_SECS, RendezvousTable
from svc.messages.session import LANE_METHOD, lane_request, read_lane_response
from svc.messages.tunnel import Hello, LaneOffer, OpenNotice
from svc.model.session.ending import SessionOver
from svc.proto.gate.v1 import session_pb2 as pb
from svc.proxy.uplink.reports import GATHER_SECS
from svc.rpc.frames import end_frame
from tests.kinds.served import tcp
from tests.lanes.sockets import HandDriven, SocketTransport
from tests.proxy.pieces import Node, ProxyTests, Talk, Wire, data


class Inspected:
    """The kind tcp, but that a Proxy reads it."""

    opaque = False

    def __getattr__(self, name: str) -> Any:
        return getattr(tcp, name)


class DirectTests(ProxyTests):
    def setUp(self) -> None:
        super().setUp()
        self.hand = HandDriven(self.site.clock)
        self.told: list[str] = []
        world = self.site.cluster.world
        self.rendezvous_table = RendezvousTable(
            reactor=self.hand, entropy=world.entropy, on_outcome=self.told.append, most=100
        )
        self.addCleanup(self.rendezvous_table.pipes.close)
        self.site.sessions.direct.rendezvous_table = self.rendezvous_table
        self.sockets = SocketTransport(), SocketTransport()
        for each in self.sockets:
            self.addCleanup(each.end)

    def session(self, hello: bool = True, **asked: Any) -> tuple[Node, Wire, Talk, Talk, str]:
        """An open session: its Connector, the client's connection, both calls, its uid."""
        node = Node(self.site)
        self.site.turn()
        node.tell(Hello("first", "0.11.0", hello))
        node.tell(node.registration())
        self.site.turn()
        wire = self.site.connect(self.site.cluster.person)
        client = self.site.open(wire, **asked)
        notice = node.last(OpenNotice)
        return node, wire, client, node.carry(notice), notice.session_uid

    def ask(self, wire: Wire, uid: str) -> bytes | SvcError:
        """The token a client gets, or the refusal."""
        got: list[Any] = []
        asking = wire.channel.unary(
            LANE_METHOD, lane_request(uid), pb.SessionLaneResponse, timeout=5
        )
        Deferred.fromCoroutine(asking).addBoth(got.append)
        self.site.turn()
        [answer] = got
        if isinstance(answer, pb.SessionLaneResponse):
            return read_lane_response(answer)
        refusal: SvcError = answer.value
        return refusal

    def meet(self, node: Node, token: bytes | SvcError) -> None:
        """Both halves come."""
        assert isinstance(token, bytes)
        offer = node.last(LaneOffer)
        person, connector = self.sockets
        self.assertTrue(self.rendezvous_table.arrived(Preface(Side.PERSON, token), person))
        self.assertTrue(
            self.rendezvous_table.arrived(Preface(Side.CONNECTOR, offer.token), connector)
        )
        self.assertEqual([each.heard() for each in self.sockets], [GO, GO])

    def moved(self) -> tuple[Node, Wire, Talk, Talk]:
        """A session whose lane stands."""
        node, wire, client, carry, uid = self.session()
        self.meet(node, self.ask(wire, uid))
        return node, wire, client, carry

    def assertRefused(self, talk: Talk, reason: str, fault: Fault) -> None:
        assert talk.error is not None
        self.assertEqual((talk.reason, talk.error.fault), (reason, fault))

    def assertLaneBroken(self) -> None:
        self.assertEqual([each.is_aborted for each in self.sockets], [True, True])
        self.assertTrue(self.hand.is_idle)
        self.assertEqual(self.rendezvous_table.pipes.lent, 0)

    def test_a_session_moves_and_its_bytes_count(self) -> None:
        """Both ends get a token each; what passes in the lane counts beside the tunnel's."""
        node, wire, client, carry, uid = self.session()
        token = self.ask(wire, uid)
        offer = node.last(LaneOffer)
        self.assertEqual(offer.session_uid, uid)
        self.assertNotEqual(offer.token, token)
        client.say(data(b"in the tunnel"))
        self.site.turn()
        self.meet(node, token)
        self.sockets[0].far.send(b"x" * 1000)
        self.sockets[1].far.send(b"y" * 500)
        self.hand.spin()
        self.assertEqual(self.sockets[1].heard(), b"x" * 1000)
        self.assertEqual(self.sockets[0].heard(), b"y" * 500)
        self.assertEqual(carry.data, b"in the tunnel")
        for each in self.sockets:
            each.far.shutdown(1)
        self.hand.spin()
        client.stream.end()
        carry.stream.end()
        self.site.turn()
        self.site.pass_time(GATHER_SECS)  # since its move was told
        [ended] = self.authority.ended
        self.assertEqual(ended.reason, "closed")
        self.assertEqual((ended.bytes_up, ended.bytes_down), (5 + 2 + 13 + 1000, 500))
        self.assertEqual(ended.lane, "direct")
        self.assertEqual(self.told, ["joined"])

    def test_a_move_is_told(self) -> None:
        """Authority is told of a session that moved, and another Authority is told again."""
        self.moved()
        self.site.turn()
        [uids] = self.authority.moved
        self.assertEqual(len(uids), 1)
        self.site.reports.connected()
        self.site.turn()
        self.assertEqual(self.authority.moved, [uids, uids])

    def test_calls_that_end_before_the_lane(self) -> None:
        """A session is over only once all that was under way in its lane has passed."""
        _, _, client, carry = self.moved()
        self.sockets[0].far.send(b"under way")
        client.stream.end()
        carry.stream.end()
        self.site.turn()
        self.assertEqual((self.authority.ended, client.is_over), ([], False))
        for each in self.sockets:
            each.far.shutdown(1)
        self.hand.spin()
        self.site.turn()
        self.assertEqual(self.sockets[1].heard(), b"under way")
        self.site.pass_time(GATHER_SECS)
        self.assertEqual([one.reason for one in self.authority.ended], ["closed"])
        self.assertEqual((client.is_over, client.reason), (True, ""))

    def test_who_may_ask(self) -> None:
        """Nobody may ask but who opened it, on the connection that it was opened on."""
        node, wire, _, _, uid = self.session()
        for stranger, asked in (
            (self.site.connect(self.site.cluster.person), uid),
            (self.site.connect(self.site.cluster.connector), uid),
            (wire, "f" * 32),
        ):
            refusal = self.ask(stranger, asked)
            assert isinstance(refusal, SvcError)
            self.assertIn(refusal.reason, ("no_such_session", "certificate_role"))
        unnamed = self.ask(self.site.connect(None), uid)
        assert isinstance(unnamed, SvcError)
        self.assertEqual(unnamed.fault, Fault.UNAUTHENTICATED)
        self.assertEqual([one for one in node.said if isinstance(one, LaneOffer)], [])
        self.assertEqual(self.rendezvous_table.expected, 0)

    def test_where_there_is_none(self) -> None:
        """A Connector that takes none is offered none; nor is any where they are off."""
        node, wire, _, _, uid = self.session(hello=False)
        refusal = self.ask(wire, uid)
        assert isinstance(refusal, SvcError)
        self.assertEqual((refusal.reason, refusal.fault), ("no_direct_lane", Fault.PRECONDITION))
        self.assertEqual([one for one in node.said if isinstance(one, LaneOffer)], [])

    def test_a_tunnel_that_handed_over(self) -> None:
        """A session of an older connection of its Connector stays where it is."""
        node, wire, client, carry, uid = self.session()
        newer = Node(self.site)
        self.site.turn()
        newer.generation = node.generation
        newer.tell(Hello("first", "0.11.0", True))
        newer.tell(newer.registration())
        self.site.turn()
        refusal = self.ask(wire, uid)
        assert isinstance(refusal, SvcError)
        self.assertEqual(refusal.reason, "no_direct_lane")
        client.say(data(b"still here"))
        self.site.turn()
        self.assertEqual(carry.data, b"still here")
        self.assertEqual(self.rendezvous_table.expected, 0)

    def test_a_kind_that_the_proxy_reads(self) -> None:
        """A kind that is not opaque never leaves the Proxy's sight."""
        kinds: Any = self.site.sessions.gate.kinds
        kinds["tcp"] = Inspected()
        node, wire, _, _, uid = self.session(half=bytes(32))
        refusal = self.ask(wire, uid)
        assert isinstance(refusal, SvcError)
        self.assertEqual(refusal.reason, "no_such_session")
        self.assertEqual([one for one in node.said if isinstance(one, LaneOffer)], [])

    def test_off(self) -> None:
        """With lanes turned off every session stays in the tunnel."""
        self.site.sessions.direct.rendezvous_table = None
        _, wire, _, _, uid = self.session()
        refusal = self.ask(wire, uid)
        assert isinstance(refusal, SvcError)
        self.assertEqual(refusal.reason, "no_direct_lane")

    def test_one_at_a_time(self) -> None:
        """A session has one lane; while one is arranged, or stands, there is no other."""
        node, wire, _, _, uid = self.session()
        token = self.ask(wire, uid)
        again = self.ask(wire, uid)
        assert isinstance(again, SvcError)
        self.meet(node, token)
        refusal = self.ask(wire, uid)
        assert isinstance(refusal, SvcError)
        self.assertEqual([again.reason, refusal.reason], ["no_direct_lane", "no_direct_lane"])

    def test_halves_that_do_not_meet(self) -> None:
        """The session goes on in the tunnel as if nothing had been asked; it is asked for once."""
        _, wire, client, carry, uid = self.session()
        token = self.ask(wire, uid)
        assert isinstance(token, bytes)
        self.rendezvous_table.arrived(Preface(Side.PERSON, token), self.sockets[0])
        self.site.pass_time(RENDEZVOUS_SECS)
        self.assertTrue(self.sockets[0].is_aborted)
        client.say(data(b"still here"))
        self.site.turn()
        self.assertEqual(carry.data, b"still here")
        self.assertEqual(self.told, ["missed"])
        refusal = self.ask(wire, uid)
        assert isinstance(refusal, SvcError)
        self.assertEqual(refusal.reason, "no_direct_lane")

    def test_a_lane_that_breaks(self) -> None:
        """A lane that breaks is a session that breaks: both calls are told, Authority once."""
        _, _, client, carry = self.moved()
        self.break_lane()
        self.assertFalse(carry.is_over)
        self.site.pass_time(1)
        self.assertRefused(client, "broken", Fault.ABORTED)
        self.assertTrue(carry.is_over)
        self.assertEqual([one.reason for one in self.authority.ended], ["broken"])

    def break_lane(self) -> None:
        self.sockets[0].far.close()
        self.sockets[1].far.send(b"to nobody")
        self.hand.spin()
        self.site.turn()
        self.assertLaneBroken()

    def test_why_a_lane_broke(self) -> None:
        """What an end says of it on its own connection counts, though it comes after the break."""
        _, _, _, carry = self.moved()
        self.break_lane()
        carry.say(end_frame(SessionOver("connector_stopping")))
        carry.stream.end()
        self.site.turn()
        self.site.pass_time(GATHER_SECS)
        self.assertEqual([one.reason for one in self.authority.ended], ["connector_stopping"])

    def test_a_client_that_broke_the_lane(self) -> None:
        """So it is with a client whose reset comes after the break."""
        _, _, client, _ = self.moved()
        self.break_lane()
        client.stream.cancel()
        self.site.turn()
        self.site.pass_time(1)
        self.assertEqual([one.reason for one in self.authority.ended], ["cancelled"])

    def test_a_broken_lane_and_calls_that_end(self) -> None:
        """Where both calls end in order though the lane broke, something may be missing."""
        _, _, client, carry = self.moved()
        self.break_lane()
        client.stream.end()
        carry.stream.end()
        self.site.turn()
        self.site.pass_time(GATHER_SECS)
        self.assertEqual([one.reason for one in self.authority.ended], ["broken"])

    def test_a_client_that_breaks_off(self) -> None:
        """A client's reset reaches the lane, with bytes under way in it."""
        _, _, client, carry = self.moved()
        self.sockets[0].far.send(b"under way")
        client.stream.cancel()
        self.site.turn()
        self.assertLaneBroken()
        self.assertTrue(carry.is_over)
        self.site.pass_time(GATHER_SECS)  # since the session's move was told
        self.assertEqual([one.reason for one in self.authority.ended], ["cancelled"])

    def test_a_tunnel_that_dies(self) -> None:
        """A tunnel takes its sessions' lanes with it."""
        node, _, client, _ = self.moved()
        node.wire.cut()
        self.site.turn()
        self.assertLaneBroken()
        self.assertRefused(client, "tunnel_transport_error", Fault.UNAVAILABLE)

    def test_a_grant_that_ends(self) -> None:
        """No lane outlives its session's grant."""
        grants: Any = self.site.cluster.grant
        soon = int(self.site.cluster.world.now() * 1000) + 20_000
        self.patch(
            self.site.cluster,
            "grant",
            lambda requested, **changed: grants(requested, end_before_ms=soon, **changed),
        )
        _, _, client, _ = self.moved()
        self.site.pass_time(19)
        self.assertFalse(self.sockets[0].is_closed)
        self.site.pass_time(2)
        self.assertLaneBroken()
        self.assertRefused(client, "grant_ended", Fault.ABORTED)

    def test_a_policy_that_forbids_it(self) -> None:
        """A session that may not go on is broken off in its lane."""
        _, _, client, carry = self.moved()
        nobody = '@id("nobody") forbid (principal, action, resource);'
        bundle = self.authority._bundle(("db1",), 9, version=4, text=nobody)
        self.authority.publish(self.authority.frame(bundle))
        self.site.turn()
        self.assertLaneBroken()
        self.assertRefused(client, "policy_changed", Fault.ABORTED)
        self.assertTrue(carry.is_over)

    def test_a_session_that_ends_before_its_halves_meet(self) -> None:
        """Its meeting is called off: no half is let in for it any more."""
        node, wire, client, _, uid = self.session()
        token = self.ask(wire, uid)
        assert isinstance(token, bytes)
        client.stream.cancel()
        self.site.turn()
        self.assertEqual(self.rendezvous_table.expected, 0)
        offer = node.last(LaneOffer)
        self.assertFalse(
            self.rendezvous_table.arrived(Preface(Side.PERSON, token), self.sockets[0])
        )
        self.assertFalse(
            self.rendezvous_table.arrived(Preface(Side.CONNECTOR, offer.token), self.sockets[1])
        )
