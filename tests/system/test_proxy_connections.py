"""A Connector between two real Proxies: how many connections it keeps, and to which."""

from __future__ import annotations

import contextlib
import socket
from functools import cache

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.system.world import around

SECOND = "proxy2"
TUNNELS = "svc_active_connector_tunnels"
COUNT = "connector.proxy_connection_count"
SERIES = "svc_connector_proxy_connections_"
DUPLICATES = "svc_connector_duplicate_proxy_connections_total"


@cache
def gateway() -> Gateway:
    """With two Proxies, and a person at each; its Connector is configured by each test."""
    made = make_gateway([GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")])
    made.add_proxy(SECOND)
    made.add_person("ada", "ops")
    made.add_person("bob", "ops", proxy=SECOND)
    return made


class TwoProxies(SynchronousTestCase):
    """Each test configures the Connector and starts it again."""

    def setUp(self) -> None:
        self.gateway = gateway()
        self.people = self.gateway.people
        self.first = self.gateway.public
        self.second = self.gateway.listening(SECOND)["public"]

    def connect(self, addresses: list[str], count: int | None = None) -> None:
        """Start the Connector again with these Proxies, and with this count if there is one."""
        table = self.gateway.files.table(CONNECTOR) | {"endpoints.proxy": addresses}
        table.pop(COUNT, None)
        if count is not None:
            table[COUNT] = count
        self.gateway.files.write(CONNECTOR, table)
        self.gateway.restart(CONNECTOR)

    def check(self, *tunnels: int, **series: int) -> None:
        """Wait until the Proxies have so many tunnels, and the Connector says so."""
        for proxy, count in zip((PROXY, SECOND), tunnels, strict=False):
            self.gateway.await_metric(proxy, TUNNELS, count)
        for name, value in series.items():
            self.gateway.await_metric(CONNECTOR, SERIES + name, value)

    def echoes(self, person: GatewayPerson) -> None:
        """Fail unless a session of this person carries bytes."""
        if person.resident is None:
            person.up("echo")
        with socket.create_connection(person.endpoint("echo"), 20) as end:
            end.sendall(b"hello")
            self.assertEqual(end.recv(5, socket.MSG_WAITALL), b"hello")

    def held(self, person: GatewayPerson) -> socket.socket:
        """A session of this person that has carried bytes and is still open."""
        end = socket.create_connection(person.endpoint("echo"), 20)
        self.addCleanup(end.close)
        end.sendall(b"first")
        self.assertEqual(end.recv(5, socket.MSG_WAITALL), b"first")
        return end

    @proves("G-CFG-12", "G-MET-53", "X-45")
    def test_one_by_default(self) -> None:
        """Two addresses and no count: one connection; it goes to the other Proxy with the first."""
        self.connect([self.first, self.second])
        self.check(1, 0, desired=1, connected=1, degraded=0)
        self.gateway.child(PROXY).kill()
        self.gateway.await_metric(SECOND, TUNNELS, 1)
        self.check(desired=1, connected=1, degraded=0)
        self.echoes(self.people[1])
        self.gateway.start(PROXY)

    @proves("G-CFG-12", "G-MET-51", "G-MET-52", "G-MET-53", "U-NOTE-20", "X-46")
    @proves("G-TUN-24", "U-NOTE-23", "G-OPEN-41")
    def test_two(self) -> None:
        """A count of 2: one tunnel at each Proxy, sessions over both, and the loss of one shown."""
        self.connect([self.first, self.second], 2)
        self.check(1, 1, desired=2, connected=2, degraded=0)
        for person in self.people:
            self.echoes(person)
        with self.held(self.people[0]) as staying, self.held(self.people[1]) as lost:
            self.gateway.child(SECOND).kill()
            self.check(1, desired=2, connected=1, degraded=1)
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(lost.recv(5), b"", "a session moved to another Proxy")
            self.echoes(self.people[0])
            staying.sendall(b"still")
            self.assertEqual(staying.recv(5, socket.MSG_WAITALL), b"still")
        self.gateway.start(SECOND)
        self.check(1, 1, desired=2, connected=2, degraded=0)
        self.assertEqual(self.gateway.metric(CONNECTOR, DUPLICATES), 0)

    @proves("G-RDY-04")
    def test_ready_follows(self) -> None:
        """With Authority away a Proxy stays ready, unless it is told to follow what it can do."""
        self.gateway.configure(SECOND, {"telemetry.ready_follows": True})
        self.gateway.restart(SECOND)
        self.gateway.child("authority").kill()
        for proxy in (PROXY, SECOND):
            self.gateway.await_metric(proxy, "svc_proxy_lacking", 1, condition="control_pool")
        status, body = self.gateway.get(PROXY, "/readyz")
        ready, _, why = body.partition("\n")
        self.assertEqual((status, ready), (200, "ready"))
        self.assertIn("lacking: control pool (Authority is not reached: ", why)
        self.assertEqual(
            self.gateway.get(SECOND, "/readyz"), (503, f"not ready: control pool\n{why}")
        )
        self.gateway.start("authority")
        self.gateway.await_ready(SECOND)
        self.gateway.await_metric(SECOND, "svc_proxy_lacking", 0)

    @proves("G-MET-50", "G-MET-51", "G-MET-52", "X-45", "G-OPEN-41", "G-TUN-23", "U-NOTE-21")
    def test_two_names_of_one_proxy(self) -> None:
        """Two names of one Proxy are one connection, the rest is counted and sought elsewhere."""
        port = self.first.rpartition(":")[2]
        self.connect([self.first, f"localhost:{port}"], 2)
        self.check(1, 0, desired=2, connected=1, degraded=1)
        until("duplicates are counted", lambda: self.gateway.metric(CONNECTOR, DUPLICATES) >= 1)
        self.check(1, 0, desired=2, connected=1, degraded=1)
        said = self.gateway.child(CONNECTOR).text()
        self.assertIn("duplicate_proxy", said)
        self.connect([self.first, f"localhost:{port}", self.second], 2)
        self.check(1, 1, desired=2, connected=2, degraded=0)
