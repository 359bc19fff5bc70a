"""Showing records."""

from __future__ import annotations

import json

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.record import seal
from svc.audit.log.show import as_json, as_text, document, escape
from svc.model.audit.record import Actor
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

    def test_escape(self) -> None:
        """Escapes are visible and cannot be forged."""
        self.assertEqual(escape("a\n\x1b\u202e\\n\x7f\0é"), "a\\n\\x1b\\u202e\\\\n\\x7f\\x00é")
