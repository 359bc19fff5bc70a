"""Two Proxies of real processes: a person at the first, the only tunnel at the second."""

from __future__ import annotations

import socket
from functools import cache
from typing import Any

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import CONNECTOR, POLICY, PROXY, GatewayTarget
from tests.fault.tcp import FaultProxy
from tests.system.board import DASHBOARD, Site, enable
from tests.system.carrying import carrying
from tests.system.databases import NO_DDL
from tests.system.kube_api.server import Cluster
from tests.system.kube_api.stage import LOOK, cluster_target
from tests.system.world import around

SECOND = "proxy2"
TUNNELS = "svc_active_connector_tunnels"
ACTIVE = "svc_active_sessions"
OPENS = "svc_proxy_peer_opens_total"
TIMEOUT_SECS = 40.0
MUCH = 8 * 1024 * 1024
KINDS = ["kube", "postgres", "ssh", "tcp", "web"]
NOBODY = '@id("nobody") forbid (principal, action == Action::"tcpConnect", resource);\n'


@define(eq=False)
class Pair:
    """A gateway whose only Connector is at the second Proxy, and a person at the first one.

    Attributes:
        database: Leads to a server of PostgreSQL, once a test has said to which.
    """

    gateway: Gateway
    site: Site
    cluster: Cluster
    database: FaultProxy
    person: GatewayPerson


@cache
def pair() -> Pair:
    """The one of this process."""
    site, cluster, database = Site(), Cluster(), FaultProxy("")
    login = {"tls": "off", "auth": "trust"}
    targets = [
        GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}"),
        GatewayTarget("board", f"127.0.0.1:{site.server_address[1]}", "web"),
        GatewayTarget("orders", database.address, "postgres", more=login),
        cluster_target("prod", cluster),
    ]
    numbers = {"endpoints.peer_listen": "127.0.0.1:0", "plugins.kinds": KINDS}
    made = make_gateway(targets, numbers=numbers)
    second = made.add_proxy(SECOND)
    made.configure(CONNECTOR, {"endpoints.proxy": [second]})
    made.restart(CONNECTOR)
    made.await_metric(SECOND, TUNNELS, 1)
    made.await_metric(PROXY, TUNNELS, 0)
    made.set_policy(POLICY + DASHBOARD + NO_DDL + LOOK)
    person = made.add_person("ada", "ops")
    enable(person, KINDS)
    person.up("echo", "board", "orders", "prod")
    return Pair(gateway=made, site=site, cluster=cluster, database=database, person=person)


class PeeredCase(SynchronousTestCase):
    """Sessions of a person at the first Proxy, over the only tunnel."""

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
