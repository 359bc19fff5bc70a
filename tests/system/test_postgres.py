"""A gateway whose store is in PostgreSQL: sessions, and a server that goes and comes back."""

from __future__ import annotations

import contextlib
import http.client
import socket
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway import init_gateway
from svc.testing.postgres import PostgresServer
from svc.testing.processes import Child, until
from svc.testing.settings import AUTHORITY, POLICY, Target
from tests.postgres import connected, own_server
from tests.proof import proves
from tests.system.world import around


def free_address() -> str:
    """An address on which nobody listened a moment ago."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


class PostgresGatewayTests(SynchronousTestCase):
    """An Authority over a server of the test's own."""

    @proves("G-RDY-05", "G-RDY-06", "G-OPEN-44", "G-AUD-01", "U-MIG-13", "G-RDY-08", "G-STORE-02")
    def test_sessions_while_the_server_goes_and_comes(self) -> None:
        """It starts before its server answers, carries sessions, and grants none without it.

        A store that a newer build has migrated meanwhile ends it with the status for that.
        """
        server = own_server(self)
        echo = Target("echo", f"127.0.0.1:{around().ports['echo']}")
        gateway = init_gateway([echo])
        self.addCleanup(gateway.end)
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
            telemetry = f"127.0.0.1:{free.getsockname()[1]}"
        change = {
            "store_url": server.url(),
            "plugins.stores": ["postgresql"],
            "telemetry.metrics_listen": telemetry,
        }
        gateway.files.write(AUTHORITY, gateway.files.table(AUTHORITY) | change)
        server.stop()
        child = gateway.make_child(AUTHORITY)
        gateway.start(AUTHORITY, ready=False)
        until("waiting", lambda: "waiting for it" in child.text(), alive=[child])
        until("up", lambda: self.asked(telemetry, "/healthz") == 200, alive=[child])
        self.assertEqual(self.asked(telemetry, "/readyz"), 503)
        server.start()
        gateway.await_ready(AUTHORITY)
        gateway.pin = gateway.status()["ca_pin"]
        gateway.set_policy(POLICY)
        gateway.make_proxy()
        gateway.make_connector([echo])
        gateway.await_tunnels(1)
        person = gateway.add_person("ada", "ops")
        person.up("echo")
        self.check_echo(person)
        seen = around().seen()

        server.stop()
        until("not ready", lambda: gateway.get(AUTHORITY, "/readyz")[0] == 503, alive=[child])
        self.assertEqual(gateway.get(AUTHORITY, "/healthz")[0], 200)
        self.assertEqual(self.echoed(person), b"")
        self.assertEqual(around().seen(), seen)
        server.start()
        gateway.await_ready(AUTHORITY)
        self.check_echo(person)
        self.assertIn("verified", gateway.verify())
        self.assertFalse(gateway.files.store.exists())

        self.check_ended_by_a_newer_store(server, child)

    def check_ended_by_a_newer_store(self, server: PostgresServer, child: Child) -> None:
        """Let another build migrate the store while its server is away from us."""
        with connected(server.url()) as cursor:
            cursor.execute("INSERT INTO svc_migrations VALUES ('m9999_x', 'x', 1, 'newer')")
        server.stop()
        server.start()
        self.assertEqual(child.wait(), 4)
        self.assertIn("m9999_x", child.text())

    def asked(self, address: str, path: str) -> int:
        """The status of a GET; 0 where nobody answers."""
        asked = http.client.HTTPConnection(address, timeout=10)
        try:
            asked.request("GET", path)
            return asked.getresponse().status
        except ConnectionRefusedError:
            return 0
        finally:
            asked.close()

    def echoed(self, person: Any) -> bytes:
        """What comes back from the echo service through the gateway."""
        with socket.create_connection(person.endpoint("echo"), 30) as session:
            try:
                session.sendall(b"hello")
                return session.recv(5)
            except ConnectionError:
                return b""

    def check_echo(self, person: Any) -> None:
        until("a session", lambda: self.echoed(person) == b"hello")
