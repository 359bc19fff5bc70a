"""What a Proxy may say in rows that it signs, and how fast."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.audit.ingest.validate import MAY_WRITE, RowVerdict, validate_row
from svc.audit.log.record import MAX_TEXT, MEMBERS
from svc.audit.log.show import document
from svc.audit.log.verify import check_record, follow
from svc.errors import SvcError, TooMany
from svc.interfaces.store import ITransaction
from svc.model.audit.events import REFUSALS_SUMMARY, REQUEST_DECISION
from svc.model.audit.ledger import GENESIS
from svc.model.audit.outbox import Hold
from svc.model.audit.record import Actor, Shape
from svc.model.audit.spool import SpoolRow
from svc.model.canonical import Json, decode, encode
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.house import ADA, EVE, value_of
from tests.authority.spools import FACTS, NOTED, WITH_REQUESTS, Origin
from tests.authority.test_outbox import OPERATOR, Queue

SINCE, UNTIL = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00.000000Z"


class SaidTests(Queue):
    """The texts, numbers and names of a row whose signature is good."""

    def test_where_no_kind_is_gated(self) -> None:
        """What a gate noted is forged where no kind is enabled that has one."""
        self.assertIs(self.judged(self.origin.noted()).hold, Hold.FORGED)
        self.assertIsNone(self.judged(self.origin.summary()).hold)

    def test_a_summary(self) -> None:
        """A summary says who was refused, by which budget and how often; no text of any choice."""
        good = {"count": 7, "since": SINCE, "until": UNTIL, "person_id": ADA}
        self.assertEqual(self.summed(good), "")
        self.assertEqual(self.summed({**good, "count": 2**53 - 1}), "")
        connector = self.house.connector.id
        self.assertEqual(self.summed({"connector_id": connector}, reason="registrations"), "")
        self.assertEqual(self.summed({}, reason="other"), "")
        for details, fields in (
            ({"count": 0}, {}),
            ({"count": -1}, {}),
            ({"since": "yesterday"}, {}),
            ({"since": UNTIL, "until": SINCE}, {}),
            ({"person_id": ADA, "connector_id": connector}, {}),
            ({"person_id": "a lie about somebody"}, {}),
            ({}, {"reason": "ada was at it again"}),
            ({}, {"resource_id": "db1"}),
            ({}, {"session_uid": "1" * 32}),
            ({}, {"policies": ("staff",)}),
            ({}, {"trace_id": "x"}),
        ):
            self.assertNotEqual(self.summed(details, **fields), "", (details, fields))

    def test_somebody_who_is_no_member(self) -> None:
        """Whom nobody let in is not named; an operator who knows better may release the row."""
        connector = self.house.connector.id
        for name, id in (
            ("person_id", "z" * 26),
            ("connector_id", "z" * 26),
            ("person_id", connector),
            ("connector_id", ADA),
        ):
            self.assertIn("it names an unknown", self.summed({"count": 1, name: id}))
        record = self.origin.record(
            REFUSALS_SUMMARY,
            Actor("node", self.origin.id),
            reason="opens",
            details={"count": 1, "person_id": "z" * 26},
        )
        self.leader.inject(self.origin.first, self.origin.add(record))
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [Hold.FORGED.value])
        [held] = self.leader.queue()
        request = pb.ReleaseRowRequest(id=held.id, note="of before the restore")
        value_of(self.leader.admin.release(request, OPERATOR))
        self.assertEqual(self.leader.queue(), ())

    def test_texts_are_as_sealing_leaves_them(self) -> None:
        """A credential, NUL and endless text are forged wherever they stand."""
        row = self.origin.noted()
        record = decode(row.canonical)
        assert isinstance(record, dict)
        for text in ("password=hunter2", "x\0y", "x" * (MAX_TEXT + 1)):
            for changed in ({"trace_id": text}, {"details": {"proxy_id": text}}):
                bad = self.origin.signed(row, encode({**record, **changed}))
                self.assertIs(self.judged(bad, WITH_REQUESTS).hold, Hold.FORGED, changed)
        for text in ("y" * 9000, "password=hunter2 " + "y" * 9000):
            sealed = self.origin.noted(details={"words": text, "proxy_id": self.origin.id})
            self.assertEqual(self.judged(sealed, WITH_REQUESTS).why, "")

    def test_each_member_has_its_form(self) -> None:
        """Whatever a record may say, it says as text or as a count; all else is forged."""
        row = self.origin.noted()
        record = decode(row.canonical)
        assert isinstance(record, dict)
        for name, shape in MEMBERS.items():
            wrong: tuple[Json, ...] = (True, ["x"], {"x": "y"})
            wrong += (-1, "1") if shape is Shape.NUMBER else (1,)
            for value in wrong:
                bad = self.origin.signed(row, encode({**record, name: value}))
                self.assertIs(self.judged(bad, WITH_REQUESTS).hold, Hold.FORGED, (name, value))
        bad = self.origin.signed(row, encode({**record, "more": "x"}))
        self.assertIs(self.judged(bad, WITH_REQUESTS).hold, Hold.FORGED)

    def test_a_decision_alone(self) -> None:
        """A Proxy writes of requests in batches only: no chain sees a decision in a record."""
        alone = self.origin.record(
            REQUEST_DECISION,
            Actor("person", ADA),
            session_uid=self.origin.opened_on(),
            resource_id="db1",
            resource_kind="tcp",
            action="connect",
            cedar_action="tcpConnect",
            decision="allow",
            decision_id="1" * 32,
            details={"proxy_id": self.origin.id},
        )
        verdict = self.judged(self.origin.add(alone), WITH_REQUESTS)
        self.assertIs(verdict.hold, Hold.FORGED)
        self.assertIn("discard the row", verdict.why)

    def test_a_note_of_no_session_is_kept(self) -> None:
        """It is held, and shown to operators; what comes after it enters the log."""
        bad = self.origin.noted(session_uid="1" * 32)
        rows = [self.origin.first, bad, self.origin.noted()]
        self.leader.inject(*rows)
        self.leader.drain()
        self.assertEqual(self.leader.logged(rows), [1, 0, 1])
        self.assertEqual(self.leader.holds(), [Hold.FORGED.value])

    def test_an_event_of_a_kind(self) -> None:
        """What a kind's gate noted enters where the kind is enabled, of its own sessions alone."""
        row = self.origin.noted()
        self.assertEqual(self.judged(row, WITH_REQUESTS).why, "")
        self.assertIs(self.judged(row).hold, Hold.FORGED)
        unknown = evolve(NOTED["tcp.odd"], name="tcp.even")
        theirs = Origin(self.house, "edge8").opened_on()
        for changed in (
            {"event": unknown},
            {"resource_kind": "ssh"},
            {"resource_kind": None},
            {"session_uid": None},
            {"session_uid": "1" * 32},
            {"session_uid": theirs},
            {"resource_id": "db2"},
            {"resource_id": None},
            {"decision": "allow"},
            {"cedar_action": "tcpConnect"},
            {"actor": Actor("node", self.origin.id)},
            {"actor": Actor("person", "z" * 26)},
            {"actor": Actor("person", EVE)},
        ):
            bad = self.origin.noted(**changed)
            self.assertIs(self.judged(bad, WITH_REQUESTS).hold, Hold.FORGED, changed)

    def test_a_kinds_event_is_kept_and_shown_without_the_kind(self) -> None:
        """Drained, it is a record like any other: verified and shown by who knows no kind."""
        self.leader.inject(self.origin.first, self.origin.noted())
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [])
        rows = self.house.run(lambda tx: tx.audit.rows(1, 99))
        shown: Any = document(rows[-1])
        self.assertEqual((shown["event"], shown["code"]), ("tcp.odd", "SVC1900I"))
        self.assertEqual((shown["about"], shown["details"]["size"]), ("db1", 7))
        last = GENESIS
        for seq, each in enumerate(rows, 1):
            last = follow(each, seq, last)
            check_record(each)

    def judged(self, row: SpoolRow, may_write: Any = MAY_WRITE) -> RowVerdict:
        """What a leader makes of a row."""
        keys = self.leader.drains.keys

        def judge(tx: ITransaction) -> RowVerdict:
            signer = keys.now().get
            return validate_row(row, signer, FACTS, keys.is_member, may_write, tx.sessions.get)

        verdict: RowVerdict = value_of(self.house.store.store.read("judge a row", judge))
        return verdict

    def summed(self, details: dict[str, Any], reason: str = "opens", **fields: Any) -> str:
        """What is wrong with a summary of the Proxy's; nothing: it is good."""
        actor = Actor("node", self.origin.id)
        record = self.origin.record(
            REFUSALS_SUMMARY, actor, reason=reason, details=details, **fields
        )
        return self.judged(self.origin.add(record)).why


class RateTests(Queue):
    """Rule R12, for whom the records are his own."""

    def test_too_fast(self) -> None:
        """A Proxy brings so many rows a minute; sent again they cost nothing; no other waits."""
        rows = [self.origin.first, *(self.origin.summary() for _ in range(399))]
        self.leader.send(self.origin, rows[:150])
        for _ in range(20):
            self.leader.send(self.origin, rows[:50])
        refused = self.assertRaises(TooMany, self.leader.send, self.origin, rows[150:250])
        self.assertEqual((refused.reason, refused.retry_after), ("too_many_requests", 30.0))
        self.assertEqual(len(self.leader.queue()), 150)
        other = Origin(self.house, "edge8")
        self.leader.send(other, [other.first])
        self.house.clock.advance(30.0)
        self.leader.send(self.origin, rows[150:250])
        self.house.clock.advance(120.0)
        self.assertEqual(self.leader.send(self.origin, rows[250:400]).received, 400)

    def test_more_than_a_full_bucket(self) -> None:
        """The longest batch waits for a full bucket, and not for ever; so do new spools."""
        rows = [self.origin.first, *(self.origin.summary() for _ in range(255))]
        self.assertEqual(self.leader.send(self.origin, rows).received, 256)
        self.origin.begin()
        self.assertRaises(TooMany, self.leader.send, self.origin, [self.origin.first])
        self.house.clock.advance(1.0)
        self.leader.send(self.origin, [self.origin.first])

    def test_not_queued(self) -> None:
        """Rows that the store did not take cost nothing."""
        rows = [self.origin.first, *(self.origin.summary() for _ in range(149))]
        self.house.store.mood = "down"
        self.assertRaises(SvcError, self.leader.send, self.origin, rows)
        self.house.store.mood = "well"
        self.leader.send(self.origin, rows)
