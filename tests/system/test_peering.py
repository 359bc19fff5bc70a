"""A session that enters one Proxy and leaves through another, with real processes."""

from __future__ import annotations

import hashlib
import json
import re
import socket
from urllib.parse import urlsplit

from svc.testing.gateway.postgres import USER
from svc.testing.gateway.processes import Ran, run, until
from svc.testing.gateway.settings import PROXY
from tests.support.postgres import migrated_database, run_socket
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
        url = f"http://{host}:{port}"
        site.heard.clear()
        written = ("-sS", "--noproxy", "*", "--max-time", "30", "-w", "%{response_code}\\n")
        ran = run(
            [curl, *written, f"{url}/public", "--next", *written, f"{url}/admin"],
            home,
        )
        codes = re.findall(r"(\d{3})$", ran.checked().stdout, re.MULTILINE)
        self.assertEqual((codes, site.heard), (["200", "403"], ["GET /public"]))
        self.check_decided("web", ["allow", "deny"])
        much = run([curl, "-sS", "--noproxy", "*", "-o", "much", f"{url}/bytes/{MUCH}"], home)
        much.checked()
        digest = hashlib.sha256((home / "much").read_bytes()).hexdigest()
        self.assertEqual(digest, digest_of(MUCH))
        self.check_passed_on("web")

    def test_statements(self) -> None:
        """A database: psql reads, and what is denied reaches no server; its session goes on."""
        psql, place = stock_tool("psql", "postgresql-client"), urlsplit(migrated_database(self))
        self.pair.database.target = run_socket()
        (here,) = [e for e in self.person.status()["endpoints"] if e["resource"] == "orders"]
        where = ["-h", here["directory"], "-U", USER, "-d", place.path[1:]]
        ran = run(
            [psql, "-X", "-w", "-A", "-t", *where],
            self.person.home,
            stdin=b"SELECT 6 * 7;\nDROP TABLE audit_log;\nSELECT count(*) FROM audit_log;\n",
        )
        self.assertEqual(ran.checked().stdout.split(), ["42", "0"])
        self.assertIn("Policy: no-ddl. The statement did not reach", ran.stderr)
        self.check_decided("db_query", ["allow", "deny", "allow"])
        self.check_passed_on("db_query")

    def test_cluster(self) -> None:
        """A cluster: kubectl lists and may not delete, and what it runs in a pod has its input."""
        pod = "api/v1/namespaces/shop/pods"
        listed = self.kubectl("get", "--raw", f"/{pod}/front").checked().stdout
        self.assertEqual(json.loads(listed)["metadata"]["name"], "front")
        denied = self.kubectl("delete", "--raw", f"/{pod}/front")
        self.assertIn("only-look", denied.stderr)
        self.assertNotIn("DELETE", [method for method, _, _ in self.pair.cluster.heard])
        node = self.records("session.start")[-1]["node_id"]
        by_it = {("allow", node), ("deny", node)}
        # kubectl asks for more than it was told to get.
        until("both are in the log", lambda: by_it == set(self.decided("kube")))
        said = b"through two Proxies\n" * 4000
        ran = self.kubectl("-n", "shop", "exec", "-i", "front", "--", "cat", stdin=said)
        self.assertEqual(ran.checked().stdout.encode(), said)
        self.check_passed_on("kube")

    def kubectl(self, *words: str, stdin: bytes = b"") -> Ran:
        """One run of the stock one."""
        config = self.person.directory / "kube" / "prod.yaml"
        command = [stock_tool("kubectl"), "--kubeconfig", str(config), "--request-timeout=20s"]
        return run([*command, *words], self.person.home, stdin=stdin)

    def check_decided(self, action: str, decisions: list[str]) -> None:
        """Wait for the requests of the newest session, and check who has recorded what of them."""
        start = self.records("session.start")[-1]
        self.assertIn("egress_proxy_id", start["details"])

        def recorded() -> list[tuple[str, str]]:
            found = self.decided(action, start["session_uid"])
            return found if len(found) == len(decisions) else []

        found = until("the requests are in the log", recorded)
        self.assertEqual(found, [(one, start["node_id"]) for one in decisions])

    def decided(self, action: str, session_uid: str = "") -> list[tuple[str, str]]:
        """The newest decisions on requests, of one session or of all, and who has made them."""
        return [
            (one["decision"], one["details"]["proxy_id"])
            for one in self.records("request.decision")
            if one["action"] == action and session_uid in ("", one["session_uid"])
        ]

    def check_passed_on(self, kind: str) -> None:
        """Nothing was altered on the way, and the second Proxy has decided none of it."""
        self.assertEqual(self.records("session.mismatch"), [])
        decided = self.gateway.metric(SECOND, "svc_request_authorize_total", kind=kind)
        self.assertEqual(decided, 0)
