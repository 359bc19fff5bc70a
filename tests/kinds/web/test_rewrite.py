"""What a target gets: the request that was decided, and nothing forged beside it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError, Malformed, SvcError
from svc.kinds.web.dialer import DIALER, drop
from svc.kinds.web.head import read_request
from svc.kinds.web.rewrite import RequestRewriter
from tests.kinds.web.inputs import BAD_CHUNKS, REFUSED, TAKEN
from tests.kinds.web.test_gate import SWITCHED, UPGRADE

HEAD = b"GET /a?b=%2f HTTP/1.1\r\nHost: x.localhost:81\r\n"
PLAIN = b"GET /a?b=%2f HTTP/1.1\r\nHost: app\r\n"


def written(*pieces: bytes) -> bytes:
    """What the target gets of these."""
    rewriter = RequestRewriter(b"app")
    return b"".join(rewriter.feed(piece) for piece in pieces)


class RewriterTests(SynchronousTestCase):
    def test_headers(self) -> None:
        """What a client or a Proxy says of person, way, connection, method or path is dropped."""
        for field in (
            b"svc-identity: bob",
            b"SVC-Identity: bob",
            b"Svc_Identity: bob",
            b"svc-anything: 1",
            b"Forwarded: for=1",
            b"X-Forwarded-For: 1",
            b"x-forwarded-HOST: 1",
            b"X-Real-IP: 1",
            b"Via: 1",
            b"Content_Length: 4",
            b"X-HTTP-Method-Override: DELETE",
            b"X-HTTP-Method: DELETE",
            b"X-Method-Override: DELETE",
            b"X-Original-URL: /admin",
            b"X-Rewrite-URL: /admin",
            b"Connection: keep-alive",
            b"Keep-Alive: 5",
            b"Proxy-Connection: keep-alive",
            b"Proxy-Authorization: Basic x",
            b"TE: trailers",
            b"Trailer: X",
            b"Upgrade: h2c",
        ):
            self.assertEqual(written(HEAD + field + b"\r\n\r\n"), PLAIN + b"\r\n", field)

    def test_again(self) -> None:
        """A head that comes again is written as before; what was added to one is in no other."""
        rewriter = RequestRewriter(b"app")
        first, other = read_request(HEAD + b"\r\n"), read_request(HEAD + b"X-A: 1\r\n\r\n")
        plain, token = PLAIN + b"\r\n", ((b"svc-identity", b"token"),)
        for head, added, expected in (
            (first, (), plain),
            (first, (), plain),
            (first, token, PLAIN + b"svc-identity: token\r\n\r\n"),
            (first, (), plain),
            (other, (), PLAIN + b"X-A: 1\r\n\r\n"),
            (first, (), plain),
        ):
            self.assertEqual(rewriter.head(head, added), expected)

    def test_kept(self) -> None:
        """The rest passes as it was written, in its order, twice where it was."""
        fields = b"Cookie: a=1\r\nX-A:  1 \r\nx-a: 2\r\nAuthorization: Bearer x\r\n\r\n"
        self.assertEqual(written(HEAD + fields), PLAIN + fields.replace(b"X-A:  1 ", b"X-A: 1"))

    def test_connection_names(self) -> None:
        """What Connection names is dropped, but for what frames the request or was decided."""
        said = (
            b"Connection: close, X-A, Content-Length, Host\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nhi"
        )
        self.assertEqual(
            written(HEAD + said),
            PLAIN + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi",
        )
        said = b"Connection: X-A, content-TYPE\r\nContent-Type: a/b\r\nX-A: 1\r\n\r\n"
        self.assertEqual(written(HEAD + said), PLAIN + b"Content-Type: a/b\r\n\r\n")

    @given(st.lists(st.integers(1, 30), max_size=30))
    def test_any_pieces(self, sizes: list[int]) -> None:
        """However requests arrive, the target gets the same."""
        chunks = b"3\r\nabc\r\n0\r\n\r\n"
        whole = (
            HEAD + b"\r\n" + HEAD + b"Content-Length: 5\r\n\r\nhello"
            + HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + HEAD + b"\r\n"
        )  # fmt: skip
        wanted = whole.replace(HEAD, PLAIN)
        pieces, at = [], 0
        for size in sizes:
            pieces.append(whole[at : at + size])
            at += size
        self.assertEqual(written(*pieces, whole[at:]), wanted)

    def test_refused(self) -> None:
        """What the gate would refuse, a Proxy that passed it does not bring to the target."""
        for what, (raw, _) in REFUSED.items():
            with self.assertRaises(Malformed, msg=what):
                written(HEAD + b"\r\n", raw, b"\r\n\r\n")
        for what, body in BAD_CHUNKS.items():
            with self.assertRaises(Malformed, msg=what):
                written(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body)
        last = HEAD + b"Connection: close\r\n\r\n"
        self.assertRaises(Malformed, written, last, HEAD + b"\r\n")

    def test_a_websocket(self) -> None:
        """After 101 bytes pass as they are; before it, and after anything else, none do."""
        rewriter = RequestRewriter(b"app")
        self.assertIn(b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", rewriter.feed(UPGRADE))
        self.assertRaises(Malformed, rewriter.feed, b"\x81\x00")
        for piece in (b"HTTP/1.1 103 Early\r\n\r\n", SWITCHED[:30], SWITCHED[30:] + b"\x81\x00"):
            rewriter.answered(piece)
        self.assertEqual(rewriter.feed(b"\x81\x00"), b"\x81\x00")
        for answer in (
            b"HTTP/1.1 403 No\r\n\r\n",
            SWITCHED.replace(b"s3pP", b"s3pQ"),
            SWITCHED.replace(b"101", b"200"),
        ):
            refused = RequestRewriter(b"app")
            refused.feed(UPGRADE)
            refused.answered(answer)
            self.assertRaises(Malformed, refused.feed, HEAD + b"\r\n")
        for second in (UPGRADE, HEAD + b"\r\n"):
            self.assertRaises(Malformed, RequestRewriter(b"app").feed, UPGRADE + second)
        self.assertRaises(Malformed, RequestRewriter(b"app").feed, HEAD + b"\r\n" + UPGRADE)
        endless = RequestRewriter(b"app")
        endless.feed(UPGRADE)
        self.assertRaises(Malformed, endless.answered, b"x" * 70_000)

    def test_read_alike(self) -> None:
        """What is written has the reading of what came."""
        for what, (raw, path) in TAKEN.items():
            head = read_request(written(raw))
            self.assertEqual((head.path, head.target), (path, read_request(raw).target), what)


class DialerTests(SynchronousTestCase):
    def test_host(self) -> None:
        """The target's name is the one configured, or its address without the usual port."""
        for good, host in (
            ({"address": "app.example"}, "app.example"),
            ({"address": "app.example:8080"}, "app.example:8080"),
            ({"address": "10.0.0.1:80", "host": "app.example"}, "app.example"),
        ):
            target = DIALER.parse("app", good, "connector.resources[0]")
            self.assertEqual(target.options["host"], host)
        for bad in ("a b", "", "a/b", "é", 1):
            table: dict[str, object] = {"address": "app.example", "host": bad}
            found = self.assertRaises(ConfigError, DIALER.parse, "app", table, "r[0]")
            self.assertEqual(found.where, "r[0].host")

    def test_tls(self) -> None:
        """It is verified or off; its usual port is 443."""
        for good, address, host in (
            ({"address": "app.example", "tls": "verify"}, "app.example:443", "app.example"),
            (
                {"address": "10.0.0.1:8443", "tls": "verify", "ca_file": "/ca"},
                "10.0.0.1:8443",
                None,
            ),
            ({"address": "app.example", "tls": "off"}, "app.example:80", "app.example"),
        ):
            target = DIALER.parse("app", good, "r[0]")
            self.assertEqual((target.address, target.options["host"]), (address, host or address))
        for table, where in (
            ({"tls": "yes"}, "tls"),
            ({"tls": False}, "tls"),
            ({"ca_file": "/ca"}, "ca_file"),
            ({"tls": "verify", "ca_file": ""}, "ca_file"),
            ({"tls": "verify", "ca_file": 1}, "ca_file"),
        ):
            whole: dict[str, object] = {"address": "a:1", **table}
            refusal = self.assertRaises(ConfigError, DIALER.parse, "app", whole, "r[0]")
            self.assertEqual(refusal.where, f"r[0].{where}")

    def test_identity(self) -> None:
        """It is told or not told; a session that is none has nobody to tell of."""
        for said in (True, False):
            target = DIALER.parse("app", {"address": "a:1", "identity": said}, "r[0]")
            self.assertEqual(target.options["identity"], said)
        for bad in ("yes", 1, "true", None):
            table: dict[str, object] = {"address": "a:1", "identity": bad}
            refusal = self.assertRaises(ConfigError, DIALER.parse, "app", table, "r[0]")
            self.assertEqual(refusal.where, "r[0].identity")
        target = DIALER.parse("app", {"address": "a:1", "identity": True}, "r[0]")
        self.assertRaises(SvcError, DIALER.endpoint, MemoryReactorClock(), target, {})

    def test_written(self) -> None:
        """A connection writes requests rewritten, passes answers, and takes nothing else."""
        reactor = MemoryReactorClock()
        target = DIALER.parse("app", {"address": "192.0.2.7:8080"}, "r[0]")
        connected: list[Any] = []
        endpoint = DIALER.endpoint(reactor, target, {})
        endpoint.connect(Factory.forProtocol(Protocol)).addCallback(connected.append)
        transport = StringTransport()
        below: Any = reactor.tcpClients[0][2].buildProtocol(None)
        below.makeConnection(transport)
        (ours,) = connected
        ours.transport.writeSequence([HEAD, b"\r\n"])
        self.assertEqual(transport.value(), PLAIN.replace(b"app", b"192.0.2.7:8080") + b"\r\n")
        self.assertRaises(Malformed, ours.transport.write, b"SSH-2.0\r\n\r\n")
        self.assertEqual(drop(b"POST", {}), b"")
