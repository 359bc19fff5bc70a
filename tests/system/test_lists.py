"""Every list: aligned for people, one document for programs, nothing else on stdout."""

from __future__ import annotations

import json
import re

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Ran
from svc.testing.gateway.settings import CONNECTOR
from tests.cli.tree import every_command
from tests.support.proof import proves
from tests.system.common import shared
from tests.system.test_roles import bea

LISTS = {
    "svc authority accounts list",
    "svc authority audit events",
    "svc authority audit outbox list",
    "svc authority agents list",
    "svc authority groups list",
    "svc authority identities list",
    "svc authority list-nodes",
    "svc authority list-resources",
    "svc authority nodes expected",
    "svc authority nodes list",
    "svc authority persons list",
    "svc authority policy history",
    "svc authority recordings list",
    "svc authority resources bindings",
    "svc authority resources list",
    "svc authority scopes list",
    "svc authority sessions list",
    "svc authority tokens list",
    "svc contexts list",
    "svc requests list",
    "svc resources list",
}
LAST_WORDS = ("list", "expected", "history", "bindings", "events")
MORE = {"svc authority resources bindings": ("echo",)}
"""What a list cannot do without."""


def cells(lines: list[str]) -> list[list[str]]:
    """What stands under each head; a column is as wide as its longest cell and two blanks."""
    starts = [found.start() for found in re.finditer(r"\S+(?: \S+)*", lines[0])]
    ends = [*starts[1:], max(map(len, lines))]
    for line in lines:
        for end in ends[:-1]:
            assert line[end - 2 : end] == "  ", f"{line!r} at {end}"
    return [[line[a:b].rstrip() for a, b in zip(starts, ends, strict=True)] for line in lines]


class ListTests(SynchronousTestCase):
    """Against a gateway that runs."""

    def setUp(self) -> None:
        self.gateway, self.person = shared(), bea()
        resident = self.person.up("echo")
        self.addCleanup(resident.stop)
        self.gateway.operator("resources", "add", "later", "--kind", "tcp")
        self.addCleanup(self.gateway.operator, "resources", "remove", "later")
        expected = ("nodes", "expect", "p3", "--role", "proxy", "--key", "ab" * 32, "--json")
        self.waits = self.gateway.operator(*expected).json["id"]
        self.addCleanup(self.gateway.operator, "nodes", "unexpect", self.waits)

    def run_it(self, name: str, *words: str) -> Ran:
        """The command, by whoever may give it."""
        _, *given = name.split()
        given += MORE.get(name, ())
        if given[0] == "authority":
            return self.gateway.operator(*given[1:], *words)
        return self.person.svc(*given, *words).checked()

    @proves("G-OPEN-75")
    def test_every_list(self) -> None:
        """Heads, a line a row, a dash for what is empty; with --json an array of as many."""
        named = {
            name for name in every_command() if name.split()[-1] in LAST_WORDS or "list-" in name
        }
        self.assertEqual(named, LISTS)
        dashes = 0
        for name in sorted(LISTS):
            with self.subTest(name=name):
                shown, read = self.run_it(name), self.run_it(name, "--json")
                self.assertEqual(read.stderr, "")
                rows = json.loads(read.stdout)
                self.assertIsInstance(rows, list)
                if not rows:
                    self.assertEqual((shown.stdout, shown.stderr), ("", "no rows\n"))
                    continue
                # Nobody serves it, which is told below the list.
                told = [one for one in shown.stderr.splitlines() if not one.startswith("later: ")]
                self.assertEqual(told, [])
                heads, *lines = cells(shown.stdout.splitlines())
                self.assertEqual([one.upper() for one in heads], heads)
                self.assertEqual(len(lines), len(rows))
                self.assertEqual([line for line in lines if "" in line or "None" in line], [])
                dashes += sum(cell == "-" for line in lines for cell in line)
        self.assertGreater(dashes, 2)
        self.assertIn(CONNECTOR, self.run_it("svc authority nodes list").stdout)
