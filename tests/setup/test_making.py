"""What ``svc init`` leaves on the disk: all of it, private, or nothing."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.config import load_settings
from svc.config.keys import BUILT_IN_KINDS
from svc.errors import ConfigError, SvcError
from svc.pki.keyring import load_keys
from svc.setup import making
from svc.setup.commands import Next
from svc.setup.making import AlreadyThere, make, staged, write
from svc.setup.plan import ALL, ISSUING_CA_DAYS, SEPARATE, InitPlan, PlannedResource

ROOT = Path(__file__).resolve().parents[2]
NOW = 1_800_000_000.0


def now() -> float:
    """A moment."""
    return NOW


class MakingCase(SynchronousTestCase):
    """An empty place and a plan for it."""

    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.base.mkdir(mode=0o700)
        served = (PlannedResource("ssh-here", "ssh", "127.0.0.1:22"),)
        self.plan = InitPlan(self.base / "gate", "gate.example.org", served=served)

    def make(self, **changes: Any) -> str:
        return make(evolve(self.plan, **changes), now, os.urandom)

    def tree(self) -> dict[str, str]:
        """Every path with its mode."""
        return {
            str(path.relative_to(self.base)): f"{stat.S_IMODE(path.lstat().st_mode):04o}"
            for path in sorted(self.base.rglob("*"))
        }


class TreeTests(MakingCase):
    """The files of three roles."""

    def test_golden_tree(self) -> None:
        """Exactly these files, readable by their owner alone."""
        self.make()
        keys = (
            "anchor",
            "audit-origin",
            "grant",
            "jwt",
            "onward-ssh",
            "root",
            "snapshot",
            "spiffe",
            "transport",
        )
        expected = {
            "gate": "0700",
            **{f"gate/{role}": "0700" for role in ("authority", "proxy", "connector")},
            **{f"gate/{role}.toml": "0600" for role in ("authority", "proxy", "connector")},
            "gate/policy.cedar": "0600",
            "gate/authority/keys": "0700",
            "gate/authority/keys/credentials.key": "0600",
            "gate/authority/keys/recording.key": "0600",
            **{
                f"gate/authority/keys/{name}.{end}": "0600"
                for name in keys
                for end in ("key", "pem")
            },
        }
        self.assertEqual(self.tree(), dict(sorted(expected.items())))

    def test_configurations_are_taken_by_their_roles(self) -> None:
        """Each file loads for its role, and the pin in it is that of the keys beside it."""
        pin = self.make()
        for role in ("authority", "proxy", "connector"):
            read = load_settings(str(self.plan.config(role)), role, {})
            self.assertEqual(read.cluster, "gate.example.org")
            if role != "authority":
                self.assertEqual(read.join.ca_pin, pin)
        keys = load_keys(self.plan.state["authority"] / "keys", now, os.urandom)
        self.assertEqual(keys.ca_pin, pin)

    def test_issuing_authorities_live_as_long_as_is_configured(self) -> None:
        """The days are in the file of whoever holds the keys, and in the certificates."""
        for roles, days in ((SEPARATE, 7), ((ALL,), 400), (SEPARATE, None)):
            with self.subTest(roles=roles, days=days):
                name = f"gate-{days}"
                numbers = {} if days is None else {ISSUING_CA_DAYS: days}
                plan = evolve(self.plan, directory=self.base / name, roles=roles, numbers=numbers)
                with staged(plan, os.urandom) as stage:
                    write(plan, stage, now, os.urandom)
                holder = plan.holder
                read = load_settings(str(plan.config(holder)), holder, {})
                self.assertEqual(read.identity.issuing_ca_days, days or 90)
                keys = load_keys(plan.state["authority"] / "keys", now, os.urandom)
                for issuer in keys.issuers.values():
                    end = issuer.certificate.not_valid_after_utc.timestamp()
                    self.assertEqual(end, NOW + (days or 90) * 86400)

    def test_documented_paths(self) -> None:
        """README and quickstart name files where they are, but for two that come later."""
        later = {"first-administrator.code", "join.token"}
        pages = (ROOT / "README.md", ROOT / "docs" / "quickstart.md")
        named = {
            path
            for page in pages
            for path in re.findall(r"\bmy-gateway/([\w./-]*\w)", page.read_text("utf-8"))
            if Path(path).name not in later
        }
        self.assertLessEqual({"all.toml", "authority/keys/root.key"}, named)
        made = set[str]()
        for roles in (SEPARATE, (ALL,)):
            plan = evolve(self.plan, directory=self.base / f"gate-{len(roles)}", roles=roles)
            with staged(plan, os.urandom) as stage:
                write(plan, stage, now, os.urandom)
            made |= {str(one.relative_to(plan.directory)) for one in plan.directory.rglob("*")}
        self.assertEqual(sorted(named - made), [])

    def test_root_key_goes_where_it_is_told(self) -> None:
        """With --root-key-to the key directory has no root key, and the file there is private."""
        place = self.base / "root.key"
        self.make(root_key=place)
        self.assertEqual(stat.S_IMODE(place.stat().st_mode), 0o600)
        self.assertNotIn("gate/authority/keys/root.key", self.tree())
        load_keys(self.plan.state["authority"] / "keys", now, os.urandom)

    def test_node_elsewhere_gets_no_keys(self) -> None:
        """Only its configuration and its directory are made."""
        self.make(roles=("proxy",), ca_pin="ab" * 32)
        self.assertEqual(list(self.tree()), ["gate", "gate/proxy", "gate/proxy.toml"])

    def test_empty_directory_may_be_there(self) -> None:
        """A directory made beforehand is taken when nothing is in it."""
        self.plan.directory.mkdir(mode=0o755)
        self.make()
        self.assertEqual(self.tree()["gate"], "0700")


class RefusalTests(MakingCase):
    """Nothing is overwritten, and nothing half made stays."""

    def test_second_time_is_refused_and_changes_nothing(self) -> None:
        """The keys of a gateway that is there stay as they are."""
        self.make()
        before = {p: p.read_bytes() for p in self.base.rglob("*") if p.is_file()}
        self.assertIn("not empty", self.assertRaises(AlreadyThere, self.make).text)
        after = {p: p.read_bytes() for p in self.base.rglob("*") if p.is_file()}
        self.assertEqual(after, before)

    def test_what_stands_in_the_place_is_left(self) -> None:
        """A file, a link and another's directory are refused alike."""
        elsewhere = self.base / "elsewhere"
        elsewhere.mkdir()
        self.plan.directory.symlink_to(elsewhere)
        self.assertRaises(AlreadyThere, self.make)
        self.plan.directory.unlink()
        self.plan.directory.write_text("mine")
        self.assertRaises(AlreadyThere, self.make)
        self.assertEqual(self.plan.directory.read_text(), "mine")

    def test_working_directory_is_not_replaced(self) -> None:
        """A shell does not lose the directory it stands in."""
        self.plan.directory.mkdir()
        before = Path.cwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.plan.directory)
        self.assertIn("working directory", self.assertRaises(AlreadyThere, self.make).text)

    def test_root_key_is_not_written_over(self) -> None:
        """A file where the root key should go ends it before anything is made."""
        place = self.base / "root.key"
        place.write_text("another cluster's")
        self.assertRaises(AlreadyThere, self.make, root_key=place)
        self.assertEqual(self.tree(), {"root.key": self.tree()["root.key"]})
        self.assertEqual(place.read_text(), "another cluster's")

    def test_failure_on_the_way_leaves_nothing(self) -> None:
        """A configuration that would be refused takes keys, root key and directory with it."""

        def refuse(plan: InitPlan, ca_pin: str) -> dict[str, str]:
            return {"authority.toml": "cluster = 1\n"}

        self.patch(making, "configurations", refuse)
        self.assertRaises(SvcError, self.make, root_key=self.base / "root.key")
        self.assertEqual(self.tree(), {})

    def test_place_that_cannot_be_written_is_named(self) -> None:
        """The refusal names the path and what the system said."""
        (self.base / "file").write_text("")
        refusal = self.assertRaises(ConfigError, self.make, directory=self.base / "file" / "gate")
        self.assertIn(str(self.base / "file"), refusal.text)

    def test_directory_above_must_be_there(self) -> None:
        """A mistyped path makes no directories on the way to it."""
        self.assertRaises(ConfigError, self.make, directory=self.base / "typo" / "gate")
        self.assertEqual(self.tree(), {})

    def test_lost_race_leaves_the_winner(self) -> None:
        """Who comes second when two make one directory changes nothing of the first."""

        def late(plan: InitPlan, ca_pin: str) -> dict[str, str]:
            self.plan.directory.mkdir()
            (self.plan.directory / "winner").write_text("")
            return {}

        self.patch(making, "configurations", late)
        self.assertRaises(AlreadyThere, self.make)
        self.assertEqual(list(self.tree()), ["gate", "gate/winner"])


class CommandTests(MakingCase):
    """What is printed can be pasted."""

    def lines(self, **changes: Any) -> list[str]:
        return list(Next(evolve(self.plan, **changes), "svc", "ab" * 32).lines())

    def test_paths_are_quoted(self) -> None:
        """A directory with a blank and a quote is one word of the shell."""
        lines = self.lines(directory=Path("/srv/it's a gate"))
        self.assertIn("""svc --config '/srv/it'"'"'s a gate/authority.toml' authority""", lines)

    def test_ssh_names_the_account(self) -> None:
        """The line serves hosts whose SSH ends at the Connector, which must be told it."""
        self.assertIn("ssh -o 'ProxyCommand=svc proxy-ssh --user %r %h' ssh-here", self.lines())

    def test_other_kinds(self) -> None:
        """A resource that is no SSH server is used by the command of its kind, or by any client."""
        for kind, told in (
            ("postgres", "# then: svc db it --role ROLE --database DATABASE"),
            ("web", "svc open it"),
            ("kube", "svc kubeconfig"),
            ("tcp", "# then let a client connect to the ADDRESS of one"),
        ):
            lines = self.lines(served=(PlannedResource("it", kind, "127.0.0.1:99"),))
            self.assertIn(told, lines)

    def test_tokens_go_to_private_files(self) -> None:
        """No token is printed to the terminal or passed as an argument."""
        adding = [line for line in self.lines() if " add p1 " in line or "persons add" in line]
        self.assertEqual(len(adding), 2)
        for line in adding:
            self.assertRegex(line, r"^\(umask 077; .* > \S+\)$")

    def test_first_administrator(self) -> None:
        """The whole command is the last step, and what it makes administers by a Proxy."""
        for roles, code in (
            (SEPARATE, "/srv/gate/authority/first-administrator.code"),
            ((ALL,), "/srv/gate/state/authority/first-administrator.code"),
        ):
            lines = self.lines(roles=roles, directory=Path("/srv/gate"))
            login, status = [line for line in lines if line][-2:]
            self.assertEqual(
                login,
                f"svc login --first-administrator --code-file {code} --proxy localhost:7400 "
                f'--ca-pin {"ab" * 32} --dir "$HOME/.svc/administrator"',
            )
            self.assertEqual(status, 'svc authority --dir "$HOME/.svc/administrator" status')

    def test_kinds_are_enabled_for_the_person(self) -> None:
        """A kind that does not come with svc has a command for the configuration of people."""
        orders = PlannedResource("orders", "postgres", "127.0.0.1:5432")
        self.assertNotIn("client.toml", "\n".join(self.lines(served=(orders,))))
        desk = PlannedResource("desk", "vnc", "127.0.0.1:5900")
        lines = self.lines(served=(*self.plan.served, orders, desk))
        (command,) = (one for one in lines if one.startswith("printf"))
        config = self.base / ".svc" / "client.toml"
        config.parent.mkdir()
        config.write_text('cluster = "a"\n[client]\n', "utf-8")
        subprocess.run(["sh", "-c", command], env={"HOME": str(self.base)}, check=True)
        read = tomllib.loads(config.read_text("utf-8"))
        self.assertEqual(read["plugins"]["kinds"], sorted([*BUILT_IN_KINDS, "vnc"]))
        self.assertEqual((read["cluster"], read["client"]), ("a", {}))

    def test_node_elsewhere_is_told_how_it_is_set_up(self) -> None:
        """Without a Proxy here, the commands for its own machine are shown."""
        text = "\n".join(self.lines(roles=("authority",)))
        self.assertIn(f"init DIR --for proxy --cluster gate.example.org --ca-pin {'ab' * 32}", text)
        there = "\n".join(self.lines(roles=("proxy",), ca_pin="ab" * 32))
        self.assertIn("proxy.toml proxy", there)
        self.assertNotIn("authority.toml", there)
