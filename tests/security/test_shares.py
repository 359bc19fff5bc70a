"""A node with a good certificate that tries to leave nothing for the others."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectingCancelledError

from svc.errors import Denied
from svc.messages.relay import OPEN_METHOD, Lane, encode_relay_open
from svc.messages.tunnel import CARRY_METHOD, encode_carry_open
from svc.ratelimit.places import Places
from svc.rpc.frames import open_frame
from tests.proxy.pieces import ProxyTests, Talk


class _Never:
    """An Authority whose port never answers."""

    def connect(self, factory: Any) -> Any:
        return Deferred()


class _Tcp:
    """One that never answers either, dialed as Twisted dials TCP."""

    def connect(self, factory: Any) -> Any:
        address = IPv4Address("TCP", "192.0.2.200", 7001)
        return Deferred(lambda dial: dial.errback(ConnectingCancelledError(address)))


def _revoked(principal: object) -> None:
    raise Denied("this identity was revoked", reason="revoked")


class LaneTests(ProxyTests):
    def setUp(self) -> None:
        super().setUp()
        self.site.lane_endpoint = _Never()
        self.lanes = self.site.public.lanes
        for lane in self.lanes.places:
            self.lanes.places[lane] = Places(6, share=2, least_secs=3.0)

    def lane(self, lane: Lane, identity: Any = None, host: str = "192.0.2.7") -> Talk:
        talk = Talk(self.site.connect(identity, host).channel.stream(OPEN_METHOD))
        talk.say(open_frame(encode_relay_open(lane)))
        self.site.turn()
        return talk

    def test_one_node_cannot_hold_the_renewal_lane(self) -> None:
        """A Connector that opens renewals only keeps others from none: it has a share."""
        connector = self.site.cluster.connector
        reasons = [self.lane(Lane.RENEWAL, connector).reason for _ in range(4)]
        self.assertEqual(reasons, ["", "", "lane_full", "lane_full"])
        self.assertEqual(self.lane(Lane.RENEWAL, self.site.cluster.proxy).reason, "")

    def test_one_address_cannot_hold_the_join_lane(self) -> None:
        """Nor does an address without a certificate hold the join lane; what ends makes room."""
        talks = [self.lane(Lane.JOIN) for _ in range(3)]
        self.assertEqual([talk.reason for talk in talks], ["", "", "lane_full"])
        self.assertEqual(self.lane(Lane.JOIN, host="192.0.2.8").reason, "")
        talks[0].stream.cancel()
        self.site.turn()
        self.assertEqual(self.lane(Lane.JOIN).reason, "")

    def test_a_few_addresses_cannot_hold_the_join_lane(self) -> None:
        """Three that take their shares and say nothing lose the oldest to whoever comes."""
        held = [self.lane(Lane.JOIN, host=f"192.0.2.{n // 2}") for n in range(6)]
        self.assertEqual({talk.reason for talk in held}, {""})
        self.assertEqual(self.lane(Lane.JOIN, host="192.0.2.9").reason, "lane_full")
        self.site.pass_time(4)
        self.assertEqual(self.lane(Lane.JOIN, host="192.0.2.9").reason, "")
        self.assertEqual([talk.reason for talk in held], ["lane_full", *[""] * 5])

    def test_given_up_while_it_is_dialed(self) -> None:
        """It is told whose it is now, whatever the dial makes of being given up."""
        self.site.lane_endpoint = _Tcp()
        held = [self.lane(Lane.JOIN, host=f"192.0.2.{n // 2}") for n in range(6)]
        self.site.pass_time(4)
        self.assertEqual(self.lane(Lane.JOIN, host="192.0.2.9").reason, "")
        self.assertEqual([talk.reason for talk in held], ["lane_full", *[""] * 5])
        counted = {what[2]: n for what, n in self.site.counts.items() if what[0] == "lane"}
        self.assertEqual(counted, {"refused": 1})

    def test_revoked_node(self) -> None:
        """A revoked node opens no lane and no carry stream, though its certificate is good."""
        self.lanes.check_not_revoked = _revoked
        connector = self.site.cluster.connector
        self.assertEqual(self.lane(Lane.RENEWAL, connector).reason, "revoked")
        self.site.public.tunnels.check_not_revoked = _revoked
        carry = Talk(self.site.connect(connector).channel.stream(CARRY_METHOD))
        carry.say(open_frame(encode_carry_open("0" * 32, bytes(32))))
        self.site.turn()
        self.assertEqual(carry.reason, "revoked")
