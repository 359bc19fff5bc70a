"""A unit is written and enabled, or nothing is changed; nothing is started."""

from __future__ import annotations

import os
import pwd
from unittest import SkipTest

from attrs import evolve

from svc.errors import ConfigError, SvcError
from svc.setup.units.install import InstalledUnit, install, planned, uninstall
from svc.setup.units.machine import ServiceRefused
from svc.setup.units.planning import WantedUnit
from svc.setup.units.program import Program
from tests.setup.units.pieces import (
    ACCOUNT,
    PLACES,
    PROGRAM,
    SERVERS,
    RecordedSystemctl,
    UnitCase,
    text_for,
)
from tests.support.proof import proves

OLD = "[Service]\nUser=daemon\nStateDirectory=svc\nExecStart=/old/svc --config /old.toml proxy\n"
UNIT = "etc/systemd/system/svc-proxy.service"


class InstallTests(UnitCase):
    """Into a root of its own, with a systemctl that is recorded."""

    def install(self, wanted: WantedUnit) -> InstalledUnit:
        return install(self.machine, wanted, PROGRAM, PLACES)

    @proves("G-CLI-17", "U-PHA-11", "X-57")
    def test_written_and_enabled(self) -> None:
        """The unit is written, the manager reloaded and the unit enabled; nothing is started."""
        for role in SERVERS:
            self.systemctl.calls.clear()
            done = self.install(self.wanted(role))
            name = f"svc-{role}.service"
            self.assertEqual(done.path, self.root / "etc/systemd/system" / name)
            self.assertEqual(done.path.read_text(), done.unit.text)
            self.assertEqual(done.path.stat().st_mode & 0o777, 0o644)
            self.assertEqual(self.systemctl.calls, [["daemon-reload"], ["enable", name]])

    @proves("U-PHA-12")
    def test_twice_over_an_old_unit(self) -> None:
        """Over an old unit it changes that file alone and keeps its account; again, nothing."""
        for name in (UNIT, "var/lib/svc/proxy/identity/leaf.pem"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(OLD)
        wanted = self.wanted("proxy", account="")
        before = self.tree()
        self.assertTrue(self.install(wanted).changed)
        first = self.tree()
        self.assertEqual({name for name in first if first[name] != before.get(name)}, {UNIT})
        self.assertIn(f"User={ACCOUNT}\n", first[UNIT][0].decode())
        self.assertFalse(self.install(wanted).changed)
        self.assertEqual(self.tree(), first)

    def test_nothing_half_installed(self) -> None:
        """Where the service manager fails, the file is as it was before: old, or not there."""
        for fails in ("daemon-reload", "enable"):
            for old in (None, OLD):
                path = self.root / UNIT
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                if old is not None:
                    path.write_text(old)
                    path.chmod(0o644)
                wanted, before = self.wanted("proxy"), self.tree()
                self.machine = evolve(self.machine, systemctl=RecordedSystemctl(fails))
                refusal = self.assertRaises(ServiceRefused, self.install, wanted)
                self.assertIn("nothing was changed", refusal.text)
                self.assertEqual(self.tree(), before, (fails, old))

    def test_refused_before_anything_is_written(self) -> None:
        """A refused configuration, program or machine leaves no file and calls no systemctl."""
        bad = self.wanted("proxy", text_for("proxy").replace("svc/proxy", "svc/authority"))
        before = self.tree()
        self.assertRaises(ConfigError, self.install, bad)
        good = self.wanted("proxy")
        before = self.tree()
        at_home = evolve(PROGRAM, parts=("/home/u/bin/svc",))
        self.assertRaises(SvcError, install, self.machine, good, at_home, PLACES)
        self.machine = evolve(self.machine, uid=1000)
        self.assertRaises(SvcError, self.install, good)
        self.assertEqual((self.tree(), self.systemctl.calls), (before, []))

    def test_account_cannot_read(self) -> None:
        """Root reads the configuration as the account does; what that cannot read is told."""
        if os.geteuid() != 0:
            raise SkipTest("only root can act as another")
        wanted = self.wanted("proxy")
        os.chmod(wanted.config, 0o600)
        refusal = self.assertRaises(ConfigError, self.install, wanted)
        self.assertIn(f"chgrp {ACCOUNT}", refusal.text)
        os.chmod(wanted.config, 0o644)
        os.chmod(self.root / "etc/svc", 0o700)
        refusal = self.assertRaises(ConfigError, self.install, wanted)
        self.assertIn("chmod a+x", refusal.text)

    def test_account_cannot_run_it(self) -> None:
        """A program that the account cannot read is told, and nothing is written."""
        if os.geteuid() != 0:
            raise SkipTest("only root can act as another")
        program = self.root / "opt/svc/bin/svc"
        program.parent.mkdir(parents=True)
        program.touch(0o755)
        program.parent.chmod(0o700)
        wanted, private = self.wanted("proxy"), Program((str(program),), (str(program),))
        refusal = self.assertRaises(ServiceRefused, install, self.machine, wanted, private, PLACES)
        self.assertEqual(refusal.reason, "program_place")
        self.assertIn(f"{program}: {ACCOUNT} cannot read it", refusal.text)

    def test_directories_of_the_account(self) -> None:
        """A directory that the role writes to has to be there, and the account's to write to."""
        if os.geteuid() != 0:
            raise SkipTest("only root can act as another")
        store = self.root / "store"
        text = text_for("authority").replace("/var/lib/svc/authority/store", f"{store}/store")
        wanted = self.wanted("authority", text)
        self.assertIn("install -d -o", self.assertRaises(ConfigError, self.install, wanted).text)
        store.mkdir()
        self.assertIn("cannot write", self.assertRaises(ConfigError, self.install, wanted).text)
        os.chown(store, pwd.getpwnam(ACCOUNT).pw_uid, -1)
        self.assertIn(f"ReadWritePaths={store}\n", self.install(wanted).unit.text)

    def test_masked(self) -> None:
        """A unit that somebody masked stays masked."""
        path = self.root / UNIT
        path.parent.mkdir(parents=True)
        path.symlink_to("/dev/null")
        refusal = self.assertRaises(ServiceRefused, self.install, self.wanted("proxy"))
        self.assertIn("unmask", refusal.text)
        self.assertTrue(path.is_symlink())

    def test_person(self) -> None:
        """A person's own unit is written below the home, and told to the person's own manager."""
        home = self.root / "people/ada"
        self.machine = evolve(self.machine, uid=1000, environ={"HOME": str(home)})
        done = self.install(self.wanted("client", account="", is_own=True))
        self.assertEqual(done.path, home / ".config/systemd/user/svc-client.service")
        self.assertEqual(
            self.systemctl.calls,
            [["--user", "daemon-reload"], ["--user", "enable", "svc-client.service"]],
        )

    def test_shown(self) -> None:
        """What is shown is what would be written, and nothing is written."""
        wanted = self.wanted("proxy")
        before = self.tree()
        shown = planned(self.machine, wanted, PROGRAM, PLACES)
        self.assertEqual((self.tree(), self.systemctl.calls), (before, []))
        self.assertEqual(self.install(wanted).unit, shown)


class UninstallTests(UnitCase):
    """Taken away again."""

    def test_removed(self) -> None:
        """The unit is disabled, its file removed and the manager reloaded; nothing is stopped."""
        wanted = self.wanted("proxy")
        install(self.machine, wanted, PROGRAM, PLACES)
        self.systemctl.calls.clear()
        self.assertEqual(uninstall(self.machine, wanted), self.root / UNIT)
        self.assertFalse((self.root / UNIT).exists())
        self.assertEqual(
            self.systemctl.calls, [["disable", "svc-proxy.service"], ["daemon-reload"]]
        )
        self.assertIsNone(uninstall(self.machine, wanted))

    def test_removed_unheard(self) -> None:
        """Where only the last step fails, what was done is told, and what is left to do."""
        wanted = self.wanted("proxy")
        install(self.machine, wanted, PROGRAM, PLACES)
        self.machine = evolve(self.machine, systemctl=RecordedSystemctl("daemon-reload"))
        refusal = self.assertRaises(ServiceRefused, uninstall, self.machine, wanted)
        self.assertFalse((self.root / UNIT).exists())
        self.assertIn(f"{UNIT}: removed, but", refusal.text)
        self.assertIn("run: systemctl daemon-reload", refusal.text)

    def test_stays_where_it_cannot_be_disabled(self) -> None:
        """Where the service manager refuses, the unit stays."""
        wanted = self.wanted("proxy")
        install(self.machine, wanted, PROGRAM, PLACES)
        self.machine = evolve(self.machine, systemctl=RecordedSystemctl("disable"))
        self.assertRaises(ServiceRefused, uninstall, self.machine, wanted)
        self.assertTrue((self.root / UNIT).exists())
