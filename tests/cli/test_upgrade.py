"""`svc upgrade plan`: which notes, in which order, and that its commands exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.upgrade import markdown
from svc import __version__
from svc.model.upgrade import AFTER, BEFORE, ORDER, RULES
from svc.model.upgrade_notes import NOTES
from tests.cli.terminal import Outcome, terminal
from tests.cli.tree import every_command
from tests.support.proof import proves

LATER = ["0.10.0-rc.6", "0.10.0-rc.7", "0.10.0-rc.9", "0.10.0-rc.10", "0.10.0-rc.13"]
LATER += ["0.11.0-rc.7"]
OLD_PROXY, WAITING, GATE = (rule.situation for rule in RULES)
GOLDEN = {
    "0.1.4": (
        ["from 0.1.x", "from 0.2.x", "from 0.3.x", "from 0.6.x", "0.9.0-rc.11", *LATER],
        [OLD_PROXY, WAITING, GATE],
    ),
    "0.2.0": (["from 0.2.x", "from 0.3.x", "from 0.6.x", "0.9.0-rc.11", *LATER], None),
    "0.3.9": (["from 0.3.x", "from 0.6.x", "0.9.0-rc.11", *LATER], None),
    "0.6.0": (["from 0.6.x", "0.9.0-rc.11", *LATER], None),
    "0.8.18": (["0.9.0-rc.11", *LATER], [OLD_PROXY, WAITING, GATE]),
    "0.8.23-rc.2": (["0.9.0-rc.11", *LATER], [WAITING, GATE]),
    "0.9.0-rc.10": (["0.9.0-rc.11", *LATER], None),
    "0.9.0-rc.11": (LATER, None),
    "0.9.0": (["0.9.0-rc.11", *LATER], [WAITING, GATE]),
    "0.10.0-rc.6": (LATER[1:], [WAITING, GATE]),
    "0.10.0-rc.7": (LATER[2:], [GATE]),
    "0.10.0-rc.8": (LATER[2:], None),
    "0.10.0-rc.9": (LATER[3:], None),
    "0.10.0-rc.10": (LATER[4:], None),
    "0.10.0-rc.13": (["0.11.0-rc.7"], [GATE]),
    "0.11.0-rc.6": (["0.11.0-rc.7"], [GATE]),
}
"""The rows and the rules of each starting version; None: not looked at."""


class PlanTests(SynchronousTestCase):
    """What is printed."""

    def plan(self, start: str, *words: str) -> Outcome:
        """The command."""
        return terminal("upgrade", "plan", "--from", start, *words)

    def test_page(self) -> None:
        """Each part of the page is there once."""
        heads = [line for line in markdown().splitlines() if line.startswith("#")]
        self.assertEqual(len(heads), len(set(heads)))

    @proves("U-OPEN-14", "U-NOTE-38", "X-24", "X-64")
    def test_golden(self) -> None:
        """From each version the rows since then, oldest first, compared as numbers."""
        for start, (names, rules) in GOLDEN.items():
            told = json.loads(self.plan(start, "--json").stdout)
            self.assertEqual([note["name"] for note in told["release_notes"]], names, start)
            found = [rule["situation"] for rule in told["fleet_rules"]]
            self.assertEqual(found, found if rules is None else rules, start)
            self.assertEqual((told["from_version"], told["to_version"]), (start, __version__))
            roles = [one["role"] for one in told["roles"]]
            self.assertEqual(roles, ["authority", "proxy", "connector", "client"])

    def test_text(self) -> None:
        """For people the same, in the order in which it is done."""
        done = self.plan("v0.10.0-rc.10")
        self.assertEqual((done.status, done.stderr), (0, ""))
        wanted = [
            f"upgrade from 0.10.0-rc.10 to {__version__}",
            *(text for note in NOTES[-2:] for text in (note.name, *note.actions)),
            RULES[-1].rule,
            *BEFORE,
            *(text for one in ORDER for text in (one.role, *one.actions, *one.checks)),
            *AFTER,
        ]
        at = 0
        for text in wanted:
            at = done.stdout.index(text, at)
        self.assertNotIn("0.10.0-rc.9", done.stdout)

    def test_refusals(self) -> None:
        """What is no version is wrong usage; this version and a newer one are told as such."""
        self.assertEqual(self.plan("0.10").status, 64)
        same = self.plan(__version__)
        self.assertEqual((same.status, same.stdout), (1, ""))
        self.assertIn("is this version", same.stderr)
        self.assertIn("is newer than this version", self.plan("99.0.0").stderr)

    def test_rows(self) -> None:
        """The table is oldest first."""
        ends = [note.before for note in NOTES]
        self.assertEqual(ends, sorted(ends))

    def test_commands_exist(self) -> None:
        """Each command that a note or a check names can be typed."""
        known = every_command()
        found = list(self.commands())
        self.assertGreater(len(found), 20)
        for words in found:
            typed = re.sub(r" --config \S+", "", words)
            names = [name for name in known if f"{typed} ".startswith(f"{name} ")]
            self.assertNotEqual(names, [], words)
            command = known[max(names, key=len)]
            options = {name for one in command.params for name in one.opts}
            self.assertLessEqual(set(re.findall(r" (--[a-z-]+)", typed)), options, words)

    def commands(self) -> Iterator[str]:
        """Each one, as it is written."""
        texts = [*BEFORE, *AFTER, *(text for note in NOTES for text in note.actions)]
        for text in texts:
            yield from re.findall(r"`(svc [^`]*)`", text)
        for one in ORDER:
            yield from (check for check in one.checks if check.startswith("svc "))
            for text in one.actions:
                yield from re.findall(r"`(svc [^`]*)`", text)
