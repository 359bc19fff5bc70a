"""The audit log and its queue, shown by an Authority: what a look at the store itself shows."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log import show
from svc.authority.state.recorder import person
from svc.cli.authority.log.records import RecordQuery, first_records
from svc.errors import Fault, Malformed, NoSuchRow, SvcError
from svc.model.audit.events import OPERATOR_READ, OPERATOR_REFUSED
from svc.model.audit.outbox import Hold, Offered
from svc.ops.asked_records import MOST, AskedRecords
from svc.ops.show import LogReader
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.cli.authority.test_outbox import ORIGIN, SPOOL, a_row
from tests.cli.terminal import LESS, Authority

MANY = 64
"""So many records with ids that begin so are not looked through for the one that is meant."""

ADA, BOB = person("a" * 26), person("b" * 26)


class RecordTests(SynchronousTestCase):
    """A log of fifty refusals of two people, looked through in small parts."""

    def setUp(self) -> None:
        self.authority = authority = Authority()
        self.records = AskedRecords(authority.store, authority.writes, rows=7)
        authority.service.records = self.records.show
        for n in range(50):
            self.write(ADA if n % 10 else BOB, decision_id=f"{n:032x}")

    def write(self, actor: Any, **fields: Any) -> None:
        """One more record."""
        writes = self.authority.writes
        self.wait(
            self.authority.store.run(
                "test", lambda tx: writes.append(tx, OPERATOR_REFUSED, actor, **fields)
            )
        )

    def wait(self, coroutine: Any) -> Any:
        """What a store in memory gives at once."""
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("a store in memory does not wait")

    def ask(self, **asked: Any) -> Any:
        """One call."""
        request = pb.ShowRecordsRequest(**asked)
        return self.authority("ShowRecords", request, pb.ShowRecordsResponse)

    def direct(self, query: RecordQuery) -> Any:
        """What the store itself shows, but for records of looking."""

        def look(tx: Any) -> Any:
            return LogReader(tx).newest(query.selection(tx), query.most)

        return self.wait(self.authority.store.read("test", look))

    def reads(self) -> list[dict[str, Any]]:
        """The records of looking."""
        rows = self.wait(self.authority.store.read("t", lambda tx: tx.audit.rows(1, 1000)))
        found = [json.loads(row.canonical) for row in rows]
        return [one for one in found if one["event"] == OPERATOR_READ.name]

    def test_same_as_the_store(self) -> None:
        """Part by part an operator elsewhere sees what one at the store does, and no more."""

        async def ask(request: pb.ShowRecordsRequest) -> Any:
            return self.authority("ShowRecords", request, pb.ShowRecordsResponse)

        for query in (
            RecordQuery(),
            RecordQuery(most=1),
            RecordQuery(most=1000, person=BOB.id),
            RecordQuery(most=3, person=BOB.id),
            RecordQuery(most=1000, event="operator.refused"),
            RecordQuery(most=5, event="operator.refused"),
            RecordQuery(most=1000, decision=f"{3:032x}"),
            RecordQuery(most=1000, resource="nothing"),
            RecordQuery(most=1000, since=0.0, until=9e9, event="operator.refused"),
            RecordQuery(most=1000, since=4e9),
        ):
            wanted = self.direct(query)
            found = self.wait(first_records(ask, query))
            self.assertEqual(
                list(map(show.as_json, found.shown)), list(map(show.as_json, wanted.shown)), query
            )
            self.assertEqual(found.more, wanted.more, query)

    def test_one(self) -> None:
        """A record by its number, those of a decision; what is not there is refused."""
        (one,) = self.ask(seq=3).records
        self.assertEqual(json.loads(one)["seq"], 3)
        (one,) = self.ask(decision_id=f"{7:032x}").records
        self.assertEqual(json.loads(one)["decision_id"], f"{7:032x}")
        for asked in ({"seq": 10_000}, {"decision_id": "ff" * 16}):
            with self.assertRaises(SvcError) as raised:
                self.ask(**asked)
            self.assertEqual(raised.exception.fault, NoSuchRow.fault)

    def test_beginning(self) -> None:
        """Of a decision's id the beginning is enough, if no other one begins so."""
        first, second = "ab" * 4 + "1" * 24, "ab" * 4 + "2" * 24
        for one in (first, second):
            self.write(ADA, decision_id=one)
        (one,) = self.ask(decision_id=first[:9]).records
        self.assertEqual(json.loads(one)["decision_id"], first)
        (one,) = self.ask(decision_id=second[:20].upper()).records
        self.assertEqual(json.loads(one)["decision_id"], second)
        with self.assertRaises(SvcError) as raised:
            self.ask(decision_id=first[:8])
        self.assertEqual(raised.exception.reason, "ambiguous_id")
        for known in (first, second, "type more digits"):
            self.assertIn(known, raised.exception.text)
        for unknown, why in (
            ("cd" * 6, "no record names a decision or session whose id begins with cdcdcdcdcdcd"),
            ("cd" * 16, "no record names this decision or session"),
            ("abab", "at least the first 8"),
        ):
            with self.assertRaises(SvcError) as raised:
                self.ask(decision_id=unknown)
            self.assertEqual(raised.exception.fault, NoSuchRow.fault)
            self.assertIn(why, raised.exception.text)

    def test_too_many_begin_so(self) -> None:
        """Where more begin so than are looked through, more digits are asked for."""
        for number in range(MANY):
            self.write(ADA, decision_id="ab" * 4 + f"{number:024x}")
        with self.assertRaises(SvcError) as raised:
            self.ask(decision_id="ab" * 4)
        self.assertEqual(raised.exception.fault, NoSuchRow.fault)
        self.assertIn("too many ids begin with abababab: give more digits", raised.exception.text)

    def test_following(self) -> None:
        """What comes later is shown once, and reading by itself is nothing new to record."""
        end = self.ask(most=1).end
        self.write(ADA, decision_id="ee" * 16)
        first = self.ask(most=1, after=end)
        events = [json.loads(one)["event"] for one in first.records]
        self.assertEqual(events, ["operator.read", "operator.refused"])
        before = len(self.reads())
        for _ in range(3):
            first = self.ask(most=1, after=first.end)
        self.assertEqual((list(first.records), len(self.reads())), ([], before))

    def test_recorded(self) -> None:
        """Who looked, and at how many records, is on record."""
        self.ask(most=4)
        (read,) = self.reads()
        self.assertEqual(read["details"], {"count": 4})
        self.assertEqual(read["actor"], {"kind": "operator", "id": "local:1000"})

    def test_right(self) -> None:
        """It takes the right to read the log."""
        self.authority("SetPolicy", pb.SetPolicyRequest(text=LESS), pb.SetPolicyResponse)
        for method, request in (
            ("ShowRecords", pb.ShowRecordsRequest(most=1)),
            ("ListQueue", pb.ListQueueRequest()),
        ):
            with self.assertRaises(SvcError) as raised:
                self.authority(method, request, pb.ShowRecordsResponse)
            self.assertEqual(raised.exception.fault, Fault.DENIED)

    def test_malformed(self) -> None:
        """What asks for more than it may is refused before the log is looked at."""
        for asked in (
            {},
            {"most": MOST + 1},
            {"most": 1, "person": "x" * 257},
            {"most": 1, "after": 2**63},
            {"most": 1, "before": 2**63},
            {"seq": 2**63},
            {"most": 1, "since": -1.0},
            {"most": 1, "since": float("nan")},
            {"most": 1, "until": float("inf")},
        ):
            with self.assertRaises(SvcError) as raised:
                self.ask(**asked)
            self.assertEqual(raised.exception.fault, Malformed.fault, asked)
        self.assertEqual(self.reads(), [])

    def test_queue(self) -> None:
        """Rows that wait are listed with what they say of themselves; held ones alone, if asked."""
        row = a_row()
        rows = [
            Offered(row=row, origin=ORIGIN, spool_id=SPOOL, n=1),
            Offered(row=evolve(row, signature=b""), origin=ORIGIN, spool_id=SPOOL, n=1),
        ]
        store = self.authority.store
        self.wait(store.run("queue", lambda tx: tx.outbox.add(rows, 5.0)))
        self.wait(store.run("hold", lambda tx: tx.outbox.hold(2, Hold.UNSIGNED, 6.0)))
        for held, ids in ((False, [1, 2]), (True, [2])):
            told = self.authority("ListQueue", pb.ListQueueRequest(held=held), pb.ListQueueResponse)
            self.assertEqual([one.id for one in told.rows], ids)
        self.assertEqual((told.rows[0].reason, told.rows[0].origin), ("unsigned", ORIGIN))
        self.assertEqual((told.rows[0].event, told.rows[0].held_at), ("spool.open", 6.0))
