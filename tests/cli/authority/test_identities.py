"""``svc authority identities``: who an account at the provider is here."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from tests.cli.terminal import Authority, Place


class IdentityTests(SynchronousTestCase):
    """Against an Authority in memory."""

    def setUp(self) -> None:
        self.place, self.authority = Place(self), Authority()

    def run_it(self, *words: str) -> Any:
        """Run one command against the Authority of this test."""
        return self.place.run(*words, admin=self.authority)

    def test_add_and_list(self) -> None:
        """An account is added to a person who exists, once, and is listed."""
        self.run_it("persons", "add", "mary")
        added = self.run_it("identities", "add", "mary", "--subject", "00u7")
        self.assertEqual((added.status, added.stderr), (0, ""))
        (row,) = json.loads(self.run_it("identities", "list", "--json").stdout)
        self.assertEqual(
            (row["name"], row["issuer"], row["subject"]), ("mary", "https://id.example", "00u7")
        )
        said = self.run_it("identities", "add", "mary", "--subject", "00u9", "--json").stdout
        self.assertEqual(list(unknown(json.loads(said))), [])
        again = self.run_it("identities", "add", "mary", "--subject", "00u7")
        self.assertEqual(again.status, 1)
        self.assertIn("linked already", again.stderr)
        nobody = self.run_it("identities", "add", "nobody", "--subject", "00u8")
        self.assertIn("does not exist", nobody.stderr)
