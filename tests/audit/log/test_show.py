"""Showing records."""

from __future__ import annotations

import json

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.record import seal
from svc.audit.log.show import Columns, as_json, as_text, document, escape
from svc.model.audit.record import Actor
from svc.model.canonical import Json
from tests.audit.log.test_record import HOSTILE
from tests.audit.logs import FACTS, MemoryLog, record


class ShowTests(SynchronousTestCase):
    """A record as a person or a program sees it."""

    def setUp(self) -> None:
        self.log = MemoryLog()
        self.row = self.log.append(seal(record(), self.log.entropy, FACTS))

    def test_names_are_joined(self) -> None:
        """The actor shows with today's name, which the log does not hold."""
        shown = document(self.row, (), lambda kind, id: f"Ada of {kind}")
        self.assertEqual(
            shown["actor"], {"id": "p" * 26, "kind": "person", "name": "Ada of person"}
        )
        self.assertNotIn(b"Ada", self.row.canonical)

    def test_personal(self) -> None:
        """A personal value shows until it is erased; one that was exchanged does not show."""
        kept = self.log.personal[1]
        self.assertIn("10.0.0.9", as_text(document(self.row, kept)))
        self.assertIn("(erased)", as_text(document(self.row)))
        odd = [evolve(each, value='"6.6.6.6"') for each in kept]
        self.assertNotIn("6.6.6.6", as_json(document(self.row, odd)))

    def test_hostile_text(self) -> None:
        """Nothing a peer says makes a line, moves the cursor or turns the text around."""
        count = len(as_text(document(self.row)).splitlines())
        for text in HOSTILE:
            made = evolve(record(), resource_id=text, actor=Actor("anonymous", text))
            shown = document(self.log.append(seal(made, self.log.entropy, FACTS)))
            lines = as_text(shown)
            self.assertEqual(len(lines.splitlines()), count, text[:20])
            self.assertTrue(all(each.isprintable() for each in lines.splitlines()))
            line = as_json(shown)
            self.assertTrue(line.isascii() and line.isprintable())
            self.assertEqual(json.loads(line), shown)

    def test_lists(self) -> None:
        """A list is told like the rest: in words, also one of lists; what is empty is a dash."""
        shown: dict[str, Json] = {
            "details": {"labels": [], "note": "", "resources": ["a", "b"]},
            "entities": {},
            "state": {"rows": [["node:n1", "ab"], ["policy:2", "cd"]]},
        }
        self.assertEqual(
            as_text(shown).splitlines(),
            [
                "details.labels     -",
                "details.note       -",
                "details.resources  a, b",
                "entities           -",
                "state.rows         node:n1 ab, policy:2 cd",
            ],
        )

    def test_columns(self) -> None:
        """No line runs into the next column, however long a word is; what follows stays in line."""
        long: dict[str, Json] = {
            "seq": 12345678,
            "time": "2026-11-24T03:45:30.439871Z",
            "event": "a.plugin.with.a.long.name",
            "decision": "not_served",
            "actor": {"kind": "node", "id": "n1", "name": "authority-444nhuca"},
            "about": "a-resource-with-a-long-name",
            "session_uid": "c59a8ff8" * 4,
            "reason": "why",
        }
        short: dict[str, Json] = {
            **long,
            "seq": 1,
            "event": "role.start",
            "decision": None,
            "about": None,
        }
        columns = Columns()
        heads, *lines = columns.lines([short, long, {"seq": 2, "damaged": "missing"}], heads=True)
        later = columns.lines([short])
        self.assertEqual(later, lines[:1])
        for line in lines[:2]:
            for name in ("EVENT", "WHAT", "WHO", "ABOUT", "SESSION", "REASON"):
                at = heads.index(name)
                self.assertEqual(line[at - 2 : at], "  ", (name, line))
                self.assertNotEqual(line[at], " ", (name, line))
        self.assertEqual(lines[1].split()[3:6], ["not_served", "node", "authority-444nhuca"])
        self.assertEqual(lines[0].split()[2:4], ["role.start", "-"])
        self.assertRegex(lines[2], r"\A- +2  DAMAGED: missing\Z")

    def test_escape(self) -> None:
        """Escapes are visible and cannot be forged."""
        self.assertEqual(escape("a\n\x1b\u202e\\n\x7f\0é"), "a\\n\\x1b\\u202e\\\\n\\x7f\\x00é")
