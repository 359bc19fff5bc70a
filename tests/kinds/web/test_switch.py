"""Switches to another protocol: asked for in one way, and opened by one answer."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.kinds.web.head import SPDY, WEBSOCKET, BadHead, read_answer, read_request
from svc.kinds.web.reader import WebRequests
from svc.kinds.web.rewrite import RequestRewriter
from svc.kinds.web.switch import Switch, switch_of

BOTH = frozenset({WEBSOCKET, SPDY})
SPDY_FIELDS = b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
ASKED = b"POST /x HTTP/1.1\r\nHost: app\r\n" + SPDY_FIELDS + b"\r\n"
ANSWER = b"HTTP/1.1 101 Switching Protocols\r\n" + SPDY_FIELDS + b"\r\n"


class SwitchTests(SynchronousTestCase):
    def test_spdy_where_it_is_taken(self) -> None:
        """A kind that takes SPDY reads it as a switch, and another passes the request without."""
        self.assertEqual(switch_of(read_request(ASKED, BOTH)), Switch(SPDY))
        self.assertFalse(read_request(ASKED).upgrades)
        self.assertNotIn(b"Upgrade", RequestRewriter(b"app").feed(ASKED))
        taken = RequestRewriter(b"app", protocols=BOTH).feed(ASKED)
        self.assertIn(b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", taken)

    def test_one_protocol(self) -> None:
        """Several at once are none, and so is what the connection does not name."""
        for change in (
            (b"SPDY/3.1", b"SPDY/3.1, websocket"),
            (b"SPDY/3.1", b"SPDY/3"),
            (b"Connection: Upgrade", b"Connection: close"),
            (b"HTTP/1.1", b"HTTP/1.0"),
        ):
            self.assertFalse(read_request(ASKED.replace(*change), BOTH).upgrades, change)

    def test_a_body(self) -> None:
        """A request for another protocol has none."""
        for field in (b"Content-Length: 1\r\n", b"Transfer-Encoding: chunked\r\n"):
            raw = ASKED.replace(b"Host", field + b"Host")
            self.assertEqual(self.assertRaises(BadHead, read_request, raw, BOTH).reason, "upgrade")

    def test_answers(self) -> None:
        """Only the answer to what was asked opens it."""
        for protocol, raw, opens in (
            (SPDY, ANSWER, True),
            (SPDY, ANSWER.replace(b"SPDY/3.1", b"websocket"), False),
            (SPDY, ANSWER.replace(b"Connection: Upgrade\r\n", b""), False),
            (WEBSOCKET, ANSWER.replace(b"SPDY/3.1", b"websocket"), False),
            (b"", ANSWER.replace(b"Upgrade: SPDY/3.1\r\n", b""), False),
        ):
            self.assertIs(Switch(protocol, b"k").is_answered_by(read_answer(raw)), opens, raw)

    def test_at_the_connector(self) -> None:
        """Bytes follow the target's 101, and after another answer none ever do."""
        for answer, opens in ((ANSWER, True), (b"HTTP/1.1 403 Forbidden\r\n\r\n", False)):
            rewriter = RequestRewriter(b"app", protocols=BOTH)
            rewriter.feed(ASKED)
            self.assertRaises(Malformed, RequestRewriter(b"app", protocols=BOTH).feed, ASKED + b"x")
            rewriter.answered(answer)
            if opens:
                self.assertEqual(rewriter.feed(b"any bytes"), b"any bytes")
            else:
                self.assertRaises(Malformed, rewriter.feed, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

    def test_no_decision_after_it(self) -> None:
        """What follows is no request to its reader."""
        reader = WebRequests(BOTH)
        found = reader.feed(ASKED + b"GET / HTTP/1.1\r\n", lambda at: False)
        self.assertEqual(found, [(0, True, len(ASKED))])
