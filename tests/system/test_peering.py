"""A session that enters one Proxy and leaves through another, with real processes."""

from __future__ import annotations

import re
import signal
import socket
from functools import cache
from typing import Any

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import run, until
from svc.testing.gateway.settings import CONNECTOR, POLICY, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.board import DASHBOARD, KINDS, Site, enable
from tests.system.carrying import carrying
from tests.system.world import around

SECOND = "proxy2"
TUNNELS = "svc_active_connector_tunnels"
ACTIVE = "svc_active_sessions"
OPENS = "svc_proxy_peer_opens_total"
TIMEOUT_SECS = 40.0
NOBODY = '@id("nobody") forbid (principal, action == Action::"tcpConnect", resource);\n'


@define(eq=False)
class Pair:
    """A gateway whose only Connector is at the second Proxy, and a person at the first one."""

    gateway: Gateway
    site: Site
    person: GatewayPerson


@cache
def pair() -> Pair:
    """The one of this process."""
    site = Site()
    targets = [
        GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}"),
        GatewayTarget("board", f"127.0.0.1:{site.server_address[1]}", "web"),
    ]
    numbers = {"endpoints.peer_listen": "127.0.0.1:0", "plugins.kinds": KINDS}
    made = make_gateway(targets, numbers=numbers)
    second = made.add_proxy(SECOND)
    made.configure(CONNECTOR, {"endpoints.proxy": [second]})
    made.restart(CONNECTOR)
    made.await_metric(SECOND, TUNNELS, 1)
    made.await_metric(PROXY, TUNNELS, 0)
    made.set_policy(POLICY + DASHBOARD)
    person = made.add_person("ada", "ops")
    enable(person)
    person.up("echo", "board")
    return Pair(made, site, person)


class PeeringTests(SynchronousTestCase):
    """Sessions of a person at the first Proxy, over the only tunnel, which is at the second."""

    def setUp(self) -> None:
        self.pair = pair()
        self.gateway, self.person = self.pair.gateway, self.pair.person

    def held(self) -> socket.socket:
        """A session that has carried bytes and is still open, counted on both Proxies."""

        def opened() -> socket.socket | None:
            return carrying(self.person.endpoint("echo"), TIMEOUT_SECS)

        end = until("a session from Proxy to Proxy", opened, TIMEOUT_SECS)
        self.addCleanup(end.close)
        self.await_active(1)
        return end

    def await_active(self, count: int, *proxies: str) -> None:
        """Wait until these Proxies, or both, count so many open sessions."""
        for proxy in proxies or (PROXY, SECOND):
            self.gateway.await_metric(proxy, ACTIVE, count, TIMEOUT_SECS, protocol="tcp")

    def records(self, event: str) -> list[dict[str, Any]]:
        """The newest of an event."""
        words = ("audit", "show", "--event", event, "--last", "99", "--json")
        found: list[dict[str, Any]] = self.gateway.operator(*words).json
        return found

    def opened(self) -> tuple[socket.socket, str]:
        """As :meth:`held`, with the session's uid."""
        end = self.held()
        # It is on record before it is granted, and nobody else opens any.
        return end, self.records("session.start")[-1]["session_uid"]

    def check_end(self, session_uid: str, reason: str) -> None:
        """Wait until the session's end is in the log: one, for this reason."""

        def ends() -> list[str]:
            found = self.records("session.end")
            return [one["reason"] for one in found if one["session_uid"] == session_uid]

        self.assertEqual(until("the end is in the log", ends, TIMEOUT_SECS), [reason])

    def check_cut(self, end: socket.socket) -> None:
        """Wait until the person's connection is ended from the other side."""
        try:
            while end.recv(4096):
                pass
        except ConnectionResetError:
            pass

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

    def test_policy_changes(self) -> None:
        """What the policy no longer allows ends on both, and is reported once."""
        end, uid = self.opened()
        self.gateway.set_policy(POLICY + NOBODY)
        self.check_cut(end)
        self.await_active(0)
        self.check_end(uid, "policy_changed")
        self.gateway.set_policy(POLICY + DASHBOARD)

    def test_operator_ends_it(self) -> None:
        """`sessions end` reaches both."""
        end, uid = self.opened()
        self.gateway.operator("sessions", "end", "--resource", "echo")
        self.check_cut(end)
        self.await_active(0)
        self.check_end(uid, "ended_by_operator")

    def test_egress_stops(self) -> None:
        """The person hears that a Proxy was stopped, and is served again once it is back."""
        end, uid = self.opened()
        self.gateway.child(SECOND).signal(signal.SIGTERM)
        self.check_cut(end)
        self.await_active(0, PROXY)
        self.check_end(uid, "draining")
        self.gateway.child(SECOND).wait()
        self.gateway.start(SECOND)
        self.gateway.await_metric(SECOND, TUNNELS, 1)
        self.held().close()
        self.await_active(0)

    def test_ingress_stops(self) -> None:
        """So does one whose own Proxy is stopped, and nothing is left at the other one."""
        end, uid = self.opened()
        self.gateway.child(PROXY).signal(signal.SIGTERM)
        self.check_cut(end)
        self.await_active(0, SECOND)
        self.check_end(uid, "draining")
        self.gateway.child(PROXY).wait()
        self.gateway.start(PROXY)
        self.held().close()
        self.await_active(0)

    def test_egress_is_killed(self) -> None:
        """Its sessions end at the other one, which reports them."""
        end, uid = self.opened()
        self.gateway.child(SECOND).kill()
        self.check_cut(end)
        self.await_active(0, PROXY)
        self.check_end(uid, "peer_proxy_lost")
        self.gateway.start(SECOND)
        self.gateway.await_metric(SECOND, TUNNELS, 1)
        self.held().close()
        self.await_active(0)

    def test_ingress_is_killed(self) -> None:
        """Nothing of its sessions is left at the other one."""
        end = self.held()
        self.gateway.child(PROXY).kill()
        self.check_cut(end)
        self.await_active(0, SECOND)
        self.gateway.start(PROXY)
        self.held().close()
        self.await_active(0)

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
        curl, site = stock_tool("curl", "curl"), self.pair.site
        host, port = self.person.endpoint("board")
        url, known = f"http://{host}:{port}", len(self.requests())
        site.heard.clear()
        written = ("-sS", "--noproxy", "*", "--max-time", "30", "-w", "%{response_code}\\n")
        ran = run(
            [curl, *written, f"{url}/public", "--next", *written, f"{url}/admin"],
            self.person.home,
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
        self.assertEqual(self.records("session.mismatch"), [])
        decided = self.gateway.metric(SECOND, "svc_request_authorize_total", kind="web")
        self.assertEqual(decided, 0)

    def requests(self) -> list[dict[str, Any]]:
        """The newest web requests in the log."""
        return [one for one in self.records("request.decision") if one["action"] == "web"]
