"""What waits at a Proxy while nobody reads it."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from svc.messages.tunnel import CARRY_METHOD, OpenNotice
from svc.wire.limits import KIB, MIB
from tests.proxy.pieces import Node, ProxyTests, Talk, Wire, data


class StalledTests(ProxyTests):
    """Sessions whose clients stop to read."""

    def stalled(self, wire: Wire, node: Node) -> None:
        """A session that carried much, and whose client then reads no more."""
        client = self.site.open(wire)
        self.assertEqual(client.reason, "")
        carry = node.carry(node.last(OpenNotice))
        for number in range(40):
            if number == 20:
                client.stalled = Deferred()
            carry.say(data(bytes(100)) * 1200)
            self.site.turn(6)

    def test_stalled_sessions_share(self) -> None:
        """What waits in one person's sessions shares room, whatever connections they use."""
        node = self.site.node()
        person = self.site.cluster.person
        sessions = self.site.sessions._per_person
        sessions.most = 200 * KIB
        for _ in range(3):
            self.stalled(self.site.connect(person), node)
        carried = [one for one in node.wire.server.wire.streams.values() if one.id > 1]
        self.assertEqual(sorted(one.window // KIB for one in carried), [64, 64, 256])
        self.assertTrue(all(one._owed + one.queued <= one.window for one in carried))
        room = sessions._of[person.facts.principal.id][1]
        self.assertEqual(room.used, 192 * KIB)
        for wire in self.site.wires[-3:]:
            wire.cut()
        self.site.turn()
        self.assertEqual((room.used, len(sessions)), (0, 0))


class LongMessageTests(ProxyTests):
    """What waits until a message is whole."""

    def test_long_messages(self) -> None:
        """A message that no method of a person or a stream takes is refused before it has come."""
        node = self.site.node()
        person = self.site.connect(self.site.cluster.person)
        session = [f"/gate.v1.Session/{name}" for name in ("Open", "List", "Why", "Access", "Lane")]
        calls = [(person, "/gate.v1.Relay/Open"), (node.wire, CARRY_METHOD)]
        for wire, method in [*((person, one) for one in session), *calls]:
            talk = Talk(wire.channel.stream(method))
            talk.say(bytes(4 * MIB))
            self.site.turn(4)
            self.assertEqual((talk.is_over, talk.reason), (True, "message_too_long"), method)

    def test_unended(self) -> None:
        """A whole request whose caller never ends it is not kept."""
        wire = self.site.connect(self.site.cluster.person)
        talk = Talk(wire.channel.stream("/gate.v1.Session/Why"))
        talk.say(bytes(100 * KIB))
        self.site.pass_time(31)
        self.assertEqual((talk.is_over, talk.reason), (True, "deadline_exceeded"))
        self.assertEqual(wire.server.wire.streams, {})
