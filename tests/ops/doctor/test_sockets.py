"""The table of sockets: as the system writes it, of sockets that are really there."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.config import Address
from svc.ops.doctor import sockets
from svc.ops.doctor.sockets import TcpSockets, tcp_sockets


class SocketTests(SynchronousTestCase):
    """Sockets of this process."""

    def table(self, port: int) -> TcpSockets:
        """The sockets of one port."""
        found = tcp_sockets({port})
        assert found is not None
        return found

    def test_listener(self) -> None:
        """It is there under its own address, by IPv4 and by IPv6, until it is closed."""
        for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
            with closing(socket.create_server((host, 0), family=family)) as server:
                port = server.getsockname()[1]
                self.assertTrue(self.table(port).has_listener(Address(host, port)))
                self.assertFalse(self.table(port).has_listener(Address("0.0.0.0", port)))
                self.assertTrue(self.table(port).answers(host, port))
            self.assertFalse(self.table(port).has_listener(Address(host, port)))
            self.assertFalse(self.table(port).answers(host, port))

    def test_every_address(self) -> None:
        """One on every address answers under those of this machine, and under no others."""
        with closing(socket.create_server(("0.0.0.0", 0))) as server:
            port = server.getsockname()[1]
            self.assertTrue(self.table(port).answers("127.0.0.1", port))
            self.assertFalse(self.table(port).answers("192.0.2.1", port))
            self.assertFalse(self.table(port).answers("no address", port))

    def test_connection(self) -> None:
        """The far end of an open connection answers, even where nobody listens any more."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            port = server.getsockname()[1]
            client = socket.create_connection(("127.0.0.1", port))
            accepted, _ = server.accept()
        with client, accepted:
            self.assertIn(("127.0.0.1", port), {(str(h), p) for h, p in self.table(port).connected})

    def test_unlisted(self) -> None:
        """Where the system has no such table, or another one, nothing is said."""
        table = Path(self.mktemp())
        self.patch(sockets, "TABLES", (table,))
        self.assertIsNone(tcp_sockets({1}))
        table.write_text("head\nnothing known\n")
        self.assertIsNone(tcp_sockets({1}))
