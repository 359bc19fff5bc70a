"""A new Connector takes the place and the name of a revoked one, as the how-to says."""

from __future__ import annotations

import shutil
import socket

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, GatewayTarget
from tests.support.proof import proves
from tests.system.world import around

REFUSED = "registration refused"


class ReplacingTests(SynchronousTestCase):
    """The how-to's commands, in its order."""

    @proves("G-LOG-08")
    def test_replaced(self) -> None:
        """It is refused with the owner named, given all resources at once, and serves them."""
        port = around().ports["echo"]
        targets = [
            GatewayTarget("echo", f"127.0.0.1:{port}"),
            GatewayTarget("mirror", f"127.0.0.1:{port}"),
        ]
        gateway = make_gateway(targets)
        self.addCleanup(gateway.end)
        person = gateway.add_person("ada", "ops")
        person.up("echo", "mirror")
        [old] = [one for one in self.nodes(gateway) if one["name"] == CONNECTOR]
        gateway.child(CONNECTOR).kill()
        gateway.operator("nodes", "revoke", CONNECTOR, "--reason", "host lost")
        listed = gateway.operator("resources", "list").stdout
        self.assertEqual(listed.count(f"{CONNECTOR} (revoked)"), 2)
        self.assertIn("revoked (has 2 resources)", gateway.operator("nodes", "list").stdout)

        shutil.rmtree(gateway.files.state(CONNECTOR))
        gateway.files.state(CONNECTOR).mkdir(mode=0o700)
        gateway.put_token(CONNECTOR, CONNECTOR)
        gateway.start(CONNECTOR)
        authority = gateway.child(AUTHORITY)

        def refused() -> dict[str, object] | None:
            found = authority.events(REFUSED)
            wanted = [one for one in found if one["reason"] == "resource_owned_by_peer"]
            return wanted[-1] if wanted else None

        said = until("it is refused", refused, alive=[authority])
        assert said is not None
        new = said["node"]
        owner = f"{CONNECTOR} ({old['id']}, revoked)"
        self.assertEqual(said["owned"], [f"echo by {owner}", f"mirror by {owner}"])
        self.assertEqual(said["do"], f"svc authority resources move --from {old['id']} --to {new}")
        until(
            "the Connector names the resources",
            lambda: "echo, mirror are assigned to another node" in gateway.child(CONNECTOR).text(),
        )
        self.assertNotIn(old["id"], gateway.child(CONNECTOR).text())

        moved = gateway.operator("resources", "move", "--from", CONNECTOR, "--to", CONNECTOR)
        self.assertIn(f"moved echo, mirror from {CONNECTOR} ({old['id']}, revoked)", moved.stdout)
        gateway.await_tunnels(1)
        for name in ("echo", "mirror"):
            with socket.create_connection(person.endpoint(name), 20) as end:
                end.sendall(b"again")
                self.assertEqual(end.recv(5, socket.MSG_WAITALL), b"again")
        states = {one["id"]: one["state"] for one in self.resources(gateway)}
        self.assertEqual(states, {"echo": "served", "mirror": "served"})

    def nodes(self, gateway: Gateway) -> list[dict[str, str]]:
        """The registry."""
        found: list[dict[str, str]] = gateway.operator("nodes", "list", "--json").json
        return found

    def resources(self, gateway: Gateway) -> list[dict[str, str]]:
        """The catalog."""
        found: list[dict[str, str]] = gateway.operator("resources", "list", "--json").json
        return found
