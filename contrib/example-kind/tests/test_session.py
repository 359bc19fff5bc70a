"""The kind at work: a session through a gateway of real processes that has it enabled."""

from __future__ import annotations

import socket
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.settings import CONNECTOR, GatewayTarget

KINDS = ["ssh", "tcp", "vnc"]
GREETING = b"RFB 003.008\n"


def greet(listening: socket.socket) -> None:
    """Say what a VNC server says first, and say back what is answered."""
    try:
        while True:
            peer, _ = listening.accept()
            with peer:
                peer.sendall(GREETING)
                peer.sendall(peer.recv(len(GREETING)))
    except OSError:
        pass  # the test is over


class SessionTests(SynchronousTestCase):
    """Four processes, and a person with a resident."""

    def test_session(self) -> None:
        """A viewer reaches the desktop; the log tells the kind's own action."""
        desk = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(desk.close)
        Thread(target=greet, args=(desk,), daemon=True).start()
        target = GatewayTarget("desk1", f"127.0.0.1:{desk.getsockname()[1]}", "vnc")
        gateway = make_gateway([target], numbers={"plugins.kinds": KINDS})
        self.addCleanup(gateway.end)
        person = gateway.add_person("ada", "ops")
        config = person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        person.up("desk1")
        with socket.create_connection(person.endpoint("desk1"), 20) as viewer:
            self.assertEqual(viewer.recv(len(GREETING), socket.MSG_WAITALL), GREETING)
            viewer.sendall(GREETING)
            self.assertEqual(viewer.recv(len(GREETING), socket.MSG_WAITALL), GREETING)
        last = gateway.operator("audit", "show", "--last", "20", "--json").json
        [start] = [one for one in last if one["event"] == "session.start"]
        told = (start["resource_kind"], start["cedar_action"], start["request"]["resource"]["type"])
        self.assertEqual(told, ("vnc", "vncConnect", "Desktop"))
        loaded = gateway.operator("audit", "show", "--last", "100", "--json").json
        [begun] = [one for one in loaded if one["event"] == "role.start"]
        versions = {one.split()[0]: one.split()[1] for one in begun["details"]["plugins"]}
        self.assertEqual(versions["vnc"], "1.0")
        self.check_not_enabled(gateway)

    def check_not_enabled(self, gateway: Gateway) -> None:
        """Installed is not enabled: where no configuration names it, the start says so."""
        connector = gateway.child(CONNECTOR)
        connector.kill()
        gateway.configure(CONNECTOR, {"plugins.kinds": ["ssh", "tcp"]})
        gateway.start(CONNECTOR, ready=False)
        self.assertEqual(connector.wait(), 1)
        self.assertIn("connector.resources[0].kind", connector.text())
        self.assertIn("plugins.kinds", connector.text())
