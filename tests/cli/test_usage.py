"""What is no command starts nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import click
from twisted.trial.unittest import SynchronousTestCase

from svc.cli import config_first, main
from svc.cli.authority.commands import authority
from svc.cli.authority.upkeep.store import store
from svc.store.migrate import migrations_folder
from tests.cli.terminal import Authority, Place, terminal
from tests.support.proof import proves

ROOT = Path(__file__).resolve().parents[2]

WRONG: tuple[tuple[tuple[str, ...], str], ...] = (
    (("bogus",), "No such command 'bogus'"),
    (("Status",), "No such command"),
    (("--bogus",), "No such option"),
    (("nodes",), "Missing command"),
    (("nodes", "bogus"), "No such command 'bogus'"),
    (("nodes", "add"), "Missing argument 'NAME'"),
    (("nodes", "add", "n1"), "Missing option '--role'"),
    (("nodes", "add", "n1", "--role", "authority"), "is not one of"),
    (("nodes", "add", "n1", "--role", "proxy", "--ttl", "0"), "range"),
    (("nodes", "add", "n1", "--role", "proxy", "--ttl", "604801"), "range"),
    (
        ("nodes", "add", "n1", "--role", "connector", "--public-name", "a.example"),
        "applies only to Proxies",
    ),
    (("nodes", "add", "n1\x1b[2J", "--role", "proxy"), "printable characters only"),
    (("nodes", "add", "", "--role", "proxy"), "printable characters only"),
    (("nodes", "list", "extra"), "unexpected extra argument"),
    (("nodes", "revoke"), "Missing argument 'NODE'"),
    (("persons", "add"), "Missing argument 'NAME'"),
    (("groups", "rename"), "No such command"),
    (("resources", "add", "r1"), "Missing option '--kind'"),
    (("resources", "add", "r1", "--kind", "tcp", "--label", "env"), "form key=value"),
    (("resources", "add", "r1", "--kind", "tcp", "--label", "=x"), "form key=value"),
    (
        ("resources", "add", "r1", "--kind", "tcp", "--label", "a=1", "--label", "a=2"),
        "--label a: given more than once",
    ),
    (("policy", "set"), "Missing argument 'FILE'"),
    (("policy", "set", "/nonexistent/policy"), "No such file"),
    (("policy", "show", "0"), "range"),
    (("policy", "show", "one"), "not a valid integer"),
    (("audit", "show", "d1", "--seq", "1"), "give only one of"),
    (("audit", "show", "--seq", "1", "--last", "2"), "give only one of"),
    (("audit", "show", "--last", "1001"), "range"),
    (("store", "migrate", "--down"), "No such option"),
    (("store", "rollback"), "No such command"),
    (("status", "--jso"), "No such option"),
)


def is_group(command: click.Command) -> bool:
    """Whether it only holds other commands."""
    return isinstance(command, click.Group) and not command.invoke_without_command


class UsageTests(SynchronousTestCase):
    """A word that is not known."""

    @proves("G-CLI-02", "X-34", "U-MIG-04")
    def test_each_mistake_is_a_usage_error(self) -> None:
        """A wrong word or option exits 64, says what is wrong on stderr and asks nobody."""
        place = Place(self)

        def nobody(*asked: object) -> None:
            self.fail(f"asked: {asked}")

        for words, expected in WRONG:
            outcome = place.run(*words, admin=nobody)
            self.assertEqual((outcome.status, outcome.stdout), (64, ""), words)
            self.assertIn(expected, outcome.stderr, words)
            self.assertTrue(outcome.stderr.startswith("svc: "), words)
        self.assertEqual([each.name for each in place.state.iterdir()], [])

    @proves("U-MIG-04")
    def test_no_way_back(self) -> None:
        """Of the store there is one command, which goes forward; no migration can be undone."""
        self.assertEqual(list(store.commands), ["migrate"])
        self.assertEqual(
            {each.name for each in store.commands["migrate"].params},
            {"check", "rehearsal", "backup_manifest", "identity", "as_json"},
        )
        steps = list(migrations_folder().glob("m*"))
        self.assertEqual({each.suffix for each in steps}, {".sql", ".py"})
        for step in steps:
            self.assertNotRegex(step.name, r"\b(down|undo|revert|rollback)\b")
            if step.suffix == ".py":
                made = ast.parse(step.read_text("utf-8")).body
                functions = [each.name for each in made if isinstance(each, ast.FunctionDef)]
                self.assertEqual(functions, ["up"], step.name)

    def test_a_group_alone(self) -> None:
        """A group without a command tells on stderr which there are, with the status of usage."""
        alone = [(), ("resources",), ("authority", "audit", "outbox"), ("--config", "/nowhere")]
        alone += [("authority", name) for name, one in authority.commands.items() if is_group(one)]
        self.assertGreater(len(alone), 10)
        for words in alone:
            outcome = terminal(*words)
            self.assertEqual((outcome.status, outcome.stdout), (64, ""), words)
            names = [word for word in words if not word.startswith(("-", "/"))]
            helped = terminal(*names, "--help").stdout
            self.assertIn("\nCommands:\n", helped)
            self.assertEqual(outcome.stderr, f"svc: Missing command.\n\n{helped}", words)
            self.assertEqual(main(words), 64)

    @proves("G-ROLE-01")
    def test_four_roles(self) -> None:
        """The program has these four roles and these commands, and nothing else that is shown."""
        outcome = terminal("gateway")
        self.assertEqual((outcome.status, outcome.stdout), (64, ""))
        self.assertEqual(
            outcome.stderr,
            "svc: no command 'gateway'; roles are authority, proxy, connector, all; "
            "commands: init, demo, doctor, join, login, logout, up, status, resources, open, db, "
            "kubeconfig, proxy-ssh, why, request, requests, contexts, service, reload, "
            "setup, upgrade\n",
        )

    @proves("X-04")
    def test_program_maps_them_alike(self) -> None:
        """The program itself exits 64 for an unknown word or option, never 2."""
        for words in (["authority", "bogus"], ["doctor", "--nope"], ["--nope"], ["up", "--nope"]):
            self.assertEqual(main(words), 64, words)

    @proves("G-CLI-01")
    def test_configuration_anywhere(self) -> None:
        """`--config PATH` is taken before the command and after it; behind `--` it is data."""
        path = str(Place(self).config)
        for given in (["--config", path], [f"--config={path}"]):
            self.assertEqual(
                config_first(["authority", "nodes", "list", *given])[: len(given)], given
            )
            for words in (
                [*given, "authority", "store", "migrate", "--check"],
                ["authority", *given, "store", "migrate", "--check"],
                ["authority", "store", "migrate", "--check", *given],
            ):
                self.assertEqual(main(words), 3, words)
        self.assertEqual(main(["authority", "status", "--", "--config", path]), 64)
        self.assertEqual(main(["authority", "status", "--config"]), 64)

    def test_no_configuration(self) -> None:
        """A command that needs a configuration says so, and shows where it goes."""
        outcome = terminal("authority", "nodes", "list")
        self.assertEqual((outcome.status, outcome.stdout), (64, ""))
        self.assertIn("svc --config FILE", outcome.stderr)

    def test_refused_configuration(self) -> None:
        """A configuration that is refused ends the command with its own text and status 1."""
        place = Place(self)
        place.config.write_text('cluster = "c1.example.test"\n')
        outcome = place.run("nodes", "list")
        self.assertEqual((outcome.status, outcome.stdout), (1, ""))
        self.assertIn("state_dir: required for authority", outcome.stderr)

    @proves("U-CMD-01")
    def test_help_is_data(self) -> None:
        """Help goes to stdout with status 0, and shows no older spelling."""
        outcome = terminal("authority", "--help")
        self.assertEqual((outcome.status, outcome.stderr), (0, ""))
        for word in ("nodes", "persons", "groups", "resources", "policy", "audit", "status"):
            self.assertIn(f"\n  {word} ", outcome.stdout)
        for older in ("list-nodes", "list-resources", "verify-audit", "migrate"):
            self.assertNotIn(older, outcome.stdout)
        for group, word in (("store", "migrate"), ("audit", "verify")):
            self.assertIn(f"\n  {word} ", terminal("authority", group, "--help").stdout)


class AliasTests(SynchronousTestCase):
    """The older spellings."""

    @proves("G-CLI-07", "G-CLI-09", "G-CLI-10", "U-CMD-02", "X-90")
    def test_same_answers(self) -> None:
        """An older spelling answers byte for byte as the new one, with the same options."""
        place, authority = Place(self), Authority()
        for older, newer, status in (
            (["list-nodes"], ["nodes", "list"], 0),
            (["list-nodes", "--health"], ["nodes", "list", "--health"], 0),
            (["list-nodes", "--json"], ["nodes", "list", "--json"], 0),
            (["list-resources"], ["resources", "list"], 0),
            (["list-resources", "--json"], ["resources", "list", "--json"], 0),
            (["migrate", "--check"], ["store", "migrate", "--check"], 3),
            (["migrate", "--check", "--json"], ["store", "migrate", "--check", "--json"], 3),
            (["verify-audit"], ["audit", "verify"], 6),
        ):
            first = place.run(*older, admin=authority)
            self.assertEqual(first.status, status, first.stderr)
            self.assertEqual(first, place.run(*newer, admin=authority), older)

    @proves("G-CLI-07")
    def test_both_spellings_migrate(self) -> None:
        """The older spelling applies what the newer one applies, and says the same of it."""
        older, newer = Place(self), Place(self)
        for words in ([], ["--check"], [], ["--rehearse"]):
            first = older.run("migrate", *words)
            self.assertEqual(first, newer.run("store", "migrate", *words), words)
            self.assertEqual(first.status, 0, first.stderr)
        self.assertEqual(first.stdout.splitlines()[0], "nothing to apply")


class ImportTests(SynchronousTestCase):
    """What a command loads."""

    def test_words_need_no_twisted(self) -> None:
        """Parsing and help of the operator's words load neither Twisted, Cedar nor libsodium."""
        script = (
            "import sys; from svc.cli import main; main(['authority', 'nodes', 'add', '--help']);"
            "main(['authority', 'bogus']);"
            "sys.exit(any(name in sys.modules for name in ('twisted', 'cedarpy', 'klein', 'nacl')))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=False, timeout=60
        )
        self.assertEqual(done.returncode, 0, done.stderr)
