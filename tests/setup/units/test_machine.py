"""Where units can be installed, and by whom."""

from __future__ import annotations

import os
import pwd
from unittest import SkipTest

from attrs import evolve

from svc.errors import Fault
from svc.setup.units.machine import ServiceRefused, account_named, acting_as, run_systemctl
from tests.setup.units.pieces import ACCOUNT, SERVERS, UnitCase
from tests.support.proof import proves

ROLES = (*SERVERS, "client")


class MachineTests(UnitCase):
    """Refused before anything is read."""

    def refused(self, role: str = "proxy", is_own: bool = False, **changes: object) -> str:
        machine = evolve(self.machine, **changes)  # type: ignore[arg-type]
        refusal = self.assertRaises(ServiceRefused, machine.check, role, is_own)
        return f"{refusal.reason}: {refusal.text}"

    def test_good(self) -> None:
        """Root may, on Linux with systemd; a person may for the own session."""
        for role in ROLES:
            self.machine.check(role, False)
        evolve(self.machine, uid=1000).check("client", True)

    @proves("G-OPEN-82")
    def test_platform(self) -> None:
        """On another platform it is refused plainly, for every role."""
        for platform in ("darwin", "win32", "freebsd14"):
            for role in ROLES:
                self.assertRegex(self.refused(role, platform=platform), r"^platform: .*supervisor")
        self.assertEqual(self.systemctl.calls, [])

    @proves("U-PHA-14")
    def test_container(self) -> None:
        """In a container the advice is to replace the image and to keep what belongs to it."""
        for mark in (".dockerenv", "run/.containerenv", "run/systemd/container"):
            path = self.root / mark
            path.touch()
            for role in ROLES:
                said = self.refused(role)
                for word in ("in_container", "mounts", "volumes", "account", "store_url"):
                    self.assertIn(word, said)
            path.unlink()
        self.assertIn("container", self.refused(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}))
        (self.root / "proc/1").mkdir(parents=True)
        (self.root / "proc/1/environ").write_bytes(b"HOME=/\0container=lxc\0")
        self.assertIn("container", self.refused())
        (self.root / "proc/1/environ").write_bytes(b"HOME=/\0MY_container=lxc\0")
        self.machine.check("proxy", False)

    @proves("U-PHA-09")
    def test_root(self) -> None:
        """Units of the system are root's to change; a client is told of the other way."""
        for role in ROLES:
            said = self.refused(role, uid=1000)
            self.assertIn("not_root: only root", said)
            self.assertEqual("--user" in said, role == "client")
        self.assertIn("is_root", self.refused("client", is_own=True))

    def test_without_systemd(self) -> None:
        """Where systemd does not run there is nothing that would start a unit."""
        (self.root / "run/systemd/system").rmdir()
        self.assertIn("no_systemd", self.refused())

    def test_own_units(self) -> None:
        """A person's own units are where systemd looks for them."""
        for environ, expected in (
            ({"HOME": "/home/ada"}, "/home/ada/.config/systemd/user"),
            ({"HOME": "/home/ada", "XDG_CONFIG_HOME": "/cfg"}, "/cfg/systemd/user"),
        ):
            machine = evolve(self.machine, environ=environ)
            self.assertEqual(str(machine.units(True)), expected)


class AccountTests(UnitCase):
    """The account of a unit."""

    def test_missing(self) -> None:
        """One that does not exist is refused with the command that makes it; so is root."""
        refusal = self.assertRaises(ServiceRefused, account_named, "svc-nobody-has-it", "proxy")
        self.assertIn("useradd --system", refusal.text)
        self.assertRaises(ServiceRefused, account_named, "root", "proxy")
        self.assertEqual(account_named(ACCOUNT, "proxy").pw_name, ACCOUNT)

    def test_acting(self) -> None:
        """Root reads as the account, and is root again afterwards, also after a failure."""
        if os.geteuid() != 0:
            raise SkipTest("only root can act as another")
        before = os.geteuid(), os.getegid(), os.getgroups()
        account = pwd.getpwnam(ACCOUNT)

        def failing() -> None:
            with acting_as(account):
                self.assertEqual((os.geteuid(), os.getegid()), (account.pw_uid, account.pw_gid))
                raise KeyError

        self.assertRaises(KeyError, failing)
        self.assertEqual((os.geteuid(), os.getegid(), os.getgroups()), before)


class SystemctlTests(UnitCase):
    """The program that speaks to the service manager."""

    def test_missing(self) -> None:
        """A machine without it is told so."""
        self.patch(os, "environ", {**os.environ, "PATH": str(self.root)})
        refusal = self.assertRaises(ServiceRefused, run_systemctl, ["daemon-reload"])
        self.assertIn("systemctl daemon-reload: cannot be run", refusal.text)
        self.assertEqual(refusal.fault, Fault.UNAVAILABLE)

    def test_failed(self) -> None:
        """What it says is told, with its status, and no terminal obeys it."""
        program = self.root / "systemctl"
        program.write_text("#!/bin/sh\nprintf 'no \\033[2Jbus\\n' >&2\nexit 3\n")
        program.chmod(0o755)
        self.patch(os, "environ", {**os.environ, "PATH": f"{self.root}:/usr/bin:/bin"})
        refusal = self.assertRaises(ServiceRefused, run_systemctl, ["daemon-reload"])
        self.assertIn("status 3: no ", refusal.text)
        self.assertNotIn("\033", refusal.text)
