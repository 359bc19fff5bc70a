"""Local requests: the person's own pass, those that a foreign page has made do not (R7, R32)."""

from __future__ import annotations

import json
import re

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.errors import Denied, Malformed, SvcError, Unavailable
from svc.interfaces.kinds import LISTING, ICheckedEndpoint, ILocalCheck
from svc.kinds.web.check import CrossSite, RequestCheck
from svc.kinds.web.local import LOCAL
from svc.model.policy.requested import COMMAND_OPTIONS
from tests.kinds.web.test_gate import UPGRADE

HOST = "board-abcdefghijklmnop.localhost:23456"
NAMES = {HOST: "board", "wiki-qrstuvwxyzabcdef.localhost:23456": "wiki"}
LIST = "svc-abcdefabcdefabcd.localhost:23456"
LISTED = {**NAMES, LIST: LISTING}
OWN = f"http://{HOST}".encode()
ROOT = b"GET / HTTP/1.1"


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

    def answer(self, *fields: bytes, line: bytes = b"GET / HTTP/1.1", more: bytes = b"") -> bytes:
        """Of the list of applications."""
        check = RequestCheck(LISTED, "")
        check.heard(request(*fields, line=line, host=LIST) + more)
        self.assertEqual(check.resource, "")
        return check.answer

    def test_listing(self) -> None:
        """It has a link for each name, nothing that runs, and nothing that was asked."""
        said = self.answer(more=request(line=b"GET /b HTTP/1.1", host=LIST)).decode()
        self.assertTrue(said.startswith("HTTP/1.1 200 OK\r\n"))
        head, _, page = said.partition("\r\n\r\n")
        self.assertEqual(
            re.findall(r'<a href="([^"]*)">([^<]*)</a>', page),
            [(f"http://{host}/", name) for host, name in sorted(NAMES.items())],
        )
        self.assertIn("Content-Security-Policy: default-src 'none'; frame-ancestors 'none'", head)
        self.assertIn("Referrer-Policy: origin", head)
        self.assertNotIn("<script", page)
        self.assertEqual(self.answer(line=b"HEAD / HTTP/1.1").partition(b"\r\n\r\n")[2], b"")
        for line, status in (
            (b"GET /<b> HTTP/1.1", b"404 Not Found"),
            (b"HEAD /a HTTP/1.1", b"404 Not Found"),
            (b"POST / HTTP/1.1", b"405 Method Not Allowed"),
        ):
            answer = self.answer(line=line)
            self.assertTrue(answer.startswith(b"HTTP/1.1 " + status), answer)
            self.assertNotIn(b"<b>", answer)
        empty = RequestCheck({LIST: LISTING}, "")
        empty.heard(request(line=b"GET / HTTP/1.1", host=LIST))
        self.assertIn(b"svc resources list", empty.answer)

    def test_names_that_are_markup(self) -> None:
        """A name is shown, whatever is in it."""
        names = {**LISTED, 'x"><script>.localhost:1': "<b>&'"}
        check = RequestCheck(names, "")
        check.heard(request(line=b"GET / HTTP/1.1", host=LIST))
        self.assertNotIn(b"<script>", check.answer)
        self.assertIn(b"&lt;b&gt;&amp;", check.answer)

    def test_listing_foreign(self) -> None:
        """Another site's page reads nothing of it, and a person who comes from there is asked."""
        for fields in (
            (b"Origin: http://other.example",),
            (b"Origin: " + OWN,),
            (b"Sec-Fetch-Site: cross-site",),
            (b"Sec-Fetch-Site: same-site", b"Sec-Fetch-Mode: no-cors"),
            (b"Referer: http://other.example/",),
        ):
            self.assertRaises(CrossSite, self.answer, *fields)
        check = RequestCheck(LISTED, "")
        came = (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate")
        data = request(*came, b"Sec-Fetch-Dest: document", line=b"GET / HTTP/1.1", host=LIST)
        refusal = self.assertRaises(CrossSite, check.heard, data)
        self.assertIn(b"Continue to your web applications?", check.refused(refusal))

    def test_from_the_listing(self) -> None:
        """A person who follows its link is not asked; nothing else that says so gets in."""
        there = b"Referer: http://" + LIST.encode() + b"/"
        came = (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate")
        document = b"Sec-Fetch-Dest: document"
        for fields in ((*came, document, there), (there,)):
            check = RequestCheck(LISTED, "")
            check.heard(request(*fields, line=ROOT))
            self.assertEqual(check.resource, "board")
        for others in (
            (*came, document, there + b"a"),
            (*came, document, there, there),
            (*came, document, b"Referer: " + OWN + b"/"),
            (*came, b"Sec-Fetch-Dest: iframe", there),
            (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: no-cors", there),
            (*came, document, there, b"Origin: http://" + LIST.encode()),
        ):
            self.assertRaises(
                CrossSite, RequestCheck(LISTED, "").heard, request(*others, line=ROOT)
            )
        for line in (b"POST / HTTP/1.1", b"DELETE / HTTP/1.1", b"GET /do?x=1 HTTP/1.1"):
            for fields in ((*came, document, there), (there,)):
                data = request(*fields, line=line)
                self.assertRaises(CrossSite, RequestCheck(LISTED, "").heard, data)

    def test_two_on_one_connection(self) -> None:
        """An application's connection does not become the list's, nor the other way round."""
        check = RequestCheck(LISTED, "")
        check.heard(request())
        refusal = self.assertRaises(SvcError, check.heard, request(host=LIST))
        self.assertEqual(refusal.reason, "unknown_host")
        self.assertEqual(check.answer, b"")

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
        ids = {"decision_id": "d" * 32, "session_uid": "5" * 32}
        denied = Denied("no", details={**ids, "policies": "shut,night"})
        said = self.check().refused(denied)
        self.assertTrue(said.startswith(b"HTTP/1.1 403 "))
        told = {"reason": "denied", "message": "no", "policies": ["shut", "night"], **ids}
        told["explain"] = f"svc why {'d' * 32}"
        self.assertEqual(json.loads(said.partition(b"\r\n\r\n")[2]), {"error": told})
        made_up = Denied("no", details={"decision_id": "1; true"})
        self.assertNotIn(b"svc why", self.check().refused(made_up))
        asked = {"request": "svc request board", COMMAND_OPTIONS: " --dir b"}
        said = self.check().refused(Denied("no", details=asked))
        self.assertIn(b'"request": "svc request board --dir b"', said)
        self.assertNotIn(COMMAND_OPTIONS.encode(), said)
        named = {"reason": "other", "message": "else", "to_see_why": "x"}
        said = self.check().refused(Denied("no", details=named))
        form = {"reason": "denied", "message": "no", "session_uid": None, "to_see_why": "x"}
        self.assertEqual(json.loads(said.partition(b"\r\n\r\n")[2]), {"error": form})
        said = self.check().refused(Unavailable("away\n"))
        self.assertTrue(said.startswith(b"HTTP/1.1 503 "))
        self.assertIn(b'"message": "away?", "session_uid": null}', said)

    def test_a_page(self) -> None:
        """Whoever looks at the answer in a browser reads it: why, and what to type."""
        check = self.check()
        check.heard(request(b"Sec-Fetch-Site: none", b"Sec-Fetch-Mode: navigate"))
        details = {"decision_id": "d" * 32, "policies": "shut", COMMAND_OPTIONS: " --dir '<b>'"}
        said = check.refused(Denied("not <you>", details=details)).decode()
        for part in (
            "HTTP/1.1 403 ",
            "<h1>Not allowed</h1>",
            "not &lt;you&gt;",
            "<dt>Policies</dt><dd>shut</dd>",
            f"svc why {'d' * 32} --dir &#x27;&lt;b&gt;&#x27;",
        ):
            self.assertIn(part, said)
        self.assertNotIn("To ask for access", said)
        away = check.refused(Unavailable("no Connector serves it")).decode()
        self.assertIn("<h1>Not available now</h1>", away)
        self.assertNotIn("svc why", away)
        fetching = self.check()
        fetching.heard(request(b"Sec-Fetch-Site: none", b"Sec-Fetch-Mode: cors"))
        self.assertIn(b"application/json", fetching.refused(Denied("no")))
