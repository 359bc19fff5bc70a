"""`audit events`: the catalogue, as an operator and an auditor see it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.events import CATALOGUE
from tests.cli.terminal import terminal
from tests.support.proof import proves

NAMED = {
    "access": (
        "session.start",
        "session.end",
        "session.abandoned",
        "request.decision",
        "recording.delivered",
    ),
    "identity": (
        "credential.issue",
        "node.enroll",
        "node.revoke",
        "node.renew",
        "user.forget_name",
    ),
    "policy": (
        "policy.propose",
        "policy.approve",
        "policy.activate",
        "scope.set",
        "epoch.activate",
        "root.prepare",
        "root.ack",
        "root.activate",
        "root.cancel",
    ),
    "system": ("store.migrate", "audit.held", "audit.released"),
}
"""Events that the checklist names, by class."""

LEVELS = {"I": "info", "W": "warning", "E": "error"}
ROW = re.compile(r"\| `([a-z._]+)` \| (SVC\d{4}[IWE]) \| (\w+) \| (\w+) \|")


class EventsTests(SynchronousTestCase):
    """Without a configuration, on any machine."""

    @proves("G-OPEN-11")
    def test_events(self) -> None:
        """Every event is listed once, with a code of its level; those that are named are there."""
        ran = terminal("authority", "audit", "events", "--json")
        self.assertEqual((ran.status, ran.stderr), (0, ""))
        found = {one["event"]: one for one in json.loads(ran.stdout)}
        self.assertEqual(found.keys(), {one.name for one in CATALOGUE})
        self.assertEqual(len({one["event_code"] for one in found.values()}), len(CATALOGUE))
        for one in found.values():
            self.assertRegex(one["event_code"], r"^SVC\d{4}[IWE]$")
            self.assertEqual(LEVELS[one["event_code"][-1]], one["severity"])
            self.assertIn(one["event_class"], NAMED)
        for event_class, names in NAMED.items():
            for name in names:
                self.assertEqual(found[name]["event_class"], event_class, name)
        self.assertIn("bytes_up", found["session.end"]["detail_names"])
        page = Path(__file__).parents[3] / "docs" / "reference" / "audit.md"
        documented = {match[0]: match[1:] for match in ROW.findall(page.read_text("utf-8"))}
        self.assertEqual(
            documented,
            {
                name: (one["event_code"], one["event_class"], one["severity"])
                for name, one in found.items()
            },
        )

    def test_as_text(self) -> None:
        """One line for each, by code."""
        lines = terminal("authority", "audit", "events").stdout.splitlines()
        self.assertEqual(len(lines), len(CATALOGUE) + 1)
        codes = [line.split()[1] for line in lines[1:]]
        self.assertEqual(codes, sorted(codes))
