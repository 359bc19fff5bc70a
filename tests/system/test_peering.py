"""A session that enters one Proxy and leaves through another, with real processes."""

from __future__ import annotations

import hashlib
import re
import socket
from typing import Any

from svc.testing.gateway.processes import run, until
from svc.testing.gateway.settings import PROXY
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.peered import MUCH, OPENS, SECOND, PeeredCase
from tests.system.targets import digest_of


class PeeringTests(PeeredCase):
    """What passes, who is refused, and where it is decided."""

    @proves("G-SES-12", "G-MET-13", "G-MET-46", "G-ROLE-13")
    def test_relayed(self) -> None:
        """Its bytes pass both Proxies, both count it, and its record names both."""
        sides = ((PROXY, "ingress"), (SECOND, "egress"))
        counts = [
            self.gateway.metric(proxy, OPENS, side=side, outcome="accepted")
            for proxy, side in sides
        ]
        end = self.held()
        for (proxy, side), before in zip(sides, counts, strict=True):
            self.gateway.await_metric(proxy, OPENS, before + 1, side=side, outcome="accepted")
        end.shutdown(socket.SHUT_WR)
        self.assertEqual(end.recv(1), b"")
        self.await_active(0)
        start = self.records("session.start")[-1]["details"]
        self.assertNotEqual(start["proxy_id"], start["egress_proxy_id"])
        address = self.gateway.listening(SECOND)["peer"]
        self.assertRegex(address, r"127\.0\.0\.1:\d+")

    @proves("G-ROLE-13")
    def test_without_an_identity(self) -> None:
        """Who shows no Proxy's certificate gets no connection, and nothing is counted."""
        openssl = stock_tool("openssl", "openssl")
        before = self.gateway.metric(SECOND, OPENS, side="egress")
        command = [openssl, "s_client", "-alpn", "h2", "-quiet", "-connect"]
        ran = run([*command, self.gateway.listening(SECOND)["peer"]], self.person.home)
        self.assertIn("certificate required", ran.stderr)
        self.assertEqual(self.gateway.metric(SECOND, OPENS, side="egress"), before)

    def test_requests_are_decided_where_it_entered(self) -> None:
        """A web session: each request is decided and recorded by the first Proxy alone."""
        curl, site, home = stock_tool("curl", "curl"), self.pair.site, self.person.home
        host, port = self.person.endpoint("board")
        url, known = f"http://{host}:{port}", len(self.requests())
        site.heard.clear()
        written = ("-sS", "--noproxy", "*", "--max-time", "30", "-w", "%{response_code}\\n")
        ran = run(
            [curl, *written, f"{url}/public", "--next", *written, f"{url}/admin"],
            home,
        )
        codes = re.findall(r"(\d{3})$", ran.checked().stdout, re.MULTILINE)
        self.assertEqual((codes, site.heard), (["200", "403"], ["GET /public"]))
        recorded = until("the requests are in the log", lambda: self.requests()[known + 1 :])
        start = self.records("session.start")[-1]
        self.assertIn("egress_proxy_id", start["details"])
        self.assertEqual(
            [(one["decision"], one["details"]["proxy_id"]) for one in self.requests()[known:]],
            [("allow", start["node_id"]), ("deny", start["node_id"])],
        )
        self.assertEqual(recorded[-1]["session_uid"], start["session_uid"])
        much = run([curl, "-sS", "--noproxy", "*", "-o", "much", f"{url}/bytes/{MUCH}"], home)
        much.checked()
        digest = hashlib.sha256((home / "much").read_bytes()).hexdigest()
        self.assertEqual(digest, digest_of(MUCH))
        self.assertEqual(self.records("session.mismatch"), [])
        decided = self.gateway.metric(SECOND, "svc_request_authorize_total", kind="web")
        self.assertEqual(decided, 0)

    def requests(self) -> list[dict[str, Any]]:
        """The newest web requests in the log."""
        return [one for one in self.records("request.decision") if one["action"] == "web"]
