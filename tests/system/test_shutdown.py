"""What a Proxy does from the signal to its end."""

from __future__ import annotations

import signal
import socket
from contextlib import closing
from time import monotonic

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, PROXY
from tests.support.proof import proves
from tests.system.common import shared

DRAIN_SECS = 20


class ShutdownTests(SynchronousTestCase):
    @proves("G-OPEN-76")
    def test_in_order(self) -> None:
        """It accepts no more, its probes fail by connection alone, and what is open may end."""
        gateway = shared()
        before = gateway.files.config(PROXY).read_text("utf-8")
        self.addCleanup(gateway.await_tunnels, 1)
        self.addCleanup(gateway.restart, PROXY)
        self.addCleanup(gateway.files.config(PROXY).write_text, before, "utf-8")
        gateway.configure(PROXY, {"limits.drain_secs": DRAIN_SECS})
        gateway.restart(PROXY)
        gateway.await_tunnels(1)
        person = gateway.add_person("gil", "ops")
        resident = person.up("echo")
        self.addCleanup(resident.end)
        proxy, telemetry = gateway.child(PROXY), gateway.listening(PROXY)["telemetry"]
        public = gateway.listening(PROXY)["public"]
        answers: set[int] = set()

        def is_closed(address: str) -> bool:
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host, int(port)), 5).close()
            except ConnectionRefusedError:
                return True
            return False

        def probed() -> bool:
            """Whether the probe fails; it never fails by what it answers."""
            try:
                answers.add(gateway.get(PROXY, "/readyz")[0])
            except OSError:
                return is_closed(telemetry)
            return False

        with closing(socket.create_connection(person.endpoint("echo"), 20)) as peer:
            peer.sendall(b"before")
            self.assertEqual(peer.recv(6, socket.MSG_WAITALL), b"before")
            self.assertFalse(probed())
            proxy.signal(signal.SIGTERM)
            began = monotonic()
            until("probes fail", probed, DRAIN_SECS / 2, [proxy])
            until("the public port is closed", lambda: is_closed(public), alive=[proxy])
            peer.sendall(b"still here")
            self.assertEqual(peer.recv(10, socket.MSG_WAITALL), b"still here")
        self.assertEqual(proxy.wait(), 0)
        self.assertLess(monotonic() - began, DRAIN_SECS)
        self.assertEqual(answers, {200})
        last = gateway.operator("audit", "show", "--event", "session.end", "--last", "1", "--json")
        self.assertEqual(last.json[0]["reason"], "closed")
        self.assertTrue(gateway.child(AUTHORITY).is_alive)
