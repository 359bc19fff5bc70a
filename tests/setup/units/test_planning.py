"""What no unit is made of: programs and configurations that a service could not run."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from attrs import evolve

from svc.config import rules
from svc.errors import ConfigError, SvcError
from svc.setup.units.install import install
from svc.setup.units.machine import ServiceRefused
from svc.setup.units.planning import WantedUnit, installed_account, plan_unit, state_directory
from svc.setup.units.program import (
    ONE_FILE,
    Program,
    UnfitPlaces,
    check_program,
    lies_in,
    places,
    this_program,
)
from tests.setup.units.pieces import ACCOUNT, PLACES, PROGRAM, SERVERS, UnitCase, text_for
from tests.support.proof import proves


class ProgramTests(UnitCase):
    """The program that a unit runs."""

    @proves("U-PHA-07")
    def test_home_or_temporary(self) -> None:
        """A server's unit runs no program of which any part lies in a home or a temporary place."""
        found = places({})
        for place in ("/tmp/svc", "/home/u/svc", "/run/user/7/x", "/var/tmp/a/b", "/dev/shm/svc"):
            for parts in ((place, "/usr/bin/python3"), ("/opt/svc/bin/svc", place)):
                for role in SERVERS:
                    refusal = self.assertRaises(
                        ServiceRefused, check_program, Program(parts[:1], parts), role, found
                    )
                    self.assertEqual(refusal.reason, "program_place")
                    self.assertIn(place, refusal.text)
        check_program(Program(("/opt/svc/bin/svc",), ("/opt/svc/bin/svc",)), "authority", found)

    def test_executables_of_a_release(self) -> None:
        """Of one that unpacked itself in a home the file counts, and the Python that it needs."""
        made = self.root / "home/u/.cache/svc/made"
        (made / "bin").mkdir(parents=True)
        (made / ONE_FILE).touch()
        self.patch(sys, "argv", ["/usr/local/bin/svc"])
        self.patch(sys, "prefix", str(made))
        python = os.path.realpath(sys.executable)
        (made / "bin/python3").symlink_to(python)
        self.patch(sys, "executable", str(made / "bin/python3"))
        for library, parts in (
            ("/usr/lib/os.py", (python, "/usr/lib/os.py")),
            (f"{made}/os.py", ()),
        ):
            self.patch(os, "__file__", library)
            program = this_program()
            self.assertEqual(program.words, ("/usr/local/bin/svc",))
            self.assertEqual(program.parts, ("/usr/local/bin/svc", *parts))
            self.assertTrue(program.unpacks)
            (made / "bin/python3").unlink()
            (made / "bin/python3").touch()  # that of the static file lies there itself

    @proves("X-58")
    def test_client_at_home(self) -> None:
        """A client's program may lie in a home, never in a temporary directory."""
        found, at_home = places({}), Program(("/home/u/svc",), ("/home/u/svc",))
        check_program(at_home, "client", found)
        done = install(self.machine, self.wanted("client"), at_home, PLACES)
        self.assertIn("\nExecStart=/home/u/svc --config ", done.path.read_text())
        self.assertRaises(
            ServiceRefused, check_program, Program(("/tmp/svc",), ("/tmp/svc",)), "client", found
        )

    def test_link_into_a_home(self) -> None:
        """A link does not hide where the program lies."""
        home = self.root / "home"
        (home / "u").mkdir(parents=True)
        (home / "u/svc").touch()
        (self.root / "opt").symlink_to(home / "u")
        self.assertEqual(lies_in(str(self.root / "opt/svc"), (str(home),)), str(home))
        self.assertIsNone(lies_in("/homestead/svc", ("/home",)))
        linked = str(self.root / "opt/svc")
        found = UnfitPlaces(homes=(str(home),), temporary=(), hidden=())
        refusal = self.assertRaises(
            ServiceRefused, check_program, Program((linked,), (linked,)), "proxy", found
        )
        self.assertIn(f"{linked} (a link to {home / 'u/svc'}): lies in", refusal.text)

    def test_this_program(self) -> None:
        """The program is named by absolute paths, and by all that it is made of."""
        program = this_program()
        self.assertTrue(all(os.path.isabs(part) for part in program.parts))
        self.assertTrue(os.access(program.words[0], os.X_OK))


class StateDirectoryTests(UnitCase):
    """Which state directory a unit gives."""

    @proves("G-OPEN-70", "X-60", "U-NOTE-26")
    def test_matrix(self) -> None:
        """A role has its own directory below the shared one, or one below that, and no other."""
        for given, expected in (
            ("/var/lib/svc/proxy", "svc/proxy"),
            ("/var/lib/svc/proxy/", "svc/proxy"),
            ("/var/lib/svc/proxy/a/b", "svc/proxy/a/b"),
            ("/var/lib/svc/connector/../proxy", "svc/proxy"),
        ):
            self.assertEqual(state_directory("proxy", given), expected)
        for given in (
            "/var/lib/svc",
            "/var/lib/svc/",
            "/var/lib/svc/other",
            "/var/lib/svc/connector",
            "/var/lib/svc/proxy-2",
            "/var/lib/svc/proxy/../authority",
            "/var/lib/svc/proxy/../..",
            "/var/lib/other/proxy",
            "/srv/svc/proxy",
            "/opt/x",
            "/var/lib/svc/../x",
            "/",
        ):
            refusal = self.assertRaises(ConfigError, state_directory, "proxy", given)
            self.assertEqual(refusal.where, "state_dir")
            self.assertIn("/var/lib/svc/proxy", refusal.text)

    @proves("U-NOTE-26")
    def test_link_out(self) -> None:
        """A directory below the role's own that leads elsewhere is refused, by the command too."""
        shared, elsewhere = self.root / "svc", self.root / "elsewhere"
        (shared / "proxy" / "inside").mkdir(parents=True)
        elsewhere.mkdir()
        (shared / "proxy" / "out").symlink_to(elsewhere)
        self.patch(rules, "SHARED", str(shared))
        text = text_for("proxy")
        for name, is_good in (("inside", True), ("out", False), ("out/deeper", False)):
            path = self.root / f"{name.replace('/', '-')}.toml"
            path.write_text(text.replace("/var/lib/svc/proxy", str(shared / "proxy" / name)))
            wanted = WantedUnit("proxy", str(path), account=ACCOUNT)
            self.assertEqual(rules.is_own_directory("proxy", str(shared / "proxy" / name)), is_good)
            if not is_good:
                refusal = self.assertRaises(
                    ConfigError, install, self.machine, wanted, PROGRAM, PLACES
                )
                self.assertEqual(refusal.where, "state_dir")

    def test_configuration(self) -> None:
        """The configuration's state directory is the unit's, or nothing is planned."""
        below = text_for("proxy").replace("svc/proxy", "svc/proxy/blue")
        self.assertEqual(self.planned("proxy", below).state_directory, "svc/proxy/blue")
        other = text_for("proxy").replace("svc/proxy", "svc/authority")
        self.assertRaises(ConfigError, self.planned, "proxy", other)


class ConfigurationTests(UnitCase):
    """The role's configuration, read as the role reads it."""

    def test_malformed(self) -> None:
        """What ends the start of the role is told before anything is installed."""
        for role in SERVERS:
            text = f"{text_for(role)}limits.drain_secs = -1\n"
            refusal = self.assertRaises(SvcError, self.planned, role, text)
            self.assertIn("limits.drain_secs", refusal.text)

    def test_one_file(self) -> None:
        """The one file gets a cache to unpack itself into; a person's own manager needs none."""
        program = evolve(PROGRAM, unpacks=True)
        for role, name in (("proxy", "svc-proxy"), ("client", f"svc-client@{ACCOUNT}")):
            wanted = WantedUnit(role, self.config(role))
            unit = plan_unit(wanted, ACCOUNT, program, PLACES)
            self.assertIn(f"\nCacheDirectory={name}\nCacheDirectoryMode=0700\n", unit.text)
            self.assertNotIn("Cache", plan_unit(wanted, ACCOUNT, PROGRAM, PLACES).text)
        own = plan_unit(evolve(wanted, is_own=True), "", program, PLACES)
        self.assertNotIn("Cache", own.text)

    def test_hidden_files(self) -> None:
        """A file that the unit hides from the role is named by its key; the unit hides homes."""
        for line, key in (
            ('join.token_file="/home/u/token"\njoin.ca_pin="' + "ab" * 32 + '"\n', "join.token"),
            ('oidc.ca_file="/home/u/ca.pem"\n', "oidc.ca_file"),
        ):
            role = "proxy" if key.startswith("join") else "authority"
            refusal = self.assertRaises(ConfigError, self.planned, role, text_for(role) + line)
            self.assertIn(key, refusal.text)
            self.assertIn("/home", refusal.text)
        store = text_for("authority").replace("/var/lib/svc/authority/store", "/home/u/store")
        self.assertRaises(ConfigError, self.planned, "authority", store)

    def test_store_elsewhere(self) -> None:
        """The unit lets the role write to the directory of a store that lies elsewhere."""
        text = text_for("authority").replace("/var/lib/svc/authority/store", "/srv/store/store")
        self.assertEqual(self.planned("authority", text).writable, ("/srv/store",))

    def test_witnesses(self) -> None:
        """The unit lets the role write to its witnesses' files, and hides none of them."""
        text = text_for("authority") + "audit.witness=%s\n"
        urls = '["file:///mnt/w/heads", "file:///mnt/w/more", "https://w.example/h"]'
        self.assertEqual(self.planned("authority", text % urls).witnesses, ("/mnt/w",))
        within = '["file:///var/lib/svc/authority/heads"]'
        self.assertEqual(self.planned("authority", text % within).witnesses, ())
        hidden = text % '["file:///home/u/heads"]'
        refusal = self.assertRaises(ConfigError, self.planned, "authority", hidden)
        self.assertIn("audit.witness", refusal.text)

    def test_files_of_a_store(self) -> None:
        """Files that a database's URL names are not hidden either, nor is its socket."""
        for parameter in ("passfile=/home/u/.pgpass", "host=/home/u", "sslkey=/home/u/key"):
            lines = text_for("authority").splitlines(keepends=True)
            store = f'store_url="postgresql://db.example/svc?{parameter}"\n'
            stores = 'plugins.stores=["postgresql"]\n'
            text = "".join([stores, store, *(one for one in lines if "store_url" not in one)])
            refusal = self.assertRaises(ConfigError, self.planned, "authority", text)
            self.assertIn(parameter.partition("=")[0], refusal.text)

    def test_line_breaks(self) -> None:
        """A path with a line break would be another line of the unit."""
        path = self.root / "a\nUser=root"
        path.write_text(text_for("proxy"))
        wanted = WantedUnit("proxy", str(path))
        refusal = self.assertRaises(ConfigError, plan_unit, wanted, ACCOUNT, PROGRAM, PLACES)
        self.assertIn("control characters", refusal.text)

    def test_environment_is_not_read(self) -> None:
        """Variables of the shell that installs count for nothing: the unit's process has none."""
        self.patch(os, "environ", {**os.environ, "SVC_STATE_DIR": '"/var/lib/svc/authority"'})
        self.assertEqual(self.planned("proxy").state_directory, "svc/proxy")


class AccountTests(UnitCase):
    """Who runs a unit."""

    def test_usual_given_installed(self) -> None:
        """As given; as the installed unit says; or one of the role's own; never root."""
        units = self.root / "units"
        units.mkdir()
        usual = WantedUnit("proxy", self.config("proxy"))
        self.assertEqual(usual.account_in(units), "svc-proxy")
        old = units / "svc-proxy.service"
        for user, account in (("svc", "svc"), ("root", "svc-proxy"), ("", "svc-proxy")):
            old.write_text(f"[Service]\nUser={user}\nStateDirectory=svc\n")
            self.assertEqual(usual.account_in(units), account)
        self.assertEqual(evolve(usual, account="other").account_in(units), "other")
        self.assertEqual(installed_account(units / "none"), "")

    def test_client(self) -> None:
        """A client is run by whoever owns its configuration; root's needs a name."""
        wanted = WantedUnit("client", self.config("client"))
        if os.stat(wanted.config).st_uid == 0:
            refusal = self.assertRaises(ServiceRefused, wanted.account_in, Path("/nowhere"))
            self.assertIn("--account", refusal.text)
            os.chown(wanted.config, pwd.getpwnam(ACCOUNT).pw_uid, -1)
            self.assertEqual(wanted.account_in(Path("/nowhere")), ACCOUNT)
        self.assertEqual(evolve(wanted, account="ada").account_in(Path("/nowhere")), "ada")
