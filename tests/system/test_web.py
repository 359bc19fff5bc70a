"""Web applications through a gateway of real processes, by stock curl: each request is decided."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
from collections.abc import Collection
from http.client import HTTPConnection
from time import monotonic
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from svc.testing.gateway.processes import Ran, run, until
from svc.testing.gateway.settings import POLICY, PROXY
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.board import DASHBOARD, NO_SOCKETS, Site, web
from tests.system.targets import blocks, digest_of

MUCH = 48 * 1024 * 1024
MOST_RESIDENT = 16 * 1024 * 1024
STILL_SECS = 2.0
STRICT = """
@id("only-get")
forbid (principal, action == Action::"webAccess", resource)
unless { context has method && ["GET", "HEAD"].contains(context.method) };
"""
CLOSED = '@id("shut") forbid (principal, action == Action::"webConnect", resource);\n'


class WebTests(SynchronousTestCase):
    """What a person with curl sees, and what is recorded of it."""

    def setUp(self) -> None:
        self.curl_path = stock_tool("curl", "curl")
        self.web = web()
        self.web.site.heard.clear()

    def curl(self, *words: str) -> Ran:
        """Run curl once."""
        command = [self.curl_path, "-sS", "--noproxy", "*", "--max-time", "30", *words]
        return run(command, self.web.person.home)

    def decisions(self, known: Collection[str] = ()) -> list[dict[str, Any]]:
        """The newest requests in the audit log, without those of these decisions."""
        words = ("audit", "show", "--event", "request.decision", "--last", "99", "--json")
        newest = (one for one in self.web.gateway.operator(*words).json if one["action"] == "web")
        return [one for one in newest if one["decision_id"] not in known]

    def known(self) -> set[str]:
        """The newest decisions in the log: others may have filled it before."""
        return {one["decision_id"] for one in self.decisions()}

    def counted(self) -> dict[str, float]:
        """What the Proxy has counted."""
        return {
            decision: self.web.gateway.metric(
                PROXY, "svc_request_authorize_total", kind="web", decision=decision
            )
            for decision in ("allow", "deny")
        }

    @proves("G-SES-05", "G-OPEN-06")
    def test_each_request(self) -> None:
        """One connection: what is allowed passes, what is denied is answered and lives on."""
        before, known = self.counted(), self.known()
        url = self.web.url
        written = "%{response_code} %{num_connects}\\n"
        ran = self.curl(
            *("-w", written, f"{url}/public?q=secret"),
            *("--next", "-sS", "-w", written, "-d", "x=1", f"{url}/public"),
            *("--next", "-sS", "-w", written, f"{url}/%61dmin/keys?q=secret"),
            *("--next", "-sS", "-w", written, "-I", f"{url}/public"),
        )
        said = ran.checked().stdout
        self.assertEqual(re.findall(r"(\d{3}) (\d)\n", said)[:1], [("200", "1")])
        self.assertEqual(
            re.findall(r"\b(\d{3}) (\d)$", said, re.MULTILINE),
            [("200", "1"), ("403", "0"), ("403", "0"), ("200", "0")],
        )
        bodies = [one for one in said.splitlines() if one.startswith('{"error"')]
        denials = [json.loads(one)["error"] for one in bodies]
        self.assertEqual([one["policies"] for one in denials], [["only-read"], ["no-admin"]])
        self.assertEqual([one["reason"] for one in denials], ["denied", "denied"])
        self.assertEqual(self.web.site.heard, ["GET /public?q=secret", "HEAD /public"])

        def of_this_connection() -> list[Any]:
            # The last record of an earlier test may come only now.
            found = self.decisions(known)
            return [one for one in found if one["session_uid"] == found[-1]["session_uid"]]

        until("the requests are in the log", lambda: of_this_connection()[3:])
        recorded = of_this_connection()
        self.assertEqual(
            [(one["cedar_action"], one["decision"], one.get("policies")) for one in recorded],
            [
                ("webAccess", "allow", ["ops-all"]),
                ("webAccess", "deny", ["only-read"]),
                ("webAccess", "deny", ["no-admin"]),
                ("webAccess", "allow", ["ops-all"]),
            ],
        )
        self.assertNotIn("secret", json.dumps(recorded))
        facts = recorded[1]["request"]["context"]
        self.assertEqual(
            (facts["method"], facts["path"]["value"], facts["content_type"], facts["upgrade"]),
            ("POST", "/public", "application/x-www-form-urlencoded", False),
        )
        self.assertEqual(facts["host"], url.removeprefix("http://").partition(":")[0])
        after = self.counted()
        self.assertEqual(
            {name: after[name] - before[name] for name in after}, {"allow": 2, "deny": 2}
        )
        self.assertEqual(recorded[2]["decision_id"], denials[1]["decision_id"])
        uids = {one["session_uid"] for one in (*denials, *recorded)}
        self.assertEqual(len(uids), 1)
        why = self.web.person.svc("why", denials[1]["decision_id"]).checked().stdout
        for word in ("deny", "webAccess", "no-admin"):
            self.assertIn(word, why)

    def test_erased(self) -> None:
        """A path can be erased from one record of a request: the log verifies as before."""
        known = self.known()
        self.curl(f"{self.web.url}/people/bob").checked()
        until("the request is in the log", lambda: self.decisions(known))
        found = self.decisions()[-1]
        self.assertEqual(found["request"]["context"]["path"]["value"], "/people/bob")
        place = f"{found['seq']}.{found['index']}"
        words = ("audit", "erase", place, "request.context.path", "--reason", "asked for")
        done = self.web.gateway.operator(*words, "--json").json
        self.assertEqual(list(unknown(done)), [])
        self.assertEqual((done["request"], done["field"]), (place, "request.context.path"))
        self.assertNotIn("/people/bob", json.dumps(self.decisions()))
        self.web.gateway.operator("audit", "verify").checked()

    def test_a_page(self) -> None:
        """A browser that goes somewhere is shown a page."""
        said = self.curl("-i", "-H", "Sec-Fetch-Mode: navigate", f"{self.web.url}/admin").checked()
        self.assertIn("Content-Type: text/html", said.stdout)
        self.assertRegex(said.stdout, r"<code>svc why [0-9a-f]{32}</code>")

    def test_headers(self) -> None:
        """What speaks of one connection, of the way, or of the person, stays behind."""
        ran = self.curl(
            *("-H", "Svc_Identity: ada", "-H", "Svc-Other: bob", "-H", "X-Forwarded-For: 1"),
            *("-H", "Forwarded: for=1", "-H", "Connection: X-Mine", "-H", "X-Mine: 1"),
            *("-H", "X-Kept: yes", f"{self.web.url}/"),
        )
        headers = dict(json.loads(ran.checked().stdout)["headers"])
        self.assertEqual(set(headers), {"Host", "User-Agent", "Accept", "X-Kept"})
        port = self.web.site.server_address[1]
        self.assertEqual(headers["Host"], f"127.0.0.1:{port}")

    def test_a_redirect(self) -> None:
        """The application's redirects and cookies stay with it under its name here."""
        jar = str(self.web.person.home / "jar")
        url = self.web.person.svc("open", "--print", "board").checked().stdout.strip()
        ran = self.curl("-L", "-c", jar, "-w", "\n%{url_effective}", f"{url}moved").checked()
        said, _, effective = ran.stdout.rpartition("\n")
        self.assertEqual(effective, f"{url}there?a=1")
        self.assertIn(["Cookie", "own=1"], json.loads(said)["headers"])

    def test_malformed(self) -> None:
        """A request that could be read in two ways is refused, and never reaches the target."""
        host, port = self.web.person.endpoint("board")
        with socket.create_connection((host, port), 20) as client:
            named = f"Host: {host}:{port}\r\n\r\n".encode()
            client.sendall(b"GET /a HTTP/1.1\r\n" + named + b"GET /b HTTP/1.1\nHost: a\n\n")
            said = client.makefile("rb").read()
        self.assertTrue(said.startswith(b"HTTP/1.1 200 OK\r\n"))
        self.assertIn(b"HTTP/1.1 400 Bad Request\r\n", said)
        self.assertIn(b'"reason": "bare_lf"', said)
        self.assertEqual(self.web.site.heard, ["GET /a"])

    def test_large_bodies(self) -> None:
        """A file goes up and comes down whole, and nobody on the way keeps it."""
        there = self.web.person.home / "large"
        with there.open("wb") as file:
            file.writelines(blocks(MUCH))
        self.addCleanup(there.unlink)
        up = self.curl("-T", str(there), f"{self.web.url}/upload").checked()
        told = json.loads(up.stdout)
        self.assertEqual((told["size"], told["sha256"]), (MUCH, digest_of(MUCH)))
        again = self.web.person.home / "again"
        self.addCleanup(again.unlink)
        self.curl("-o", str(again), f"{self.web.url}/bytes/{MUCH}").checked()
        self.assertEqual(hashlib.sha256(again.read_bytes()).hexdigest(), digest_of(MUCH))

    def test_a_stalled_reader(self) -> None:
        """Whoever does not read holds back the application; nobody keeps the answer meanwhile."""
        self.curl("-o", "/dev/null", f"{self.web.url}/bytes/{MUCH}").checked()
        site, size = self.web.site, 4 * MUCH  # kernels on the way hold less than half
        idle = {child.name: child.rss() for child in self.web.gateway.everyone}
        host, port = self.web.person.endpoint("board")
        site.sent = 0
        with socket.create_connection((host, port), 20) as client:
            asked = (
                f"GET /bytes/{size} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
            )
            client.sendall(asked.encode())
            self._await_still(site)
            self.assertLess(site.sent, size / 2)
            grown = {
                child.name: child.rss() - idle[child.name] for child in self.web.gateway.everyone
            }
            self.assertLessEqual(max(grown.values()), MOST_RESIDENT, grown)
            answer = client.makefile("rb")
            while answer.readline() not in (b"\r\n", b""):
                pass
            self.assertEqual(hashlib.sha256(answer.read()).hexdigest(), digest_of(size))

    def _await_still(self, site: Site) -> None:
        """Until the application has sent nothing for a while."""
        last, since = site.sent, monotonic()

        def is_still() -> bool:
            nonlocal last, since
            if site.sent != last:
                last, since = site.sent, monotonic()
            return last > 0 and monotonic() - since >= STILL_SECS

        until("the application is held back", is_still)

    def test_unrecorded(self) -> None:
        """While no request can be recorded, none passes and the Proxy says so; it heals."""
        gateway = self.web.gateway
        ahead = gateway.files.state(PROXY) / "spool" / "ahead"

        def told() -> bool:
            status, body = gateway.get(PROXY, "/readyz")
            is_told = "lacking: audit spool (the audit spool cannot be written" in body
            value = gateway.metric(PROXY, "svc_proxy_lacking", condition="audit_spool")
            self.assertEqual(status, 200)
            return is_told and value == 1

        self.assertFalse(told())
        shutil.rmtree(ahead, ignore_errors=True)
        ahead.write_text("no directory", "utf-8")

        def again() -> None:
            if ahead.is_file():
                ahead.unlink()

        self.addCleanup(again)
        ran = self.curl("-w", "%{response_code}", f"{self.web.url}/refused")
        self.assertIn("audit_unavailable", ran.stdout)
        self.assertNotIn("GET /refused", self.web.site.heard)
        until("it is told", told)
        again()

        def passes() -> bool:
            self.curl(f"{self.web.url}/again").checked()
            return "GET /again" in self.web.site.heard

        # Where rows were refused too, the spool is opened again a few seconds later.
        until("a request passes", passes)
        until("nothing is lacking", lambda: not told())

    def test_a_websocket(self) -> None:
        """It is decided when it opens, streams, and ends with 1008 when the policy changes."""
        host, port = self.web.person.endpoint("board")
        with socket.create_connection((host, port), 20) as client:
            replies = client.makefile("rb")
            client.sendall(
                f"GET /ws HTTP/1.1\r\nHost: {host}:{port}\r\n".encode()
                + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            while (line := replies.readline()) != b"\r\n":
                self.assertTrue(line.strip(), "no answer")
            client.sendall(b"\x81\x82\0\0\0\0hi")
            self.assertEqual(replies.read(4), b"\x81\x02hi")
            self.web.gateway.set_policy(POLICY + DASHBOARD + NO_SOCKETS)
            self.addCleanup(self.web.gateway.set_policy, POLICY + DASHBOARD)
            head = replies.read(2)
            self.assertEqual(head[0], 0x88)
            reason = replies.read(head[1])
            # In order: a reset would take the words from whoever has not read them yet.
            self.assertEqual(replies.read(1), b"")
        self.assertEqual(reason, b"\x03\xf0the policy no longer allows it (policy_changed)")

    def test_policy_change(self) -> None:
        """A connection that the policy no longer allows is ended, and its person told why."""
        host, port = self.web.person.endpoint("board")
        with socket.create_connection((host, port), 20) as client:
            client.sendall(f"HEAD /a HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            self.assertIn(b"200 OK", client.recv(9999))
            self.web.gateway.set_policy(POLICY + DASHBOARD + CLOSED)
            self.addCleanup(self.web.gateway.set_policy, POLICY + DASHBOARD)
            try:
                self.assertEqual(client.recv(99), b"")
            except ConnectionResetError:
                pass
        ended = until("the cut in the status", lambda: self.web.person.status().get("ended"))
        self.assertEqual(ended[-1]["reason"], "policy_changed")
        told = json.loads(self.curl(f"http://{host}:{port}/a").checked().stdout)["error"]
        self.assertEqual((told["reason"], told["policies"]), ("denied", ["shut"]))

    def test_what_was_not_granted(self) -> None:
        """The Connector lets no operation pass that policy could not allow at the open (R27).

        An honest Proxy denies such a request itself, until the policy allows more than it did: so
        the Connector's own word can be seen.
        """
        host, port = self.web.person.endpoint("board")
        self.web.gateway.set_policy(POLICY + STRICT)
        self.addCleanup(self.web.gateway.set_policy, POLICY + DASHBOARD)
        kept = HTTPConnection(host, port, timeout=20)
        self.addCleanup(kept.close)
        for method in ("GET", "HEAD"):
            kept.request(method, "/a")
            answer = kept.getresponse()
            answer.read()
            self.assertEqual(answer.status, 200)
        self.web.gateway.set_policy(POLICY)

        def told_by_the_connector() -> dict[str, Any] | None:
            kept.request("POST", "/a", b"x")
            answer = kept.getresponse()
            told: dict[str, Any] = json.loads(answer.read())["error"]
            self.assertEqual(answer.status, 403)
            # Until the Proxy has the new policy, it denies the request itself.
            return None if told["reason"] == "denied" else told

        told = until("the Proxy to have the policy", told_by_the_connector)
        self.assertEqual(told["reason"], "operation_not_granted")
        uid = told["session_uid"]
        until(
            "its requests are in the log",
            lambda: uid in [o["session_uid"] for o in self.decisions()],
        )
        self.assertIn("connect again", told["message"])
        self.assertNotIn("POST /a", self.web.site.heard)
        kept.request("POST", "/a", b"x")  # by a new connection: the last one was closed
        self.assertEqual(kept.getresponse().status, 200)
        self.assertIn("POST /a", self.web.site.heard)

    def test_a_name_for_browsers(self) -> None:
        """Its port serves the very name, and only to pages of that name."""
        url = self.web.person.svc("open", "--print", "board").checked().stdout.strip()
        self.assertRegex(url, r"\Ahttp://board-[a-z2-7]{16}\.localhost:\d+/\Z")
        written = ("-o", "/dev/null", "-w", "%{response_code}")
        for words, code in (
            ((url,), "200"),
            (("-H", f"Origin: {url.rstrip('/')}", url), "200"),
            (("-H", "Origin: http://other.example", url), "403"),
            (("-H", "Sec-Fetch-Site: cross-site", url), "403"),
            (("-H", "Host: board.localhost", url), "421"),
            ((re.sub(r"//[^:]*", "//127.0.0.1", url),), "421"),
            (("-H", "Host: other.example", self.web.url), "421"),
            (("-H", "Origin: http://other.example", self.web.url), "403"),
        ):
            self.assertEqual(self.curl(*written, *words).checked().stdout, code, words)
        self.assertEqual(self.web.site.heard, ["GET /", "GET /"])
        refused = self.web.person.svc("open", "--print", "nothing")
        self.assertIn("svc resources list", refused.stderr)

    def test_a_kind_that_is_not_enabled(self) -> None:
        """Whose file leaves the kind out is told which, and the line to add; then it works."""
        bob = self.web.gateway.add_person("bob", "ops")
        self.addCleanup(self.web.gateway.people.remove, bob)
        config = bob.directory / "client.toml"
        joined = config.read_text("utf-8")
        config.write_text(f'plugins.kinds = ["ssh", "tcp"]\n{joined}', "utf-8")
        ((problem, address),) = [(one["problem"], one["address"]) for one in bob.listed()]
        self.assertIsNone(address)
        child = bob.up()
        self.addCleanup(child.end)
        until("the same of the resident", lambda: bob.status().get("endpoints"))
        ran = bob.svc("open", "--print", "board")
        self.assertEqual(ran.status, 1)
        self.assertIn(f"board: {problem}", ran.stderr)
        line = re.findall(r"plugins\.kinds = \[.*?\]", problem)[0]
        self.assertIn(str(config), problem)
        config.write_text(f"{line}\n{joined}", "utf-8")
        child.kill()
        bob.up("board")
        self.assertRegex(bob.svc("open", "--print", "board").checked().stdout, r"\Ahttp://board-")

    def test_the_list(self) -> None:
        """A page under a name of the same sort has a link to each application."""
        url = self.web.person.svc("open", "--print", "board").checked().stdout.strip()
        written = ("-o", "/dev/null", "-w", "%{response_code}")
        listing = self.web.person.svc("open", "--print").checked().stdout.strip()
        self.assertRegex(listing, r"\Ahttp://svc-[a-z2-7]{16}\.localhost:\d+/\Z")
        page = self.curl(listing).checked().stdout
        self.assertEqual(re.findall(r'<a href="([^"]*)">([^<]*)</a>', page), [(url, "board")])
        for words, code in (
            ((f"{listing}board",), "404"),
            (("-H", "Origin: http://other.example", listing), "403"),
            (("-H", "Host: svc.localhost", listing), "421"),
            (("-e", listing, "-H", "Sec-Fetch-Site: cross-site", url), "403"),
            (("-e", listing, url), "200"),
        ):
            self.assertEqual(self.curl(*written, *words).checked().stdout, code, words)
