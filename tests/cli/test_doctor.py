"""``svc doctor`` at a terminal: which role, and how its report reads."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase, TestCase

from contrib.reference.json_names import unknown
from svc.cli.doctor import report_lines
from svc.client import places
from svc.config import configured
from svc.config.configured import configured_role
from svc.errors import ConfigError
from svc.model.doctor import CheckResult, CheckSeverity, DoctorReport, combined, ok
from tests.cli.authority.backups import POSTGRES, KeptPlace
from tests.cli.terminal import terminal
from tests.config.malformed import GOOD
from tests.support.proof import proves


class ReportTests(SynchronousTestCase):
    """The form for people."""

    def test_lines(self) -> None:
        """A line for each check, the hint beneath what is not well, a sum; nothing obeys it."""
        report = DoctorReport(
            version="1",
            role="proxy",
            profile=None,
            started_at=0.0,
            checks=(
                CheckResult(
                    id="store.a", severity=CheckSeverity.OK, message="fine", hint="not told"
                ),
                CheckResult(
                    id="audit.b",
                    severity=CheckSeverity.FAIL,
                    message="bad \x1b[31mname",
                    hint="mend\nit",
                ),
            ),
        )
        lines = list(report_lines(report))
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[0], "ok    store.a: fine")
        self.assertTrue(lines[1].startswith("fail  audit.b: bad "))
        self.assertNotIn("\x1b", lines[1])
        self.assertNotIn("\n", lines[2])
        self.assertEqual(lines[3], "finding: 1 ok, 0 info, 0 warn, 1 fail")

    def test_several_roles(self) -> None:
        """What differs between roles has a line for each."""
        one = combined("a.b", {"proxy": [ok("fine")], "connector": [ok("well")]})
        report = DoctorReport(version="1", role="all", profile=None, started_at=0.0, checks=(one,))
        lines = list(report_lines(report))[:3]
        self.assertEqual(lines, ["ok    a.b:", "      proxy: fine", "      connector: well"])


class RoleTests(SynchronousTestCase):
    """Which role a configuration is for."""

    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.base.mkdir(mode=0o700)

    def written(self, text: str, name: str = "svc.toml") -> str:
        """A configuration file."""
        path = self.base / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def test_name_of_the_file(self) -> None:
        """The two rooms that know what a person's file is called call it the same."""
        self.assertEqual(configured.CLIENT_FILE, places.CLIENT_FILE)

    def test_by_its_keys(self) -> None:
        """The keys that only one role requires; a store and a listener are all three."""
        served = '\n[[connector.resources]]\nid="db"\nkind="tcp"\naddress="h:1"\n'
        for text, role in (
            (GOOD["authority"], "authority"),
            (GOOD["proxy"], "proxy"),
            (GOOD["all"], "all"),
            (GOOD["connector"] + served, "connector"),
            (GOOD["connector"], "client"),
            ("", "client"),
        ):
            self.assertEqual(configured_role(self.written(text), {}), role, text)
        named = self.written(GOOD["connector"] + served, "client.toml")
        self.assertEqual(configured_role(named, {}), "client")
        store = {"SVC_STORE_URL": '"sqlite:////s.db"'}
        self.assertEqual(configured_role(self.written(GOOD["proxy"]), store), "all")
        self.assertRaises(ConfigError, configured_role, self.written("= 1"), {})

    @proves("G-OPEN-26")
    def test_refused(self) -> None:
        """A configuration that is refused is told as everywhere, with status 1."""
        path = self.written(GOOD["proxy"] + "nonsense = 1\n")
        done = terminal("--config", path, "doctor", "--json")
        self.assertEqual(done.status, 1)
        self.assertIn("nonsense", done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["result"], told["checks"], told["role"]), ("error", [], None))
        self.assertIn("nonsense", told["message"])
        self.assertEqual(list(unknown(told)), [])
        self.assertEqual(terminal("--config", path, "doctor").stdout, "")

    @proves("G-DOC-13")
    def test_a_scope_without_a_mode(self) -> None:
        """Doctor names the scope that an Authority does not start with, and what it lacks."""
        scope = '[[discovery.auto_scopes]]\nname = "lab"\nkinds = ["ssh"]\n'
        path = self.written(GOOD["authority"] + scope)
        done = terminal("--config", path, "doctor", "--json")
        self.assertEqual((done.status, json.loads(done.stdout)["result"]), (1, "error"))
        message = json.loads(done.stdout)["message"]
        self.assertIn("discovery.auto_scopes: scope lab: onward_auth is required", message)

    @proves("X-39")
    def test_a_line_that_does_not_parse(self) -> None:
        """No command repeats a line of the file that it cannot read."""
        line = 'password = "hunter2canary'
        path = self.written(f"{GOOD['proxy']}\n{line}\n")
        for words in (("doctor",), ("doctor", "--json"), ("reload", "--role", "proxy")):
            done = terminal("--config", path, *words)
            self.assertNotEqual(done.status, 0, words)
            self.assertIn("is not valid TOML", done.stderr)
            self.assertNotIn("hunter2canary", done.stdout + done.stderr)

    @proves("G-OPEN-29")
    def test_every_role_of_all(self) -> None:
        """Of ``svc all`` each of the three is checked, and a check of several has one result."""
        text = GOOD["all"].replace("/tmp/none", str(self.base / "none"))
        path = self.written(f'{text}endpoints.authority=["127.0.0.1:9"]\n')
        done = terminal("--config", path, "doctor", "--json")
        self.assertEqual(done.status, 2, done.stderr)
        found = json.loads(done.stdout)
        checks = {one["id"]: one for one in found["checks"]}
        self.assertEqual(len(checks), len(found["checks"]))
        self.assertEqual(found["role"], "all")
        for role in ("authority", "proxy", "connector"):
            self.assertIn(f"{role}: ", checks["identity.state_directory"]["message"])
        self.assertFalse((self.base / "none").exists())
        proxy = terminal("--config", path, "doctor", "--json", "--role", "proxy")
        self.assertNotIn("store.reachable", proxy.stdout)

    def test_needs_a_configuration(self) -> None:
        """A node is checked by its file; without one only a person can be."""
        done = terminal("doctor", "--role", "proxy")
        self.assertEqual((done.status, done.stdout), (64, ""))


class PostgresTests(TestCase):
    """A store in PostgreSQL, which only a server reads."""

    async def test_look(self) -> None:
        """It is read as one in a file is; its URL is told without its parameters."""
        place = KeptPlace(self, POSTGRES)
        await place.written()
        place.config.write_text(f"{place.config.read_text()}kinds = []\n")
        words = ("--config", str(place.config), "doctor", "--role", "authority", "--json")
        found = json.loads(terminal(*words).stdout)
        checks = {one["id"]: one for one in found["checks"]}
        for name in ("store.reachable", "store.migrations", "audit.queue", "audit.log"):
            self.assertEqual(checks[name]["severity"], "ok", checks[name])
        self.assertIn("postgresql://", checks["store.reachable"]["message"])
        self.assertNotIn("?", checks["store.reachable"]["message"])
        self.assertEqual(checks["store.disk_room"]["severity"], "info")
