"""What a gate remembers of one connection: heads that come again, and facts that are the same."""

from __future__ import annotations

from types import MappingProxyType

from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.web.gate import asked
from svc.kinds.web.head import BadHead, HttpRequest
from svc.kinds.web.reading import RequestReading
from svc.kinds.web.remembered import MOST_BYTES, MOST_FACTS, RememberedRequests

GET = b"GET /a HTTP/1.1\r\nHost: a\r\n%s\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class RememberedRequestsTests(SynchronousTestCase):
    """One connection's."""

    def setUp(self) -> None:
        self.read: list[HttpRequest] = []

        def counted(head: HttpRequest) -> object:
            self.read.append(head)
            return asked(head)

        self.remembered = RememberedRequests(RequestReading(asked=counted))  # type: ignore[arg-type]

    def test_again(self) -> None:
        """A head that comes again is not read again."""
        first = self.remembered.read(GET % b"")
        self.assertIs(self.remembered.read(GET % b""), first)
        self.assertEqual((first.action, first.text), ("webAccess", b"GET /a"))
        self.assertEqual(len(self.read), 1)

    def test_same_facts(self) -> None:
        """Heads that differ in what no policy reads share their facts, which nobody can change."""
        one = self.remembered.read(GET % b"Accept: text/html\r\n").facts
        other = self.remembered.read(GET % b"Accept: text/plain\r\n").facts
        self.assertIs(one, other)
        self.assertIs(type(one), MappingProxyType)
        typed = self.remembered.read(GET % b"Content-Type: text/plain\r\n").facts
        self.assertEqual(typed["content_type"], "text/plain")
        self.assertNotIn("content_type", one)

    def test_named(self) -> None:
        """Somebody who is named in one request is named in no other."""
        named = self.remembered.read(GET % b"svc-identity: bob\r\n").facts
        self.assertEqual(named["named_person"], "bob")
        self.assertNotIn("named_person", self.remembered.read(GET % b"").facts)

    def test_refused(self) -> None:
        """A head that is not taken is refused each time."""
        for _ in range(2):
            self.assertRaises(BadHead, self.remembered.read, b"GET /a HTTP/1.1\r\n\r\n")

    def test_bounded(self) -> None:
        """Of ever new heads no more is kept than the limits allow, and each is read right."""
        for number in range(2 * MOST_FACTS):
            head = b"GET /%d HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n" % (number, bytes([120]) * 1000)
            self.assertEqual(self.remembered.read(head).facts["path"], f"/{number}")
            self.assertEqual(self.remembered.read(head).head.target, b"/%d" % number)
            self.assertLessEqual(self.remembered.kept_bytes, MOST_BYTES)
            self.assertLessEqual(self.remembered.kept_facts, MOST_FACTS)
        long = GET % (b"X: " + MOST_BYTES * b"x" + b"\r\n")
        self.remembered.read(long)
        self.assertLessEqual(self.remembered.kept_bytes, MOST_BYTES)

    def test_upgrade(self) -> None:
        """A connection that may go on for days with another protocol keeps nothing."""
        self.remembered.read(GET % b"")
        self.remembered.read(UPGRADE)
        self.assertEqual((self.remembered.kept_bytes, self.remembered.kept_facts), (0, 0))
        self.remembered.read(GET % b"")
        self.remembered.forget()
        self.assertEqual((self.remembered.kept_bytes, self.remembered.kept_facts), (0, 0))
        self.assertEqual(self.remembered.read(GET % b"").facts["path"], "/a")
