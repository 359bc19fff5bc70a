"""The unit of the helper that binds ports below 1024: with a client's unit, and alone."""

from __future__ import annotations

import os
from unittest import SkipTest

from attrs import evolve

from svc.setup.units.client_net import (
    UNIT,
    install_client_net,
    plan_client_net,
    uninstall_client_net,
)
from svc.setup.units.install import install, uninstall
from svc.setup.units.machine import ServiceRefused
from svc.setup.units.program import Program
from tests.setup.units.pieces import ACCOUNT, PLACES, PROGRAM, RecordedSystemctl, UnitCase
from tests.support.proof import proves

PATH = f"etc/systemd/system/{UNIT}"
CLIENT = f"etc/systemd/system/svc-client@{ACCOUNT}.service"
AT_HOME = Program(("/home/u/svc",), ("/home/u/svc",))


class ClientNetTests(UnitCase):
    """Into a root of its own, with a systemctl that is recorded."""

    @proves("U-PHA-13")
    def test_with_a_client(self) -> None:
        """A client's unit brings it; it alone has the privilege, and the client runs as a person.

        Nothing is started, and a second time nothing is changed.
        """
        done = install(self.machine, self.wanted("client"), PROGRAM, PLACES)
        assert done.client_net is not None
        self.assertEqual((done.client_net.path, done.client_net.changed), (self.root / PATH, True))
        self.assertEqual(
            [words for words in self.systemctl.calls if words != ["daemon-reload"]],
            [["enable", f"svc-client@{ACCOUNT}.service"], ["enable", UNIT]],
        )
        lines = (self.root / PATH).read_text().splitlines()
        self.assertIn("ExecStart=/opt/svc/bin/svc client-net", lines)
        self.assertIn("AmbientCapabilities=CAP_NET_BIND_SERVICE", lines)
        self.assertIn("CapabilityBoundingSet=CAP_NET_BIND_SERVICE", lines)
        client = (self.root / CLIENT).read_text().splitlines()
        self.assertIn("CapabilityBoundingSet=", client)
        self.assertFalse([line for line in client if line.startswith("Ambient")])
        self.assertIn(f"User={ACCOUNT}", client)
        self.assertIn(f"Wants=network-online.target {UNIT}", client)
        first = self.tree()
        again = install(self.machine, self.wanted("client"), PROGRAM, PLACES)
        assert again.client_net is not None
        self.assertEqual((again.changed, again.client_net.changed), (False, False))
        self.assertEqual(self.tree(), first)

    def test_confined(self) -> None:
        """It makes no socket of a network, has no account of its own and sees no home."""
        lines = plan_client_net(PROGRAM, PLACES).text.splitlines()
        for line in (
            "DynamicUser=yes",
            "PrivateNetwork=yes",
            "RestrictAddressFamilies=AF_UNIX",
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
            "ProtectHome=yes",
        ):
            self.assertIn(line, lines)
        self.assertEqual([one for one in lines if one.startswith("User=")], [])
        # In a namespace of users it would have the privilege over nobody's network.
        self.assertNotIn("PrivateUsers=yes", lines)
        self.assertFalse([one for one in lines if "Cache" in one])
        unpacks = evolve(PROGRAM, unpacks=True)
        self.assertIn("\nCacheDirectory=svc-client-net\n", plan_client_net(unpacks, PLACES).text)

    def test_program_at_home(self) -> None:
        """A person's own program gets no privilege: the client is installed without it, and why."""
        done = install(self.machine, self.wanted("client"), AT_HOME, PLACES)
        self.assertIsNone(done.client_net)
        self.assertIn("/home/u/svc: lies in the home directory /home", done.without_client_net)
        self.assertTrue((self.root / CLIENT).exists())
        self.assertFalse((self.root / PATH).exists())
        refusal = self.assertRaises(
            ServiceRefused, install_client_net, self.machine, AT_HOME, PLACES
        )
        self.assertEqual(refusal.reason, "program_place")

    def test_private_program(self) -> None:
        """A program that not everybody can read could not run, and is refused."""
        if os.geteuid() != 0:
            raise SkipTest("only root can act as another")
        program = self.root / "opt/svc"
        program.parent.mkdir()
        program.touch(0o700)
        private = Program((str(program),), (str(program),))
        refusal = self.assertRaises(
            ServiceRefused, install_client_net, self.machine, private, PLACES
        )
        self.assertIn("not everybody can read it", refusal.text)
        self.assertFalse((self.root / PATH).exists())

    def test_own_session(self) -> None:
        """A unit of a person's own session brings none: only root can give the privilege."""
        self.machine = evolve(self.machine, uid=1000, environ={"HOME": str(self.root / "ada")})
        wanted = self.wanted("client", account="", is_own=True)
        done = install(self.machine, wanted, PROGRAM, PLACES)
        self.assertEqual((done.client_net, done.without_client_net), (None, ""))
        refusal = self.assertRaises(
            ServiceRefused, install_client_net, self.machine, PROGRAM, PLACES
        )
        self.assertEqual(refusal.reason, "not_root")
        self.assertFalse((self.root / PATH).exists())

    def test_half_installed(self) -> None:
        """If it cannot be enabled, the text says that the client's unit is there."""
        self.machine = evolve(self.machine, systemctl=RecordedSystemctl(UNIT))
        refusal = self.assertRaises(
            ServiceRefused, install, self.machine, self.wanted("client"), PROGRAM, PLACES
        )
        self.assertTrue(refusal.text.startswith(f"{self.root / CLIENT}: installed; "))
        self.assertNotIn("nothing was changed", refusal.text)
        self.assertFalse((self.root / PATH).exists())

    def test_removed(self) -> None:
        """A client's unit goes without it; it is removed by its own name."""
        install(self.machine, self.wanted("client"), PROGRAM, PLACES)
        uninstall(self.machine, self.wanted("client"))
        self.assertTrue((self.root / PATH).exists())
        self.assertEqual(uninstall_client_net(self.machine), self.root / PATH)
        self.assertIsNone(uninstall_client_net(self.machine))
