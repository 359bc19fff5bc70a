"""``svc authority accounts``: people who sign in without a provider."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from tests.cli.terminal import Authority, Place


class AccountTests(SynchronousTestCase):
    """Against an Authority in memory."""

    def setUp(self) -> None:
        self.place, self.authority = Place(self), Authority()

    def run_it(self, *words: str) -> Any:
        """Run one command against the Authority of this test."""
        return self.place.run("accounts", *words, admin=self.authority)

    def test_add(self) -> None:
        """The code alone is on stdout; what the person types is told beside it."""
        added = self.run_it("add", "mary", "--group", "night", "--create-groups")
        self.assertEqual(added.status, 0, added.stderr)
        code = added.stdout.strip()
        self.assertEqual([len(part) for part in code.split("-")], [4] * 8)
        self.assertIn("svc login --enroll --proxy", added.stderr)
        self.assertNotIn(code, added.stderr)
        again = json.loads(self.run_it("add", "mary", "--json").stdout)
        self.assertNotEqual(again["code"], code)
        self.assertEqual(list(unknown(again)), [])
        (row,) = json.loads(self.run_it("list", "--json").stdout)
        self.assertEqual((row["name"], row["state"]), ("mary", "waiting"))

    def test_refused(self) -> None:
        """A group must exist, a name have its form, and the person of a reset be there."""
        for words, said in (
            (("add", "mary", "--group", "nowhere"), "does not exist"),
            (("add", "mary jane"), "must start with a letter or digit"),
            (("add", "a" * 26), "form of an id"),
            (("reset", "nobody"), "does not exist"),
            (("remove", "nobody"), "does not exist"),
            (("add", "mary", "--ttl", "604801"), "604801"),
        ):
            with self.subTest(words):
                refused = self.run_it(*words)
                self.assertNotEqual(refused.status, 0)
                self.assertIn(said, refused.stderr)

    def test_remove(self) -> None:
        """A code that waits is taken away; a second time there is nothing to take."""
        self.run_it("add", "mary")
        self.assertIn("removed the account of mary", self.run_it("remove", "mary").stdout)
        self.assertIn("there is no account of mary", self.run_it("remove", "mary").stdout)
        self.assertEqual(json.loads(self.run_it("list", "--json").stdout), [])

    def test_first_administrator(self) -> None:
        """The code is in a private file, and nowhere in what is printed."""
        done = json.loads(self.run_it("first-administrator", "--json").stdout)
        path = Path(done["path"])
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        told = self.run_it("first-administrator").stdout
        (command,) = [line for line in told.splitlines() if line.startswith("svc login ")]
        words = shlex.split(command)
        self.assertEqual(words[2:5], ["--first-administrator", "--code-file", str(path)])
        self.assertEqual(words[5:9], ["--proxy", "HOST:PORT", "--ca-pin", done["ca_pin"]])
        self.assertEqual(words[9:], ["--dir", "$HOME/.svc/administrator"])
        self.assertNotIn(path.read_text().split()[0], told)
