"""F5: a gateway's PostgreSQL server goes, hangs or cannot be reached, and comes back."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
from collections.abc import Callable
from functools import partial
from time import monotonic

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.files import free_ports
from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, until
from svc.testing.gateway.settings import AUTHORITY, POLICY, GatewayTarget
from tests.fault.cluster import socket_of, through
from tests.fault.tally import Tally, counted, in_long_form
from tests.fault.tcp import DOWN, UP, FaultProxy, Mode
from tests.support.postgres import connected, own_server
from tests.support.proof import proves
from tests.system.world import around

TALLY = Tally("F5")
ROUNDS = counted(1, 3)
OUTAGE = counted(0, 60)
DETECTED = 15.0
"""A check each 5 s, which waits 2 s for its answer."""


class StoreDown(SynchronousTestCase):
    """An Authority over a server of the test's own, reached through a fault proxy."""

    def setUp(self) -> None:
        """Everything is configured, and nothing started."""
        self.server = own_server(self)
        self.way = FaultProxy(socket_of(self.server.url()))
        self.addCleanup(self.way.close)
        echo = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        self.gateway: Gateway = init_gateway([echo])
        self.addCleanup(self.gateway.end)
        self.telemetry = f"127.0.0.1:{free_ports()[0]}"
        change = {
            "store_url": through(self.server.url(), self.way),
            "plugins.stores": ["postgresql"],
            "telemetry.metrics_listen": self.telemetry,
        }
        files = self.gateway.files
        files.write(AUTHORITY, files.table(AUTHORITY) | change)
        self.authority: Child = self.gateway.make_child(AUTHORITY)
        self.target = echo

    def make_rest(self) -> None:
        """A Proxy, a Connector, and a person with a session that stays open."""
        gateway = self.gateway
        gateway.await_ready(AUTHORITY)
        gateway.pin = gateway.status()["ca_pin"]
        gateway.set_policy(POLICY)
        gateway.make_proxy()
        gateway.make_connector([self.target])
        gateway.await_tunnels(1)
        self.person: GatewayPerson = gateway.add_person("ada", "ops")
        self.person.up("echo")
        self.check_echo()
        self.staying = self.visit()
        self.addCleanup(self.staying.close)
        self.check_stays()

    @proves("G-RDY-05", "G-RDY-06", "G-OPEN-44", "G-AUD-01", "U-MIG-13", "G-RDY-08", "G-STORE-02")
    def test_the_server_goes_and_comes(self) -> None:
        """It starts before its server answers, carries sessions, and grants none without it.

        A store that a newer build has migrated meanwhile ends it with the status for that.
        """
        self.server.stop()
        child = self.authority
        self.gateway.start(AUTHORITY, ready=False)
        until("waiting", lambda: "waiting for it" in child.text(), alive=[child])
        until("up", lambda: self.asked("/healthz") == 200, alive=[child])
        self.assertEqual(self.asked("/readyz"), 503)
        self.server.start()
        self.make_rest()
        self.check_outage(self.server.stop, self.server.start)
        self.assertIn("verified", self.gateway.verify())
        self.assertFalse(self.gateway.files.store.exists())
        self.check_ended_by_a_newer_store()

    @in_long_form
    @proves("G-RDY-05", "G-RDY-06", "G-AUD-01")
    def test_each_way_of_being_away(self) -> None:
        """However the server cannot be reached, nothing opens, what is open stays, and it heals."""
        self.gateway.start(AUTHORITY)
        self.make_rest()
        server, way = self.server, self.way
        for _ in range(ROUNDS):
            for mode in (Mode.HOLD, Mode.LOSE):
                for directions in ((), (UP,), (DOWN,)):
                    self.check_outage(partial(way.set, mode, *directions), way.heal)
            self.check_outage(way.cut, way.heal)
            self.check_outage(lambda: way.cut(reset=True), way.heal)
            self.check_outage(server.stop, server.start)
            self.check_outage(
                lambda: server.signal(signal.SIGSTOP), lambda: server.signal(signal.SIGCONT)
            )
        self.check_outage(server.stop, server.start, OUTAGE)
        self.assertIn("verified", self.gateway.verify())

    def check_outage(
        self, begin: Callable[[], object], end: Callable[[], object], seconds: float = 0.0
    ) -> None:
        """Nothing opens meanwhile; afterwards all is as before."""
        child, seen = self.authority, around().seen()
        with TALLY.one():
            began = monotonic()
            begin()
            try:
                until("not ready", lambda: self.asked("/readyz") == 503, DETECTED, [child])
                TALLY.tell_longest("not ready after at most", monotonic() - began)
                until("long enough", lambda: self.refused() and monotonic() - began >= seconds, 90)
                self.assertEqual(self.asked("/healthz"), 200)
                self.assertEqual(around().seen(), seen)
                self.check_stays()
            finally:
                end()
            with TALLY.timed():
                self.gateway.await_ready(AUTHORITY)
                self.check_echo()
            self.check_stays()

    def check_ended_by_a_newer_store(self) -> None:
        """Let another build migrate the store while its server is away from us."""
        with connected(self.server.url()) as cursor:
            cursor.execute("INSERT INTO svc_migrations VALUES ('m9999_x', 'x', 1, 'newer')")
        self.server.stop()
        self.server.start()
        self.assertEqual(self.authority.wait(), 4)
        self.assertIn("m9999_x", self.authority.text())

    def asked(self, path: str) -> int:
        """The status of a GET; 0 where nobody answers."""
        asked = http.client.HTTPConnection(self.telemetry, timeout=10)
        try:
            asked.request("GET", path)
            return asked.getresponse().status
        except ConnectionRefusedError:
            return 0
        finally:
            asked.close()

    def refused(self) -> bool:
        """Whether a new session is refused; AssertionError where it opens."""
        self.assertEqual(self.echoed(), b"")
        return True

    def check_stays(self) -> None:
        """The session that was open before still is."""
        self.staying.sendall(b"stays")
        self.assertEqual(self.staying.recv(5), b"stays")

    def echoed(self) -> bytes:
        """What comes back from the echo service through the gateway."""
        with self.visit() as session, contextlib.suppress(ConnectionError):
            session.sendall(b"hello")
            return session.recv(5)
        return b""

    def visit(self) -> socket.socket:
        """A connection to the resident's port."""
        return socket.create_connection(self.person.endpoint("echo"), 30)

    def check_echo(self) -> None:
        """Sessions open again."""
        until("a session", lambda: self.echoed() == b"hello")
