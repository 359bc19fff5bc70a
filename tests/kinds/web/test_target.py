"""The connection to a target that is told who makes each request."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Denied, Malformed, SvcError, Unavailable
from svc.kinds.web.dialer import DIALER
from svc.kinds.web.rewrite import RequestRewriter
from svc.kinds.web.target import TargetConnection

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
SLOW = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"


def get(path: bytes, *fields: bytes) -> bytes:
    """A request as the Proxy passes it on."""
    return b"\r\n".join((b"GET %s HTTP/1.1" % path, b"Host: a", *fields, b"", b""))


def got(path: bytes, token: bytes, *fields: bytes) -> bytes:
    """The same as the target gets it."""
    head = (b"GET %s HTTP/1.1" % path, b"Host: app", *fields, b"svc-identity: " + token)
    return b"\r\n".join((*head, b"", b""))


class Person(Protocol):
    """The session's side: keeps what comes of the target."""

    transport: Any

    def __init__(self) -> None:
        self.heard = b""
        self.is_lost = False

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.heard += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Nothing more comes."""
        self.is_lost = True


class Producer:
    """What writes here; says whether it may."""

    is_paused = False

    def pauseProducing(self) -> None:
        """Write no more."""
        self.is_paused = True

    def resumeProducing(self) -> None:
        """Go on."""
        self.is_paused = False

    def stopProducing(self) -> None:
        """Nobody listens any more."""


class ToldTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.asked: list[tuple[str, Deferred[bytes]]] = []
        self.ready: bytes | None = None
        self.person, self.target = Person(), StringTransport()
        self.made = TargetConnection(
            factory=_Registry(),
            wrapped=self.person,
            rewriter=RequestRewriter(b"app"),
            identify=self.identify,
        )
        self.made.makeConnection(self.target)
        self.producer = Producer()
        self.made.registerProducer(self.producer, True)

    async def identify(self, named: str) -> bytes:
        if self.ready is not None:
            return self.ready
        waiting: Deferred[bytes] = Deferred()
        self.asked.append((named, waiting))
        return await waiting

    def tell(self, token: bytes | SvcError) -> None:
        """Authority answers the oldest question."""
        _, waiting = self.asked.pop(0)
        if isinstance(token, bytes):
            waiting.callback(token)
        else:
            waiting.errback(token)

    def test_at_once(self) -> None:
        """With a token at hand all that comes goes at once, bodies as they are."""
        self.ready = b"t"
        post = b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"
        self.made.write(get(b"/a") + post + b"xyz" + get(b"/c"))
        wanted = post[:-2].replace(b"Host: a", b"Host: app") + b"svc-identity: t\r\n\r\nxyz"
        self.assertEqual(self.target.value(), got(b"/a", b"t") + wanted + got(b"/c", b"t"))
        self.assertFalse(self.producer.is_paused)

    def test_held(self) -> None:
        """A request waits for its token, what follows waits with it, and nobody writes more."""
        self.made.write(get(b"/a", b"svc-identity: bob") + get(b"/b"))
        self.made.write(get(b"/c"))
        self.assertEqual((self.target.value(), self.asked[0][0]), (b"", "bob"))
        self.assertTrue(self.producer.is_paused)
        self.tell(b"t1")
        self.assertEqual(self.target.value(), got(b"/a", b"t1"))
        self.assertTrue(self.producer.is_paused)
        self.tell(b"t2")
        self.tell(b"t3")
        self.assertEqual(
            self.target.value(), got(b"/a", b"t1") + got(b"/b", b"t2") + got(b"/c", b"t3")
        )
        self.assertFalse(self.producer.is_paused)

    def test_both_pause(self) -> None:
        """Whoever writes goes on once the target and the token both let it."""
        paced = self.target.producer
        assert paced is not None
        self.made.write(get(b"/a"))
        paced.pauseProducing()
        self.tell(b"t")
        self.assertTrue(self.producer.is_paused)
        paced.resumeProducing()
        self.assertFalse(self.producer.is_paused)
        self.made.write(get(b"/b"))
        paced.pauseProducing()
        paced.resumeProducing()
        self.assertTrue(self.producer.is_paused)
        self.tell(b"t")
        self.assertFalse(self.producer.is_paused)

    def test_refused(self) -> None:
        """Without a token the request is answered here, in its turn, and nothing more goes."""
        for error, status in (
            (Denied("not as this one", reason="identity_denied"), b"403 Forbidden"),
            (Unavailable("down", reason="identity_unavailable"), b"503 Service Unavailable"),
        ):
            self.setUp()
            self.ready = b"t"
            self.made.write(get(b"/a"))
            self.made.dataReceived(SLOW + b"123")
            self.ready = None
            self.made.write(get(b"/b") + get(b"/c"))
            self.tell(error)
            self.made.write(get(b"/d"))
            self.assertEqual(self.target.value(), got(b"/a", b"t"))
            self.assertEqual(self.person.heard, SLOW + b"123")
            self.assertFalse(self.target.disconnecting)
            self.made.dataReceived(b"456789")
            answer = self.person.heard.removeprefix(SLOW + b"123456789")
            self.assertTrue(answer.startswith(b"HTTP/1.1 " + status), answer)
            head, _, body = answer.partition(b"\r\n\r\n")
            self.assertIn(b"Connection: close", head)
            self.assertEqual(json.loads(body)["error"]["reason"], error.reason)
            self.assertTrue(self.target.disconnecting)

    def test_head(self) -> None:
        """A refused HEAD is answered without a body."""
        self.made.write(get(b"/a").replace(b"GET", b"HEAD"))
        self.tell(Denied("no", reason="identity_denied"))
        self.assertTrue(self.person.heard.endswith(b"\r\n\r\n"))

    def test_nobody(self) -> None:
        """A name that no person can have is never asked for."""
        for fields in (
            (b"svc-identity: bob", b"svc-identity: bob"),
            (b"svc-identity: bob", b"Svc_Identity: bob"),
            (b"svc-identity: bob, eve",),
            (b"svc-identity: \xa0bob",),
            (b"svc-identity:",),
        ):
            self.setUp()
            self.made.write(get(b"/a", *fields))
            self.assertEqual(self.asked, [])
            self.assertIn(b'"reason": "identity_denied"', self.person.heard)
            self.assertEqual(self.target.value(), b"")

    def test_spellings(self) -> None:
        """Whatever came under the name, or named it in Connection, the target has one of ours."""
        self.ready = b"t"
        for fields in (
            (b"SVC-IDENTITY: bob",),
            (b"svc_identity: bob",),
            (b"Connection: svc-identity", b"svc-identity: bob"),
            (b"Connection: svc-identity",),
            (b"svc-identity-x: bob", b"x-svc-identity: bob"),
        ):
            self.setUp()
            self.ready = b"t"
            self.made.write(get(b"/a", *fields))
            self.assertEqual(self.target.value(), got(b"/a", b"t"), fields)

    def test_a_close_waits(self) -> None:
        """A person who has asked and writes no more still gets the answer."""
        self.made.write(get(b"/a"))
        self.made.loseConnection()
        self.assertFalse(self.target.disconnecting)
        self.tell(b"t")
        self.assertEqual(self.target.value(), got(b"/a", b"t"))
        self.assertTrue(self.target.disconnecting)

    def test_lost(self) -> None:
        """A target that is gone gets nothing, and the question is given up."""
        self.made.write(get(b"/a"))
        self.made.connectionLost(Failure(connectionDone.value))
        self.assertTrue(self.person.is_lost)
        self.assertTrue(self.asked[0][1].called)
        self.assertEqual(self.target.value(), b"")
        self.made.secured.addErrback(lambda _: None)

    def test_no_request(self) -> None:
        """Bytes that are no request end the connection, at once or after the token."""
        self.ready = b"t"
        with self.assertRaises(Malformed):
            self.made.write(b"nonsense\r\n\r\n")
        self.setUp()
        self.made.write(get(b"/a") + b"nonsense\r\n\r\n")
        self.tell(b"t")
        self.assertTrue(self.target.disconnected or self.target.disconnecting)

    def test_a_fault(self) -> None:
        """What nobody expected is logged, and the request goes nowhere."""
        self.made.write(get(b"/a"))
        self.asked.pop()[1].errback(RuntimeError("a bug"))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertIn(b'"reason": "identity_unavailable"', self.person.heard)
        self.assertEqual(self.target.value(), b"")


class _Registry(Factory):
    """What a wrapper registers at."""

    def registerProtocol(self, protocol: Any) -> None:
        """One more."""

    def unregisterProtocol(self, protocol: Any) -> None:
        """One less."""


class LimitedTests(SynchronousTestCase):
    """A session whose grant leaves some operations out (rule R27)."""

    def setUp(self) -> None:
        self.person, self.target = Person(), StringTransport()

    def made(self, *names: str) -> TargetConnection:
        """A connection on which requests of these operations may pass."""
        made = TargetConnection(
            factory=_Registry(),
            wrapped=self.person,
            rewriter=RequestRewriter(b"app"),
            permits=DIALER.limited(frozenset(names)).permits,
        )
        made.makeConnection(self.target)
        return made

    def test_passes(self) -> None:
        """What is granted reaches the target, body and all."""
        post = b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz"
        self.made("GET", "POST").write(get(b"/a") + post)
        wanted = post.replace(b"Host: a", b"Host: app")
        self.assertTrue(self.target.value().endswith(wanted), self.target.value())

    def test_left_out(self) -> None:
        """What is not is answered here in its turn, and is the last on the connection."""
        made = self.made("GET")
        delete = b"DELETE /b HTTP/1.1\r\nHost: a\r\n\r\n"
        made.write(get(b"/a") + delete + get(b"/c"))
        self.assertNotIn(b"DELETE", self.target.value())
        self.assertNotIn(b"/c", self.target.value())
        self.assertEqual(self.person.heard, b"")
        made.dataReceived(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        first, _, second = self.person.heard.partition(b"HTTP/1.1 403 Forbidden")
        self.assertTrue(first.startswith(b"HTTP/1.1 200 OK"))
        self.assertIn(b"operation_not_granted", second)
        self.assertIn(b"Connection: close", second)
        self.assertTrue(self.target.disconnecting)

    def test_of_two_operations(self) -> None:
        """A request that asks for another protocol needs both: its method and that."""
        upgrade = (
            b"GET /w HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self.made("GET").write(upgrade)
        self.assertEqual(self.target.value(), b"")
        self.assertIn(b"operation_not_granted", self.person.heard)
        self.target.clear()
        self.made("GET", "upgrade").write(upgrade)
        self.assertIn(b"Upgrade: websocket", self.target.value())

    def test_other_methods(self) -> None:
        """A method of no name in the list is one of the others."""
        search = b"PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n"
        self.made("GET", "POST").write(search)
        self.assertEqual(self.target.value(), b"")
        self.made("other").write(search)
        self.assertIn(b"PROPFIND", self.target.value())
