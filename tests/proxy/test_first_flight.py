"""What a client says before its session is open, and its Connector takes with the notice."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from svc.messages.tunnel import MAX_FIRST_FLIGHT, OpenNotice
from svc.rpc.frames import EOF
from tests.proxy.pieces import Node, ProxyTests, Talk, data


class FirstFlightTests(ProxyTests):
    def early(self, *frames: bytes) -> tuple[OpenNotice, Talk, Talk]:
        """A session whose client says these before it is open, to a Connector that takes them."""
        self.patch(Node, "takes_first_flight", True)
        node = self.site.node()
        holding: Deferred[None] = Deferred()
        self.authority.holding = holding
        client = self.site.open()
        for frame in frames:
            client.say(frame)
        self.site.turn()
        holding.callback(None)
        self.site.turn()
        notice = node.last(OpenNotice)
        return notice, client, node.carry(notice)

    def test_first_flight(self) -> None:
        """What a client says first goes with the notice if the Connector takes it, and counts."""
        notice, client, carry = self.early(data(b"early"), data(b"next"))
        self.assertEqual((notice.first_flight, carry.data), (b"early", b"next"))
        client.stream.end()
        self.site.turn()
        [ended] = self.authority.ended
        self.assertEqual(ended.bytes_up, (5 + 2 + 5) + (5 + 2 + 4))

    def test_no_first_flight(self) -> None:
        """Nothing else goes with the notice: no end, no longer message, no part of one."""
        long = data(bytes(MAX_FIRST_FLIGHT + 1))
        for frame in (EOF, long, b"\x12\x05four", b""):
            with self.subTest(frame=frame[:8]):
                notice, _, carry = self.early(frame)
                self.assertEqual((notice.first_flight, carry.heard), (b"", [frame]))
                self.again()
