"""Local requests: the person's own pass, those that a foreign page has made do not (R7, R32)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.errors import Denied, Malformed, SvcError, Unavailable
from svc.interfaces.kinds import ICheckedEndpoint, ILocalCheck
from svc.kinds.web.check import CrossSite, RequestCheck
from svc.kinds.web.local import LOCAL
from tests.kinds.web.test_gate import UPGRADE

HOST = "board-abcdefghijklmnop.localhost:23456"
NAMES = {HOST: "board", "wiki-qrstuvwxyzabcdef.localhost:23456": "wiki"}
OWN = f"http://{HOST}".encode()


def request(*fields: bytes, line: bytes = b"GET /a HTTP/1.1", host: str = HOST) -> bytes:
    """A request to the board."""
    return b"\r\n".join((line, b"Host: " + host.encode(), *fields, b"", b""))


class CheckTests(SynchronousTestCase):
    def check(self, fixed: str = "") -> RequestCheck:
        """Of a new connection."""
        return RequestCheck(NAMES, fixed)

    def test_interfaces(self) -> None:
        """Both keep their interfaces."""
        verifyObject(ICheckedEndpoint, LOCAL)
        verifyObject(ILocalCheck, LOCAL.check({}, ""))

    def test_own(self) -> None:
        """Requests that a program makes, or a person's own browser for the same site."""
        for fields in (
            (),
            (b"Origin: " + OWN,),
            (b"Referer: " + OWN + b"/b?c",),
            (b"Sec-Fetch-Site: none", b"Sec-Fetch-Mode: navigate"),
            (b"Sec-Fetch-Site: same-origin", b"Origin: " + OWN),
            (b"Sec-Fetch-Site: none", b"Referer: http://other.example/"),
        ):
            check = self.check()
            check.heard(request(*fields, line=b"POST /a HTTP/1.1"))
            self.assertEqual(check.resource, "board", fields)

    def test_foreign(self) -> None:
        """What a page of another site, another name or another port has made."""
        for fields in (
            (b"Origin: http://other.example",),
            (b"Origin: null",),
            (b"Origin: https://" + HOST.encode(),),
            (b"Origin: http://" + HOST.encode().replace(b"23456", b"23457"),),
            (b"Origin: http://wiki-qrstuvwxyzabcdef.localhost:23456",),
            (b"Origin: " + OWN, b"Origin: http://other.example"),
            (b"Referer: http://other.example/" + HOST.encode(),),
            (b"Referer: " + OWN + b".other.example/",),
            (b"Referer: http://[/",),
            (b"Sec-Fetch-Site: cross-site",),
            (b"Sec-Fetch-Site: same-site",),
            (b"Sec-Fetch-Site: none", b"Sec-Fetch-Site: cross-site"),
            (b"Sec-Fetch-Site: None",),
            (b"Sec-Fetch-Site:",),
            (b"Sec-Fetch-Site: same-origin", b"Origin: http://other.example"),
            (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: iframe"),
        ):
            for line in (b"GET /a HTTP/1.1", b"POST /a HTTP/1.1", b"OPTIONS /a HTTP/1.1"):
                refusal = self.assertRaises(
                    CrossSite, self.check().heard, request(*fields, line=line)
                )
                said = self.check().refused(refusal)
                self.assertTrue(said.startswith(b"HTTP/1.1 403 "), fields)
                self.assertNotIn(b"href", said, fields)

    def test_a_websocket(self) -> None:
        """A WebSocket of another page is refused; after one of ours nothing more is read."""
        ours = UPGRADE.replace(b"Host: a", b"Host: " + HOST.encode() + b"\r\nOrigin: " + OWN)
        check = self.check()
        check.heard(ours + b"\x81\x00")
        check.heard(b"\x81\x00")
        self.assertEqual(check.resource, "board")
        theirs = ours.replace(b"Origin: " + OWN, b"Origin: http://other.example")
        self.assertRaises(CrossSite, self.check().heard, theirs)

    def test_a_link(self) -> None:
        """Whoever follows a link from another site is asked first, by a page that is not framed."""
        navigates = (
            b"Sec-Fetch-Site: cross-site",
            b"Sec-Fetch-Mode: navigate",
            b"Sec-Fetch-Dest: document",
        )
        check = self.check()
        line = b'GET /a?b="><script> HTTP/1.1'
        refusal = self.assertRaises(CrossSite, check.heard, request(*navigates, line=line))
        said = check.refused(refusal)
        self.assertIn(b'<a href="/a?b=&quot;&gt;&lt;script&gt;" rel="noreferrer">', said)
        self.assertIn(b"Continue to board?", said)
        self.assertIn(b"X-Frame-Options: DENY\r\n", said)
        self.assertIn(b"frame-ancestors 'none'", said)
        posted = request(*navigates, line=b"POST /a HTTP/1.1")
        self.assertEqual(self.assertRaises(CrossSite, check.heard, posted).target, b"")

    def test_names(self) -> None:
        """Only the very names, with the port; and one connection is of one resource."""
        for host in (
            "board.localhost:23456",
            "localhost:23456",
            "127.0.0.1:23456",
            HOST.partition(":")[0],
            f"x.{HOST}",
            HOST.replace(".localhost", ".localhost."),
        ):
            check = self.check()
            refusal = self.assertRaises(SvcError, check.heard, request(host=host))
            self.assertEqual((refusal.reason, check.resource), ("unknown_host", ""), host)
            self.assertTrue(check.refused(refusal).startswith(b"HTTP/1.1 421 "))
        check = self.check()
        check.heard(request(host=HOST.upper()))
        other = request(host="wiki-qrstuvwxyzabcdef.localhost:23456")
        self.assertRaises(SvcError, check.heard, other)
        self.assertRaises(SvcError, self.check("board").heard, other)
        nobody = RequestCheck({}, "board")
        self.assertRaises(SvcError, nobody.heard, request())

    def test_a_socket(self) -> None:
        """Where only the person's programs can ask, any name is the resource's."""
        check = RequestCheck(None, "board")
        check.heard(request(b"Origin: http://other.example", host="anything"))
        self.assertEqual(check.resource, "board")

    def test_each_request(self) -> None:
        """Every request of a connection is looked at, also among others and in pieces."""
        check = self.check()
        body = b"Origin: http://x\r\n\r\n"
        posts = request(b"Content-Length: %d" % len(body), line=b"POST /a HTTP/1.1") + body
        foreign = request(b"Origin: http://x")
        check.heard(posts + posts + foreign[:20])
        self.assertRaises(CrossSite, check.heard, foreign[20:])

    def test_malformed(self) -> None:
        """The gate answers it where it is known whose it is; nobody else does where it is not."""
        bad = b"GET / HTTP/1.1\nHost: a\n\n"
        check = self.check("board")
        check.heard(bad)
        check.heard(b"anything")
        self.assertEqual(check.resource, "board")
        refusal = self.assertRaises(Malformed, self.check().heard, bad)
        self.assertTrue(self.check().refused(refusal).startswith(b"HTTP/1.1 400 "))

    def test_no_session(self) -> None:
        """A session that does not open is told in HTTP: who denied it, or to try again."""
        denied = Denied("no", details={"decision_id": "d" * 32, "policies": "shut"})
        said = self.check().refused(denied)
        self.assertTrue(said.startswith(b"HTTP/1.1 403 "))
        self.assertIn(b'"decision_id": "' + b"d" * 32, said)
        said = self.check().refused(Unavailable("away\n"))
        self.assertTrue(said.startswith(b"HTTP/1.1 503 "))
        self.assertIn(b'"message": "away?"', said)
