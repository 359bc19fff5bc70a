"""A gateway that an earlier, unreleased candidate made: refused everywhere, and left as it is."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.processes import Ran, run, svc_command
from svc.testing.gateway.settings import ALL, AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.pki.candidate import make_identity_old, make_keys_old

RUN_BY = "make fault"

TARGET = GatewayTarget("echo", "127.0.0.1:9")
SAID = (
    ": was made by an earlier candidate of svc, whose certificates contain private extensions",
    "never released",
    "create the gateway again with `svc init`",
    "nodes then join it with an empty state_dir, people with `svc join`",
)


def content(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and digest of everything in a directory."""
    found = {}
    for place, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(place, name)
            digest = sha256(path.read_bytes()).digest() if path.is_file() else b""
            found[str(path)] = path.lstat().st_mode, digest
    return found


class OldGatewayTests(SynchronousTestCase):
    """Certificates are put into the old form where they lie; nothing else of a gateway changed."""

    def refused(self, ran: Ran, place: Path, status: int = 1) -> None:
        """One line says what it is, where, and what to do."""
        self.assertEqual(ran.status, status, ran)
        self.assertEqual(ran.stdout, "")
        self.assertNotIn("Traceback", ran.stderr)
        (line,) = [each for each in ran.stderr.splitlines() if "candidate" in each]
        for words in (str(place), *SAID):
            self.assertIn(words, line)

    def run_role(self, gateway: Gateway, role: str) -> Ran:
        """Start a role, which must end by itself."""
        config = str(gateway.files.config(role))
        return run(svc_command("--config", config, role), gateway.directory)

    def test_four_processes(self) -> None:
        """Authority, Proxy, Connector and a person's commands say it, and nothing is changed."""
        gateway = make_gateway([TARGET])
        self.addCleanup(gateway.end)
        person = gateway.add_person("ada", "ops")
        for role in (CONNECTOR, PROXY, AUTHORITY):
            gateway.child(role).stop()
        keys = gateway.files.state(AUTHORITY) / "keys"
        places = [gateway.files.state(role) for role in (AUTHORITY, PROXY, CONNECTOR)]
        for state in (*places, person.directory):
            make_identity_old(state, keys)
        make_keys_old(keys)
        before = content(gateway.directory)
        self.refused(self.run_role(gateway, AUTHORITY), keys / "transport.pem")
        for role in (PROXY, CONNECTOR):
            identity = gateway.files.state(role) / "identity"
            self.refused(self.run_role(gateway, role), identity)
        for words in (
            ["up"],
            ["status"],
            ["resources", "list"],
            ["proxy-ssh", "echo"],
            ["why", "a" * 32],
        ):
            self.refused(person.svc(*words), person.directory / "identity")
        config = str(gateway.files.config(AUTHORITY))
        for words in (["keys", "renew", "all"], ["keys", "renew", "grant"]):
            ran = run(svc_command("--config", config, "authority", *words), gateway.directory)
            self.refused(ran, keys / "transport.pem")
        self.assertEqual(content(gateway.directory), before)

    def test_one_process(self) -> None:
        """So does svc all."""
        gateway = make_gateway([TARGET], layout=ALL)
        self.addCleanup(gateway.end)
        gateway.child(ALL).stop()
        keys = gateway.files.state(AUTHORITY) / "keys"
        for role in (AUTHORITY, PROXY, CONNECTOR):
            make_identity_old(gateway.files.state(role), keys)
        make_keys_old(keys)
        before = content(gateway.directory)
        self.refused(self.run_role(gateway, ALL), keys / "transport.pem")
        self.assertEqual(content(gateway.directory), before)
