"""The units, judged by systemd's own programs: no service manager has to run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from attrs import evolve

from svc.setup.units.install import install, uninstall
from svc.setup.units.machine import ServiceRefused
from svc.setup.units.program import Program
from tests.setup.units.pieces import PLACES, SERVERS, UnitCase
from tests.support.proof import proves
from tests.support.tools import stock_tool

PROGRAM = Program((sys.executable,), ())
"""systemd wants the program to be there."""

EXPOSURE = 2.5
"""Of 10, by `systemd-analyze security`; a service without hardening has 9.6."""


class SystemdTests(UnitCase):
    """Units in a root of their own."""

    def offline(self, words: Sequence[str]) -> str:
        """The stock systemctl, at that root; without a manager there is nothing to reload."""
        self.calls.append(list(words))
        if "daemon-reload" in words:
            return ""
        program = stock_tool("systemctl")
        command = [program, f"--root={self.root}", *(each for each in words if each != "--user")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise ServiceRefused(done.stderr)
        return done.stdout

    def setUp(self) -> None:
        super().setUp()
        self.calls: list[list[str]] = []
        self.machine = evolve(self.machine, systemctl=self.offline)

    def test_verify(self) -> None:
        """`systemd-analyze verify` has nothing to say about any unit, and few things are open."""
        analyze = stock_tool("systemd-analyze")
        for role in (*SERVERS, "client"):
            unit = install(self.machine, self.wanted(role), PROGRAM, PLACES)
            command = [analyze, "--man=no", "verify", str(unit.path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            said = [line for line in done.stderr.splitlines() if f"svc-{role}" in line]
            self.assertEqual((done.returncode, said), (0, []), role)
            if role != "client":
                self.check_exposure(analyze, str(unit.path))

    def check_exposure(self, analyze: str, path: str) -> None:
        """What is left open counts less than the limit."""
        limit = f"--threshold={EXPOSURE * 10:.0f}"
        command = [analyze, "--no-pager", "--offline=true", limit, "security", path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_verify_person(self) -> None:
        """Nor about a person's own unit."""
        analyze = stock_tool("systemd-analyze")
        self.machine = evolve(self.machine, uid=1000, environ={"HOME": str(self.root / "ada")})
        wanted = self.wanted("client", account="", is_own=True)
        unit = install(evolve(self.machine, systemctl=lambda _: ""), wanted, PROGRAM, PLACES)
        command = [analyze, "--man=no", "--user", "verify", str(unit.path)]
        environ = {"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(self.root)}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=environ
        )
        said = [line for line in done.stderr.splitlines() if "svc-client" in line]
        self.assertEqual(said, [])

    @proves("U-PHA-10")
    def test_enabled(self) -> None:
        """The stock systemctl says that each unit is enabled, and disables it again."""
        for role in (*SERVERS, "client"):
            unit = install(self.machine, self.wanted(role), PROGRAM, PLACES)
            self.assertIn(["daemon-reload"], self.calls)
            self.assertEqual(self.offline(["is-enabled", unit.unit.name]).strip(), "enabled")
            self.assertIn(f" --config {unit.unit.config} ", unit.unit.text)
            uninstall(self.machine, self.wanted(role))
            links = self.root.rglob("*.wants/*")
            self.assertEqual(list(links), [])
