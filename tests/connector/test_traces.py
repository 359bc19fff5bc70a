"""The span of an open at the Connector: whose child it is, and when it ends."""

from __future__ import annotations

from attrs import evolve
from twisted.python.failure import Failure

from svc.messages.tunnel import decode_down, encode_down
from tests.connector.gateway import GatewayCase
from tests.connector.pieces import UID
from tests.telemetry.recorded import Recorded, parent_of

NAME = "gate.v1.OpenNotice"
TRACE = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"


class NoticeSpanTests(GatewayCase):
    def setUp(self) -> None:
        super().setUp()
        self.recorded = Recorded()
        self.gateway.connector_sessions.spans = self.recorded.traces.spans

    def test_of_an_open_session(self) -> None:
        """It is the child of what the notice names, and over while the session goes on."""
        self.gateway.parent = f"00-{TRACE}-01"
        [opened] = self.gateway.open()
        self.assertNotIsInstance(opened, Failure)
        self.assertEqual(self.gateway.connector_sessions.sessions, {UID})
        [span] = self.recorded.named(NAME)
        self.assertEqual(parent_of(span), TRACE)
        facts = {"action": "connect", "resource": "db1", "session_uid": UID}
        self.assertEqual(dict(span.attributes or {}), facts)

    def test_of_a_malformed_parent(self) -> None:
        """A notice with a malformed parent opens its session all the same."""
        for parent in ("x", "\n", "0" * 128):
            self.gateway = self.started()
            self.gateway.connector_sessions.spans = self.recorded.traces.spans
            self.gateway.parent = parent
            [opened] = self.gateway.open()
            self.assertNotIsInstance(opened, Failure)
            self.assertEqual(parent_of(self.recorded.named(NAME)[-1]), "")

    def test_of_a_refused_notice(self) -> None:
        """What the Connector does not admit is said by no attribute: it is a stranger's word."""
        notice = self.gateway.cluster.notice()
        self.gateway.open(evolve(notice, signature=b"forged"))
        [span] = self.recorded.named(NAME)
        self.assertEqual(dict(span.attributes or {}), {})

    def test_an_oversized_parent(self) -> None:
        """A notice's parent is carried as it is, and one that is too long as none."""
        for parent, kept in (("x" * 128, "x" * 128), ("x" * 129, ""), ("", "")):
            sent = evolve(self.gateway.cluster.notice(), traceparent=parent)
            self.assertEqual(decode_down(encode_down(sent)), evolve(sent, traceparent=kept))
