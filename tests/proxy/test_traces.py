"""The span of an open at the Proxy: when it ends, what it says, what the Connector is told."""

from __future__ import annotations

from svc.messages.control import AuthorizeAnswer
from svc.messages.tunnel import OpenNotice, OpenRefused
from svc.rpc.frames import EOF
from tests.proxy.pieces import ProxyTests, data
from tests.support.proof import proves
from tests.telemetry.recorded import Recorded, self_of

NAME = "gate.v1.Session/Open"
MESSAGES = 10_000


class OpenSpanTests(ProxyTests):
    def setUp(self) -> None:
        super().setUp()
        self.recorded = Recorded()
        self.site.sessions.spans = self.recorded.traces.spans
        self.site.server.traced = self.recorded.traces.traced

    def facts(self) -> dict[str, object]:
        """What the one span of an open says."""
        [span] = self.recorded.named(NAME)
        return dict(span.attributes or {})

    def test_ends_when_it_is_open(self) -> None:
        """The span is over while the session goes on; its header went with the open notice."""
        node = self.site.node()
        client = self.site.open()
        self.assertEqual(self.recorded.named(NAME), [])
        notice = node.last(OpenNotice)
        node.carry(notice)
        [span] = self.recorded.named(NAME)
        self.assertFalse(client.is_over)
        self.assertRegex(notice.traceparent, f"^00-{self_of(span)}-0[13]$")
        self.assertEqual(
            self.facts(),
            {
                "action": "connect",
                "resource": "db1",
                "decision": "allow",
                "session_uid": notice.session_uid,
            },
        )

    @proves("G-TRC-05")
    def test_messages_make_no_span(self) -> None:
        """10,000 messages each way through an open session, and its end, add no span."""
        _, client, carry = self.carried()
        before = self.recorded.spans
        self.assertEqual(len(before), 1)
        for _ in range(MESSAGES // 100):
            for _ in range(100):
                client.say(data(b"q"))
                carry.say(data(b"a"))
            self.site.turn(4)
        client.say(EOF)
        client.stream.end()
        self.site.turn()
        self.assertEqual((len(carry.data), len(client.data)), (MESSAGES, MESSAGES))
        self.assertTrue(client.is_over)
        self.assertEqual(self.recorded.spans, before)

    def test_refused_by_authority(self) -> None:
        """A denial and a miss end the span with their decision."""
        self.site.node()
        for reason, decision in (("denied", "deny"), ("departed", "not_served")):
            self.site.authority.refusal = AuthorizeAnswer(
                "d" * 32, reason=reason, text="no", may_view=True
            )
            self.recorded = Recorded()
            self.site.sessions.spans = self.recorded.traces.spans
            self.assertTrue(self.site.open().is_over)
            self.assertEqual(self.facts()["decision"], decision)

    def test_refused_by_the_connector(self) -> None:
        """A Connector that does not open leaves an error of a known sort, and no text."""
        node = self.site.node()
        client = self.site.open()
        node.tell(OpenRefused(node.last(OpenNotice).session_uid, "target_unreachable"))
        self.assertTrue(client.is_over)
        [span] = self.recorded.named(NAME)
        self.assertEqual(span.status.description, "unavailable")

    def test_of_nobody(self) -> None:
        """Who shows no certificate is refused before there is a span."""
        self.assertTrue(self.site.open(self.site.connect(None)).is_over)
        self.assertEqual(self.recorded.spans, ())
