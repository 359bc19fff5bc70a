"""What a Proxy collects of a message before it is whole."""

from __future__ import annotations

from svc.messages.tunnel import CARRY_METHOD
from svc.wire.limits import KIB, MIB
from tests.proxy.pieces import ProxyTests, Talk


class LongMessageTests(ProxyTests):
    """Those that are too long, and those that never end."""

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
