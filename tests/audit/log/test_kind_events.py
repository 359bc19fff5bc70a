"""Events that kinds bring: named after the kind, classified whole, and no name of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.kind_events import kind_events, kind_of_event
from svc.audit.log.record import Unrecordable, seal
from svc.audit.log.selection import check_event
from svc.errors import Malformed
from svc.interfaces.kinds import KindEvent
from svc.model.audit.events import CATALOGUE, DETAILS, KIND_CODES, SESSION_START, check_catalogue
from svc.model.audit.record import Actor, AuditRecord
from svc.model.canonical import decode

ODD = KindEvent("something odd", {"size": "number public", "name": "text personal"}, "warning")
RECORD = AuditRecord(
    event_id="e", time=1.0, event=SESSION_START, actor=Actor("person", "p"), origin="o"
)


class KindEventsTests(SynchronousTestCase):
    def test_made(self) -> None:
        """Code and class say that it is of a kind; where it came from is always a field."""
        (event,) = kind_events("redis", {"redis.odd": ODD}).values()
        self.assertEqual((event.name, event.code), ("redis.odd", "SVC1901W"))
        self.assertEqual(kind_of_event(event), "redis")
        self.assertEqual(kind_of_event(SESSION_START), "")
        self.assertEqual(
            [field.name for field in event.fields], ["size", "name", "proxy_id", "source_address"]
        )
        self.assertIs(event.fields[1], DETAILS["name"])

    def test_sound_beside_ours(self) -> None:
        """Events of two kinds, with fields of one name, stand beside ours without a fault."""
        events = [
            *kind_events("redis", {"redis.odd": ODD, "redis.even": ODD}).values(),
            *kind_events("mail", {"mail.odd": ODD}).values(),
        ]
        check_catalogue([*CATALOGUE, *events])
        self.assertEqual([event for event in CATALOGUE if event.code in KIND_CODES.values()], [])

    def test_refused(self) -> None:
        """What could be taken for another event or field, or is not classified, is refused."""
        cases: list[tuple[str, Mapping[str, Any], str]] = [
            ("redis", {"odd": ODD}, "odd: does not begin with redis."),
            ("redis", {"other.odd": ODD}, "other.odd: does not begin with redis."),
            ("redis", {"redis.": ODD}, "not a dotted lower-case name"),
            ("redis", {"redis.Odd": ODD}, "not a dotted lower-case name"),
            ("session", {"session.odd": ODD}, "session: begins events that svc itself writes"),
            ("redis", {"redis.odd": evolve(ODD, severity="grave")}, "its severity is none of info"),
            ("redis", {"redis.odd": KindEvent("x", {"size": "number"})}, "then public or personal"),
            ("redis", {"redis.odd": KindEvent("x", {"s": "text secret"})}, "public or personal"),
            ("redis", {"redis.odd": KindEvent("x", {"s": "float public"})}, "or texts, then"),
            ("redis", {"redis.odd": KindEvent("x", {"S S": "text public"})}, "not a field name"),
            ("redis", {"redis.odd": KindEvent("x", {"name": "text public"})}, "something else"),
            ("redis", {"redis.odd": KindEvent("x", {"proxy_id": "text public"})}, "twice"),
            (
                "redis",
                {
                    "redis.odd": KindEvent("x", {"size": "number public"}),
                    "redis.even": KindEvent("x", {"size": "text public"}),
                },
                "size means something else elsewhere",
            ),
        ]
        for kind, declared, text in cases:
            with self.subTest(text):
                fault = self.assertRaises(ValueError, kind_events, kind, declared)
                self.assertIn(text, str(fault))

    def test_sealed(self) -> None:
        """A personal field is hidden and can be erased; what was not declared is not written."""
        (event,) = kind_events("redis", {"redis.odd": ODD}).values()
        record = evolve(RECORD, event=event, details={"size": 7, "name": "ada"})
        sealed = seal(record, bytes)
        form: Any = decode(sealed.canonical)
        self.assertEqual(list(form["details"]["name"]), ["personal"])
        self.assertEqual([one.path for one in sealed.personal], ["details.name"])
        for details in ({"size": "7"}, {"other": 1}):
            with self.subTest(details=details):
                odd = evolve(record, details=details)
                self.assertRaises(Unrecordable, seal, odd, bytes)

    def test_asked_for(self) -> None:
        """Records of a kind that is configured can be asked for by its events."""
        check_event("redis.odd", kinds=("redis",))
        check_event("redis", kinds=("redis",))
        self.assertRaises(Malformed, check_event, "redis.odd", kinds=("tcp",))
        self.assertRaises(Malformed, check_event, "sesion.start", kinds=("redis",))
