"""The public listener: who is answered at all, health, lists, and the relay lanes."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from svc.errors import Fault
from svc.messages.control import AuthorityGreeting
from svc.messages.relay import OPEN_METHOD as RELAY_METHOD
from svc.messages.relay import Lane, encode_relay_open
from svc.messages.session import LIST_METHOD, WHY_METHOD
from svc.messages.tunnel import OpenNotice
from svc.proto.gate.v1 import health_pb2, session_pb2
from svc.proxy.sessions.list import HEADS_SECS, MAX_PER_PERSON
from svc.rpc.frames import EOF, open_frame
from tests.proxy.lanes import LaneEndpoint
from tests.proxy.pieces import ProxyTests, Talk, Wire, data
from tests.support.nothing import nothing
from tests.support.proof import proves

OURS, STOCK = "/gate.v1.Health/Check", "/grpc.health.v1.Health/Check"


class AdmissionTests(ProxyTests):
    def reason(self, method: str, identity: Any = None) -> tuple[str, Fault | None]:
        talk = Talk(self.site.connect(identity).channel.stream(method))
        talk.stream.end()
        self.site.turn()
        return talk.reason, None if talk.error is None else talk.error.fault

    def check(self, method: str) -> int:
        wire = self.site.connect(None)
        got: list[Any] = []
        request = health_pb2.HealthCheckRequest()
        calling = wire.channel.unary(method, request, health_pb2.HealthCheckResponse, timeout=5)
        Deferred.fromCoroutine(calling).addBoth(got.append)
        self.site.turn()
        return int(got[0].status)

    @proves("G-HLT-01", "G-HLT-02", "G-HLT-05", "G-OPEN-01", "X-32")
    def test_health(self) -> None:
        """Both health services answer anyone, with or without Authority, until the drain."""
        self.assertEqual((self.check(OURS), self.check(STOCK)), (1, 1))
        self.site.lose_authority()
        self.assertEqual((self.check(OURS), self.check(STOCK)), (1, 1))
        self.site.health.drain()
        self.assertEqual((self.check(OURS), self.check(STOCK)), (2, 2))
        self.assertEqual(
            self.reason("/gate.v1.Tunnel/Register"), ("unauthenticated", Fault.UNAUTHENTICATED)
        )

    def test_nobody_was_admitted(self) -> None:
        """A call for which admission found nobody opens nothing, whatever its connection showed."""
        node = self.site.node()
        self.patch(self.site.server, "admit", nothing)
        self.assertEqual(self.site.open().reason, "unauthenticated")
        self.assertEqual([one for one in node.heard if isinstance(one, OpenNotice)], [])

    def test_odd_checks(self) -> None:
        """A check with unknown fields is answered; garbage and several messages are refused."""
        wire = self.site.connect(None)
        for method in (OURS, STOCK):
            unknown = Talk(wire.channel.stream(method))
            unknown.say(b"\x7a\x03odd")
            unknown.stream.end()
            stream = Talk(wire.channel.stream(method))
            for _ in range(3):
                stream.say(b"")
            garbage = Talk(wire.channel.stream(method))
            garbage.say(b"\xff\xff")
            garbage.stream.end()
            self.site.turn()
            self.assertEqual((unknown.heard, unknown.reason), ([b"\x08\x01"], ""))
            self.assertEqual((stream.heard, stream.reason), ([], "not_one_request"))
            self.assertEqual((garbage.heard, garbage.reason), ([], "malformed"))

    def test_watch(self) -> None:
        """Who watches the health hears of the drain, and then the end."""
        talk = Talk(self.site.connect(None).channel.stream("/grpc.health.v1.Health/Watch"))
        talk.say(b"")
        self.site.turn()
        self.assertEqual(talk.heard, [b"\x08\x01"])
        self.site.health.drain()
        self.site.turn()
        self.assertEqual((talk.heard, talk.is_over), ([b"\x08\x01", b"\x08\x02"], True))

    def test_unknown_methods(self) -> None:
        """An unknown method is unimplemented for everybody; a known one needs a certificate."""
        for method in ("/gate.v1.Nothing/At", "/gate.v1.Session/Nothing", "/gate.v1.Control/Hello"):
            self.assertEqual(self.reason(method), ("unknown_method", Fault.UNIMPLEMENTED))
        for method in ("/gate.v1.Session/Open", LIST_METHOD, WHY_METHOD, "/gate.v1.Tunnel/Carry"):
            self.assertEqual(self.reason(method), ("unauthenticated", Fault.UNAUTHENTICATED))

    def test_plaintext(self) -> None:
        """A plaintext listener answers Health and joining, whatever is shown."""
        self.site.public.plaintext = True
        self.assertEqual(self.check(OURS), 1)
        self.assertEqual(
            self.reason("/gate.v1.Session/Open", self.site.cluster.person)[0], "plaintext_listener"
        )
        self.assertEqual(self.reason(RELAY_METHOD)[0], "malformed")

    def test_why(self) -> None:
        """A question about a decision is carried; without Authority it is refused at once."""
        wire = self.site.connect(self.site.cluster.person)
        request = session_pb2.SessionWhyRequest(request=b"request", signature=b"signature")

        def ask() -> Any:
            got: list[Any] = []
            calling = wire.channel.unary(
                WHY_METHOD, request, session_pb2.SessionWhyResponse, timeout=5
            )
            Deferred.fromCoroutine(calling).addBoth(got.append)
            self.site.turn()
            return got[0]

        self.assertEqual(ask().decision_id, "d" * 32)
        self.site.lose_authority()
        self.assertEqual(ask().value.reason, "authority_unreachable")


class ListTests(ProxyTests):
    def follow(self, wire: Wire | None = None) -> Talk:
        at = wire or self.site.connect(self.site.cluster.person)
        talk = Talk(at.channel.stream(LIST_METHOD))
        talk.say(b"")
        talk.stream.end()
        self.site.turn()
        return talk

    def listing(self, talk: Talk) -> Any:
        return session_pb2.SessionListing.FromString(talk.heard[-1])

    def test_changes(self) -> None:
        """A list is told whole, then by its changes: served, added, removed."""
        talk = self.follow()
        first = self.listing(talk)
        self.assertTrue(first.complete)
        self.assertEqual(
            [(one.id, one.served) for one in first.upsert], [("db1", False), ("db2", False)]
        )
        self.site.node()
        self.site.pass_time(0.3)
        second = self.listing(talk)
        self.assertEqual([(one.id, one.served) for one in second.upsert], [("db1", True)])
        self.assertFalse(second.complete)
        self.authority.publish(self.authority.frame(self.authority._bundle(("db1", "db3"), 8)))
        self.site.turn()
        self.site.pass_time(0.3)
        third = self.listing(talk)
        self.assertEqual([one.id for one in third.upsert], ["db3"])
        self.assertEqual(list(third.removed), ["db2"])
        self.site.pass_time(5)
        self.assertEqual(len(talk.heard), 3)

    def test_lacking(self) -> None:
        """Persons are told once when the Proxy can open no session, and once when it can again."""
        lacking: tuple[str, ...] = ()
        self.site.listings.lacking = lambda: lacking
        talk = self.follow()
        self.assertEqual(list(self.listing(talk).lacking), [])
        for lacking in (("control_pool",), ()):
            for _ in range(2):
                self.site.listings.changed()
                self.site.pass_time(0.3)
            self.assertEqual(list(self.listing(talk).lacking), list(lacking))
        self.assertEqual(len(talk.heard), 3)

    def test_heads(self) -> None:
        """A newer signed head is told with a list; where that does not change, after a while."""
        heads: tuple[bytes, ...] = ()
        self.site.listings.heads = lambda: heads
        talk = self.follow()
        self.assertEqual(list(self.listing(talk).audit_heads), [])
        heads = (b"one",)
        told = []
        for _ in range(20):  # changes of which this list shows nothing
            self.site.listings.changed()
            self.site.pass_time(HEADS_SECS / 15)
            told.append(len(talk.heard))
        self.assertEqual((told[12], told[-1]), (1, 2))
        listing = self.listing(talk)
        self.assertEqual(list(listing.audit_heads), [b"one"])
        self.assertEqual((listing.complete, list(listing.upsert)), (False, []))
        self.site.pass_time(3 * HEADS_SECS)
        self.assertEqual(len(talk.heard), 2)
        heads = (b"one", b"two")
        self.site.pass_time(HEADS_SECS + 1)
        self.assertEqual(list(self.listing(talk).audit_heads), [b"two"])

    def test_large_catalog(self) -> None:
        """A large list is gone through in slices, and comes whole."""
        many = tuple(f"r{number}" for number in range(450))
        self.authority.publish(self.authority.frame(self.authority._bundle(many, 8)))
        self.site.turn()
        self.assertEqual(len(self.listing(self.follow()).upsert), 450)

    def test_revoked(self) -> None:
        """A person revoked while they look is told no more."""
        talk = self.follow()
        self.authority.beat(self.site.cluster.person.facts.principal.uri)
        self.site.turn()
        self.site.pass_time(0.3, beating=False)
        self.assertEqual((talk.is_over, talk.reason), (True, "revoked"))
        self.assertEqual(self.site.listings._waiting, [])

    def test_leaves(self) -> None:
        """Who stops looking leaves nothing behind; a person follows so many lists at once."""
        wire = self.site.connect(self.site.cluster.person)
        talks = [self.follow(wire) for _ in range(MAX_PER_PERSON + 1)]
        self.assertEqual(talks[-1].reason, "too_many_lists")
        for talk in talks:
            talk.stream.cancel()
        self.site.turn()
        self.assertEqual((self.site.listings._waiting, self.site.listings._per_person), ([], {}))


class LaneTests(ProxyTests):
    def setUp(self) -> None:
        super().setUp()
        self.endpoint = self.site.lane_endpoint = LaneEndpoint()

    def lane(self, lane: Lane = Lane.JOIN, wire: Wire | None = None, identity: Any = None) -> Talk:
        at = wire or self.site.connect(identity)
        talk = Talk(at.channel.stream(RELAY_METHOD))
        talk.say(open_frame(encode_relay_open(lane)))
        self.site.turn()
        return talk

    def test_join(self) -> None:
        """Bytes pass unread both ways, with the end of writing, and the gauge follows."""
        talk = self.lane()
        self.assertEqual((talk.heard, self.site.lanes_dialed), ([open_frame(b"")], [7001]))
        self.assertEqual(self.site.gauges[("lane",)], 1)
        [far] = self.endpoint.far
        odd = bytes(range(100))
        talk.say(data(odd))
        talk.say(EOF)
        far.far.dataReceived(odd[::-1])
        self.site.turn()
        self.assertEqual((far.value(), far.write_ended, talk.data), (odd, True, odd[::-1]))
        self.assertEqual(far.gone, "")
        far.loseConnection()
        self.site.turn()
        self.assertEqual((talk.is_over, talk.reason, talk.heard[-1]), (True, "", EOF))
        self.assertEqual(self.site.counts[("lane", "renewal", "open")], 1)
        self.assertEqual(self.site.gauges[("lane",)], 0)

    def test_caller_leaves(self) -> None:
        """A caller that dies takes the connection to Authority with it."""
        wire = self.site.connect(None)
        self.lane(wire=wire)
        wire.cut()
        self.site.turn()
        self.assertEqual(self.endpoint.far[0].gone, "aborted")
        self.assertEqual(self.site.gauges[("lane",)], 0)

    def test_deadline(self) -> None:
        """A lane that stays open is cut: a joiner has one thing to say."""
        talk = self.lane()
        self.site.pass_time(31)
        self.assertEqual((talk.is_over, self.endpoint.far[0].gone), (True, "aborted"))
        self.assertEqual(self.site.gauges[("lane",)], 0)

    def test_renewal(self) -> None:
        """The renewal lane takes nodes only, and leads to its own listener."""
        for identity in (None, self.site.cluster.person):
            talk = self.lane(Lane.RENEWAL, identity=identity)
            assert talk.error is not None
            self.assertEqual(talk.error.fault, Fault.UNAUTHENTICATED)
        self.assertEqual(self.site.counts[("lane", "renewal", "refused")], 2)
        self.lane(Lane.RENEWAL, identity=self.site.cluster.connector)
        self.assertEqual(self.site.lanes_dialed, [7002])

    def test_not_served(self) -> None:
        """A lane that Authority serves not now is unconfigured."""
        lanes: AuthorityGreeting | None = self.site.link.lanes
        assert lanes is not None
        self.site.link.lanes = evolve(lanes, join_port=0)
        self.assertEqual(self.lane().reason, "authority_unreachable")
        self.assertEqual(self.site.counts[("lane", "renewal", "unconfigured")], 1)

    def test_dial_failed(self) -> None:
        """An Authority that does not answer is unreachable to callers; the log says why."""
        self.endpoint.answer = "no"
        with capturedLogs() as logs:
            self.assertEqual(self.lane().reason, "authority_unreachable")
            self.endpoint.answer = "never"
            talk = self.lane()
            self.site.pass_time(11)
        told = [event["error"] for event in logs if event.get("lane")]
        self.assertEqual(told, ["connection refused", "Authority: no answer within 10 seconds"])
        self.assertEqual(talk.reason, "authority_unreachable")
        self.assertEqual(self.site.counts[("lane", "renewal", "dial_failed")], 2)
        self.lane().stream.cancel()
        self.site.turn()
        self.assertEqual(self.site.counts[("lane", "renewal", "dial_failed")], 2)

    def test_cap(self) -> None:
        """So many connections of one lane may be open at once; one that ended makes room."""
        talks = [self.lane() for _ in range(3)]
        self.assertEqual([talk.reason for talk in talks], ["", "", "lane_full"])
        talks[0].stream.cancel()
        self.site.turn()
        self.assertEqual(self.lane().reason, "")

    def test_shared_out(self) -> None:
        """Whoever holds a whole lane loses the oldest of it to somebody else, and is told why."""
        held = [self.lane() for _ in range(2)]
        other = self.site.connect(None, host="198.51.100.7")
        self.assertEqual(self.lane(wire=other).reason, "lane_full")  # these have only begun
        self.site.pass_time(4)
        self.assertEqual(self.lane(wire=other).reason, "")
        self.assertEqual([talk.reason for talk in held], ["lane_full", ""])
        self.assertEqual([far.gone for far in self.endpoint.far], ["aborted", "", ""])
        self.assertEqual(self.site.gauges[("lane",)], 2)

    def test_garbage(self) -> None:
        """Garbage, an unknown lane and silence open nothing."""
        wire = self.site.connect(None)
        for first in (b"\xff", EOF, open_frame(b"\x0a\x05wrong")):
            talk = Talk(wire.channel.stream(RELAY_METHOD))
            talk.say(first)
            self.site.turn()
            self.assertEqual(talk.reason, "malformed")
        silent = Talk(wire.channel.stream(RELAY_METHOD))
        self.site.pass_time(11)
        self.assertEqual((silent.reason, self.site.lanes_dialed), ("deadline", []))
