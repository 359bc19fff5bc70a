"""`svc service` as a process: what a person without root, and a program in a wrong place, are told.

Nothing here may change the machine's units; the tests of ``svc.setup.units`` install, into a root
of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import run, svc_command
from tests.setup.units.pieces import text_for
from tests.support.proof import proves

RUN_BY = "make fault"

ROLES = ("authority", "proxy", "connector", "all", "client")
UNITS = Path("/etc/systemd/system")
OTHER = 54321
_AS_PERSON = f"""
import json, os, sys
import svc.cli.services, svc.compose.process, svc.setup.units.install, svc.setup.units.program
from svc.cli import main
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({OTHER}); os.setuid({OTHER})
for line in json.load(sys.stdin):
    print(main(line), flush=True)
"""


def units() -> dict[str, int]:
    """The machine's own units, and when each was changed."""
    return {str(path): path.lstat().st_mtime_ns for path in UNITS.rglob("*")}


class ServiceTests(SynchronousTestCase):
    """Real processes; no gateway."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir()
        self.before = units()
        self.addCleanup(lambda: self.assertEqual(units(), self.before))

    def config(self, role: str) -> str:
        path = self.home / f"{role}.toml"
        path.write_text(text_for(role), "utf-8")
        return str(path)

    @proves("U-PHA-09")
    def test_a_person(self) -> None:
        """Whoever is not root is refused for every role, and nothing is written."""
        lines = [["--config", self.config(role), "service", "install", role] for role in ROLES]
        asked = json.dumps(lines).encode()
        done = run([sys.executable, "-c", _AS_PERSON], self.home, stdin=asked)
        self.assertEqual(done.stdout.split(), ["1"] * len(ROLES), done.stderr)
        # In a container that is said first: nobody installs there.
        for said in done.stderr.splitlines():
            self.assertRegex(said, "only root can change|this is a container")

    @proves("G-ROLE-23", "U-PHA-15")
    def test_agent_host(self) -> None:
        """The role agent-host has no service, and the refusal says so."""
        done = run([*svc_command("service", "install", "agent-host")], self.home)
        self.assertEqual((done.status, done.stdout), (64, ""), done.stderr)
        self.assertIn("agent-host is not run as a service", done.stderr)

    @proves("U-PHA-07")
    def test_program_in_a_temporary_directory(self) -> None:
        """A program that was unpacked in /tmp makes no unit of a server."""
        base = Path(subprocess.check_output(["mktemp", "-d", "-p", "/tmp"], text=True).strip())
        self.addCleanup(subprocess.run, ["rm", "-r", str(base)], check=True)
        (base / "bin").mkdir()
        (base / "bin/python3").symlink_to(sys.executable)
        (base / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
        places = [sysconfig.get_path("purelib"), str(Path(__file__).parents[2])]
        start = f"import sys; sys.path += {places!r}; from svc.cli import main; sys.exit(main())"
        words = [str(base / "bin/python3"), "-c", start, "--config", self.config("authority")]
        done = run([*words, "service", "show", "authority"], self.home)
        self.assertEqual((done.status, done.stdout), (1, ""), done.stderr)
        self.assertIn("lies in the temporary directory /tmp", done.stderr)
