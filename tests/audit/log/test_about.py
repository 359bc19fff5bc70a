"""What a record is about, in one line of `audit show`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.about import about
from svc.model.audit import events
from svc.model.audit.events import CATALOGUE
from svc.model.audit.record import Event, Shape
from svc.model.canonical import Json

NAMES = {
    ("person", "p1"): "ada",
    ("node", "n1"): "web-7",
    ("token", "t1"): "web-8",
    ("key", "k1"): "web-9",
}

ODD: tuple[Json, ...] = (None, [], {}, "x", True, [[]], {"rows": 1}, {"rows": [[]]}, {"rows": [{}]})


def words(event: Event, **fields: Json) -> str:
    """What a record of *event* is about; details are those of *fields* that the event has."""
    known = {each.name for each in event.fields}
    details = {name: value for name, value in fields.items() if name in known}
    record = {name: value for name, value in fields.items() if name not in known}
    told: dict[str, Json] = {**record, "event": event.name, "details": details}
    return about(told, lambda kind, id: NAMES.get((kind, id)))


class AboutTests(SynchronousTestCase):
    """The words of each event."""

    def test_by_name(self) -> None:
        """Whom, and which version: as the operator calls them today."""
        for event, fields, said in (
            (events.PERSON_ADD, {"person_id": "p1"}, "ada"),
            (events.TOKEN_CREATE, {"person_id": "p1", "role": "person", "token_id": "t9"}, "ada"),
            (events.TOKEN_CREATE, {"role": "proxy", "token_id": "t1"}, "proxy web-8"),
            (events.TOKEN_CREATE, {"role": "proxy", "token_id": "t9"}, "token t9"),
            (events.ENROLL_REFUSED, {"role": "proxy", "token_id": "t1"}, "proxy web-8"),
            (events.KEY_EXPECT, {"role": "connector", "expected_id": "k1"}, "connector web-9"),
            (events.NODE_REVOKE, {"node_id": "n1", "role": "connector"}, "connector web-7"),
            (events.GROUP_ADD, {"group": "ops"}, "group ops"),
            (events.GROUP_JOIN, {"person_id": "p1", "group": "ops"}, "ada of group ops"),
            (events.POLICY_ACTIVATE, {"policy_version": 7, "policy_digest": "ab"}, "version 7"),
            (
                events.CA_ACTIVATE,
                {"key_purpose": "transport", "generation": 2},
                "transport generation 2",
            ),
            (events.RESOURCE_ADD, {"resource_id": "db", "connector_id": "n1"}, "db"),
            (events.TUNNEL_REGISTERED, {"resources": list("abcde")}, "a, b, c and 2 more"),
            (events.REFUSALS_SUMMARY, {"person_id": "p1", "count": 12}, "ada 12 times"),
            (events.OPERATOR_REFUSED, {"cedar_action": "editPolicy"}, "editPolicy"),
            (events.SCOPE_SET, {"state": {"rows": [["scope:night", "ab"]]}}, "scope:night"),
            (events.AUDIT_CUT, {"first_n": 3, "last_n": 9}, "records 3 to 9"),
        ):
            self.assertEqual(words(event, **fields), said, event.name)

    def test_nobody_is_known(self) -> None:
        """Who is gone is told by id; an erased name stays erased."""
        self.assertEqual(words(events.PERSON_ADD, person_id="p2"), "p2")
        hidden: Json = {"personal": "ab", "erased": True}
        self.assertEqual(words(events.PERSON_ADD, person_id="p2", name=hidden), "p2")
        shown: Json = {"personal": "ab", "value": "bob"}
        self.assertEqual(words(events.PERSON_ADD, person_id="p2", name=shown), "bob")
        self.assertEqual(words(events.NODE_REVOKE, node_id="n2", role="proxy"), "proxy n2")

    def test_every_event(self) -> None:
        """No event of the catalogue is told without saying what it is about."""
        record: dict[str, Json] = {
            "resource_id": "db",
            "node_id": "n1",
            "policy_version": 7,
            "cedar_action": "editPolicy",
            "state": {"rows": [["scope:night", "ab"]]},
        }
        for event in CATALOGUE:
            details: dict[str, Json] = {
                field.name: ["a"] if field.shape is Shape.TEXTS else 3 for field in event.fields
            }
            said = about(record | {"event": event.name, "details": details}, lambda *_: None)
            self.assertNotEqual(said, "", event.name)

    def test_an_altered_record(self) -> None:
        """Whatever stands in a record that was altered, there are words or none."""
        for event in CATALOGUE:
            for odd in ODD:
                of_it: Json = {field.name: odd for field in event.fields}
                for details in (odd, of_it):
                    record: dict[str, Json] = {"event": event.name, "details": details}
                    record |= {"resource_id": odd, "node_id": odd, "state": odd}
                    self.assertIsInstance(about(record, lambda *_: None), str)
