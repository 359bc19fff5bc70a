"""The audit queue: what the leader takes, what it holds and why, what it says is missing."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.ingest.validate import validate_row
from svc.errors import SvcError
from svc.messages.spooled import SpoolState
from svc.model.audit.events import POLICY_ACTIVATE, ROLE_START, SESSION_START
from svc.model.audit.ledger import GENESIS
from svc.model.audit.outbox import Hold
from svc.model.audit.record import Actor
from svc.model.audit.spool import SpoolRow
from svc.model.canonical import decode, encode
from svc.model.principal import Role
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.house import ADA, House, refusal_of, value_of
from tests.authority.spools import FACTS, WITH_REQUESTS, Leader, Origin
from tests.support.proof import proves

OPERATOR = Actor("operator", "local:0")
UNSIGNED, UNKNOWN, FORGED, REPLAYED = "unsigned", "unknown_key", "forged", "replayed"


class Queue(SynchronousTestCase):
    """A leader, and a Proxy with an audit key."""

    def setUp(self) -> None:
        self.house = House()
        self.leader = Leader(self.house)
        self.origin = Origin(self.house, "edge7")

    def events(self, *names: str) -> list[dict[str, Any]]:
        """Records of these events: reason and details."""
        found = [one for one in self.house.records() if one["event"] in names]
        return [one.get("details", {}) | {"reason": one.get("reason")} for one in found]

    def rows(self, count: int) -> list[SpoolRow]:
        """The spool's first rows."""
        return [self.origin.first, *(self.origin.noted() for _ in range(count - 1))]


class DrainTests(Queue):
    """What the leader makes of rows."""

    def test_good_rows(self) -> None:
        """Each is in the log once, as it was signed, with the values that it hides."""
        rows = [self.origin.first, self.origin.noted(), self.origin.summary()]
        self.leader.inject(*rows)
        self.leader.drain()
        self.assertEqual(self.leader.logged(rows), [1, 1, 1])
        self.assertEqual((self.leader.queue(), self.leader.held), ((), []))

        def look(tx: Any) -> Any:
            links = tx.audit.tail(3)
            return links, tx.audit.personal(links[0].seq, links[2].seq)

        links, personal = value_of(self.house.store.store.read("look", look))
        self.assertEqual([link.signature for link in links], [row.signature for row in rows])
        kept = {seq: sorted(one.path for one in values) for seq, values in personal.items()}
        self.assertEqual(kept, {links[1].seq: sorted(one.path for one in rows[1].personal)})
        self.assertEqual(len(rows[1].personal), 2)

    @proves("G-AUD-05", "G-AUD-06", "G-AUD-07", "G-AUD-08", "G-AUD-09", "G-OPEN-13", "U-FLT-06")
    def test_bad_rows(self) -> None:
        """One row of each sort is held for its reason, once, and good rows behind it go on."""
        rows = self.rows(2)
        self.leader.inject(*rows)
        self.leader.drain()
        good = self.origin.noted()
        bad = [
            evolve(good, signature=b""),
            evolve(good, key_id="0" * 64),
            evolve(good, signature=good.signature[::-1]),
            rows[1],
        ]
        self.leader.inject(*bad, good)
        for _ in range(10):
            self.leader.drain()
            self.house.clock.advance(3600.0)
        wanted = [UNSIGNED, UNKNOWN, FORGED, REPLAYED]
        self.assertEqual(self.leader.holds(), wanted)
        self.assertEqual(self.leader.held, wanted)
        self.assertEqual(self.leader.logged([rows[1], good]), [1, 1])
        told = self.events("audit.held")
        self.assertEqual([one["reason"] for one in told], wanted)
        self.assertEqual({one["first_n"] for one in told}, {2, 3})

    @proves("G-OPEN-13")
    def test_first_fault(self) -> None:
        """Of several things wrong with a row the first that is looked for is the reason."""
        rows = self.rows(2)
        self.leader.inject(*rows)
        self.leader.drain()
        self.leader.inject(
            evolve(rows[1], signature=b"", key_id="0" * 64),
            evolve(rows[1], signature=rows[1].signature[::-1], key_id="0" * 64),
            evolve(rows[1], signature=rows[1].signature[::-1]),
        )
        self.leader.drain()
        self.assertEqual(self.leader.held, [UNSIGNED, UNKNOWN, FORGED])

    def test_stopped(self) -> None:
        """A leader that stops while it writes a row leaves it in the queue, and holds nothing."""
        self.leader.inject(self.origin.first)
        self.house.store.mood = "silent"
        draining = Deferred.fromCoroutine(self.leader.drains.drain())
        self.house.store.mood = "well"
        draining.cancel()
        self.failureResultOf(draining, CancelledError)
        self.assertEqual(self.leader.holds(), [None])
        self.leader.drain()
        self.assertEqual((self.leader.queue(), self.leader.held), ((), []))

    @proves("X-15")
    def test_held_once(self) -> None:
        """After a change of the leader a held row is not counted again."""
        self.leader.inject(evolve(self.origin.first, signature=b""))
        self.leader.drain()
        self.assertEqual(self.leader.held, [UNSIGNED])
        successor = Leader(self.house)
        for _ in range(10):
            successor.drain()
        self.assertEqual((successor.held, successor.holds()), ([], [UNSIGNED]))
        self.assertEqual(len(self.events("audit.held")), 1)

    def test_a_node_that_is_not_registered(self) -> None:
        """Rows of a node that nobody knows are held as those of an unknown key, on one record."""
        elsewhere = Leader(House())
        elsewhere.inject(*self.rows(3))
        elsewhere.drain()
        self.assertEqual(elsewhere.held, [UNKNOWN] * 3)
        (told,) = elsewhere.house.records("audit.held")
        self.assertEqual(told["details"]["count"], 3)

    @proves("G-OPEN-14")
    def test_the_very_row_drains_once_its_key_is_known(self) -> None:
        """A held row of an unknown key leaves the queue by itself when the key comes in force."""
        rows = self.rows(2)
        node_id = self.origin.id
        self.house.by_sql(f"UPDATE nodes SET state = 'revoked' WHERE id = '{node_id}'")
        self.house.run(lambda tx: None)  # signs what the table holds: revoked
        self.house.refresh()
        self.leader.inject(*rows)
        self.leader.drain()
        self.assertEqual(self.leader.held, [UNKNOWN] * 2)
        self.house.by_sql(f"UPDATE nodes SET state = 'active' WHERE id = '{node_id}'")
        self.house.refresh()
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [UNKNOWN] * 2, "by SQL alone no key is in force")
        self.house.run(lambda tx: None)
        self.house.refresh()
        self.leader.drain()
        self.assertEqual((self.leader.holds(), self.leader.logged(rows)), ([], [1, 1]))
        self.assertEqual(self.leader.held, [UNKNOWN] * 2)

    def test_a_key_revoked_meanwhile(self) -> None:
        """The key must be in force in the transaction that writes, whatever was known before."""
        rows = self.rows(2)
        self.leader.inject(*rows)
        node_id = self.origin.id
        self.house.by_sql(f"UPDATE nodes SET state = 'revoked' WHERE id = '{node_id}'")
        self.leader.drain()
        self.assertEqual((self.leader.holds(), self.leader.logged(rows)), ([None] * 2, [0, 0]))

    def test_an_audit_key_put_into_the_table(self) -> None:
        """A key that somebody wrote into the table signs nothing (rule R8)."""
        other = Origin(House(), "eve")
        self.house.by_sql(
            f"UPDATE nodes SET audit_key = x'{other.key.public_key().public_bytes_raw().hex()}'"
            f" WHERE id = '{self.origin.id}'"
        )
        self.house.refresh()
        canonical = self.origin.noted().canonical
        row = other.signed(
            SpoolRow(canonical=canonical, personal=(), key_id=other.maker.key_id, signature=b""),
            canonical,
        )
        self.leader.inject(row)
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [UNKNOWN])

    def test_what_an_origin_may_not_say(self) -> None:
        """A record that its signer may not write is forged, though the signature is good."""
        said = self.origin.record
        row = self.origin.noted()
        record = decode(row.canonical)
        assert isinstance(record, dict)
        foreign = Origin(self.house, "edge8")
        bad = [
            {**record, "origin": foreign.id},
            {**record, "key_id": "0" * 64},
            {**record, "state": {"n": 1, "prev": "00" * 32, "rows": []}},
            {**record, "actor": {"kind": "operator", "id": "local:0"}},
            {**record, "code": "SVC1900E"},
            {**record, "more": 1},
            {**record, "time": "2026-02-30T00:00:00.000000Z"},
            {**record, "details": {"password": "x"}},
            {**record, "details": {"source_address": "192.0.2.7"}},
            {**record, "details": {"proxy_id": foreign.id}},
            {**record, "request": 1},
            {key: value for key, value in record.items() if key != "severity"},
        ]
        rows = [self.origin.signed(row, encode(each)) for each in bad]
        self.origin.last -= 1
        for event in (SESSION_START, POLICY_ACTIVATE, ROLE_START):
            rows.append(self.origin.add(said(event, Actor("person", ADA))))
        rows.append(evolve(row, personal=row.personal[:1]))
        rows.append(evolve(row, personal=(*row.personal, row.personal[0])))
        rows.append(evolve(row, personal=(evolve(row.personal[0], value='"x"'), row.personal[1])))
        for each in rows:
            signer = self.leader.drains.keys.now().get
            verdict = validate_row(each, signer, FACTS, may_write=WITH_REQUESTS)
            self.assertIs(verdict.hold, Hold.FORGED, each)
        self.leader.inject(*rows)
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [FORGED] * len(rows))
        self.assertEqual(len(self.events("audit.held")), 2, "those of one place stand together")

    def test_a_connector_writes_nothing(self) -> None:
        """A Connector has no spool: its audit key is good for no row."""
        origin = Origin(self.house, "conn7", Role.CONNECTOR)
        self.leader.inject(origin.first)
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [UNKNOWN])

    def test_two_histories(self) -> None:
        """A row that does not follow those before it is forged: one key signed two histories."""
        rows = self.rows(3)
        self.leader.inject(*rows[:2])
        self.leader.drain()
        record = decode(rows[2].canonical)
        assert isinstance(record, dict)
        record["spool"] = {**record["spool"], "prev": "11" * 32}
        self.leader.inject(self.origin.signed(rows[2], encode(record)), rows[2])
        self.leader.drain()
        self.assertEqual((self.leader.holds(), self.leader.logged(rows)), ([FORGED], [1, 1, 1]))

    def test_an_event_id_again(self) -> None:
        """A new row with the id of an accepted one is replayed."""
        rows = self.rows(2)
        self.leader.inject(*rows)
        later = self.origin.noted()
        record = decode(later.canonical)
        assert isinstance(record, dict)
        first = decode(rows[1].canonical)
        assert isinstance(first, dict)
        again = {**record, "event_id": first["event_id"]}
        self.leader.inject(self.origin.signed(later, encode(again)))
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [REPLAYED])

    def test_a_row_the_store_cannot_take(self) -> None:
        """A row that cannot be written is held, and keeps nothing back."""
        rows = self.rows(3)
        self.leader.inject(*rows)
        taken = [row.id for row in self.leader.queue()]
        # The memory is gone, but the log has a row of that place.
        self.house.by_sql(
            "INSERT INTO audit_origins (seq, queue_id, event_id, origin, spool_id, n)"
            f" VALUES (1, {taken[-1] + 99}, 'e', '{self.origin.id}', '{self.origin.spool_id}', 2)"
        )
        self.leader.drain()
        self.assertEqual((self.leader.holds(), self.leader.logged(rows)), ([REPLAYED], [1, 0, 1]))

    def test_a_row_that_vanishes(self) -> None:
        """A row deleted between the look at it and the write is not appended; the others are."""
        rows = self.rows(3)
        self.leader.inject(*rows)
        seen = value_of(self.leader.drains._look(is_last=True)).judged
        self.house.by_sql("DELETE FROM outbox WHERE n = 2")
        value_of(self.leader.drains._take(seen))
        self.assertEqual((self.leader.logged(rows), self.leader.queue()), ([1, 0, 1], ()))

    def test_rubbish(self) -> None:
        """Whatever is in the queue, each row is held for a reason and none stops the others."""
        good = self.rows(2)
        signed = self.origin.signed
        rubbish = [b"", b"{", b"\xff\xfe", b"[]", b'{"a":1.5}', b'"x"', b"{" * 5000, b"null"]
        rows = [signed(good[1], each) for each in rubbish]
        self.leader.inject(
            *rows, SpoolRow(canonical=b"\xff", personal=(), key_id="", signature=b""), *good
        )
        self.house.by_sql("UPDATE outbox SET key_id = x'ff00', personal = x'5b315d' WHERE id = 1")
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [UNKNOWN, *[FORGED] * (len(rows) - 1), UNSIGNED])
        self.assertEqual(self.leader.logged(good), [1, 1])

    def test_queued_by_an_earlier_build(self) -> None:
        """Rows that waited while the build was replaced are taken, with what stands beside them."""
        rows = self.rows(2)
        self.leader.inject(*rows)
        for id, row in enumerate(rows, 1):
            beside = [[one.path, b64encode(one.salt).decode(), one.value] for one in row.personal]
            written = encode(beside).hex()
            self.house.by_sql(f"UPDATE outbox SET personal = x'{written}' WHERE id = {id}")
        self.assertTrue(any(row.personal for row in rows))
        self.leader.drain()
        self.assertEqual((self.leader.logged(rows), self.leader.holds()), ([1, 1], []))


class IntakeTests(Queue):
    """What Proxies bring."""

    def test_how_far(self) -> None:
        """Received is what is durable without a hole, covered what a head was signed over."""
        rows = self.rows(5)
        self.assertEqual(self.leader.send(self.origin), SpoolState(0, 0))
        self.assertEqual(self.leader.send(self.origin, rows[:2]), SpoolState(2, 0))
        self.assertEqual(self.leader.send(self.origin, rows[3:]), SpoolState(2, 0))
        self.leader.drain()
        self.assertEqual(self.leader.send(self.origin), SpoolState(2, 0))
        self.leader.covers()
        self.assertEqual(self.leader.send(self.origin), SpoolState(2, 2))
        self.assertEqual(self.leader.send(self.origin, rows[2:3]), SpoolState(5, 2))
        self.leader.drain()
        self.assertEqual(self.leader.send(self.origin), SpoolState(5, 2))
        self.leader.covers()
        self.assertEqual(self.leader.send(self.origin), SpoolState(5, 5))
        self.assertEqual(self.leader.nudged, 3)

    def test_sent_again(self) -> None:
        """Rows that are there already are not queued again: nothing is held as replayed."""
        rows = self.rows(4)
        self.leader.send(self.origin, rows[:2])
        self.leader.send(self.origin, [*rows, *rows])
        self.assertEqual(len(self.leader.queue()), 4)
        self.leader.drain()
        self.assertEqual(self.leader.send(self.origin, rows), SpoolState(4, 0))
        self.leader.drain()
        self.assertEqual((self.leader.held, self.leader.queue()), ([], ()))
        self.assertEqual(self.leader.logged(rows), [1] * 4)

    def test_rows_of_another(self) -> None:
        """A row that names another node or spool, or no place, is refused with all beside it."""
        other = Origin(self.house, "edge8")
        first = self.origin.first
        for rows, reason in (
            ([first, other.first], "other_origin"),
            (
                [first, SpoolRow(canonical=b"{}", personal=(), key_id="k", signature=b"s")],
                "malformed",
            ),
        ):
            row = self.house.row(self.origin.holder)
            refused = refusal_of(self.leader.intake.take(row, self.origin.spool_id, rows))
            self.assertEqual(refused.reason, reason)
        refused = refusal_of(
            self.leader.intake.take(self.house.row(self.origin.holder), "0" * 32, [first])
        )
        self.assertEqual(refused.reason, "other_origin")
        self.assertEqual(self.leader.queue(), ())

    def test_a_spool_id_of_another(self) -> None:
        """Whoever uses the id of another's spool has a spool of its own under it, and no more."""
        rows, other = self.rows(4), Origin(self.house, "edge8")
        self.leader.inject(evolve(rows[0], signature=b""))
        self.leader.drain()
        bad = self.leader.queue()[0].id
        discard = pb.DiscardRowRequest(id=bad, note="a test")
        value_of(self.leader.admin.discard(discard, OPERATOR))
        other.spool_id, other.last, other.tip = self.origin.spool_id, 0, GENESIS
        theirs = [other.add(other.maker.opening(other.spool_id, ())), other.noted()]
        self.assertEqual(self.leader.send(other, theirs), SpoolState(2, 0))
        self.assertEqual(self.leader.send(self.origin, rows[1:3]), SpoolState(0, 0))
        self.leader.drain()
        self.assertEqual(self.leader.send(other), SpoolState(2, 0))
        self.assertEqual(self.leader.send(self.origin, rows), SpoolState(4, 0))
        self.leader.covers()
        self.assertEqual(self.leader.send(other), SpoolState(2, 2))
        self.leader.drain()
        self.assertEqual(self.leader.logged([*rows, *theirs]), [1] * 6)
        self.assertEqual((self.leader.queue(), self.leader.held), ((), [UNSIGNED]))
        self.leader.covers()
        self.assertEqual(self.leader.send(self.origin), SpoolState(4, 4))

    def test_shares(self) -> None:
        """Nobody has more than an eighth of the queue, and all Proxies three quarters."""
        self.leader.intake.max_rows = 80
        rows = self.rows(11)
        self.assertEqual(self.leader.send(self.origin, rows[:10]).received, 10)
        refused = self.refused(self.origin, rows[10:])
        self.assertEqual(refused.reason, "audit_queue_full")
        self.assertEqual(self.leader.send(self.origin, rows[:10]).received, 10)
        for number in range(5):
            other = Origin(self.house, f"edge{20 + number}")
            more = [other.first, *(other.noted() for _ in range(9))]
            self.leader.send(other, more)
        last = Origin(self.house, "edge40")
        self.assertEqual(self.refused(last, [last.first]).reason, "audit_queue_full")
        self.leader.drain()
        self.assertEqual(self.leader.send(last, [last.first]).received, 1)
        self.leader.intake.max_bytes = 800
        self.assertEqual(self.refused(last, [last.noted()]).reason, "audit_queue_full")

    def refused(self, origin: Origin, rows: list[SpoolRow]) -> SvcError:
        """The refusal of these rows."""
        row = self.house.row(origin.holder)
        return refusal_of(self.leader.intake.take(row, origin.spool_id, rows))

    def test_what_was_thrown_away(self) -> None:
        """A row that an operator discarded is settled when its origin brings it again."""
        rows = self.rows(4)
        bad = evolve(rows[1], signature=b"")
        sent = [rows[0], bad, *rows[2:]]
        self.leader.send(self.origin, sent)
        self.leader.drain()
        self.leader.covers()
        self.assertEqual(self.leader.send(self.origin), SpoolState(4, 1))
        (row,) = self.leader.queue()
        value_of(self.leader.admin.discard(pb.DiscardRowRequest(id=row.id, note="why"), OPERATOR))
        self.assertEqual(self.leader.send(self.origin), SpoolState(1, 1))
        self.assertEqual(self.leader.send(self.origin, sent[1:]), SpoolState(4, 4))
        self.leader.drain()
        self.assertEqual((self.leader.holds(), self.leader.logged(rows)), ([], [1, 0, 1, 1]))


class DeskTests(Queue):
    """What operators do with held rows."""

    def held(self, row: SpoolRow) -> int:
        """The number of a row once it is held."""
        self.leader.inject(row)
        self.leader.drain()
        return self.leader.queue()[-1].id

    def refusal(self, row_id: int, note: str = "why") -> SvcError:
        """Of letting a row go."""
        request = pb.ReleaseRowRequest(id=row_id, note=note)
        return refusal_of(self.leader.admin.release(request, OPERATOR))

    @proves("G-OPEN-14")
    def test_discard(self) -> None:
        """A discarded row is in the log by its digest, with who, why and for what it was held."""
        bad = evolve(self.origin.first, signature=b"")
        row_id = self.held(bad)
        request = pb.DiscardRowRequest(id=row_id, note="a test wrote it")
        answer = value_of(self.leader.admin.discard(request, OPERATOR))
        self.assertEqual(self.leader.queue(), ())
        (record,) = self.house.records("audit.discarded")
        self.assertEqual(record["actor"], {"kind": "operator", "id": "local:0"})
        self.assertEqual((record["reason"], record["node_id"]), (UNSIGNED, self.origin.id))
        self.assertEqual(record["details"]["record_digest"], answer.record_digest)
        self.assertEqual(record["details"]["held_event_id"], json.loads(bad.canonical)["event_id"])
        again = refusal_of(self.leader.admin.discard(request, OPERATOR))
        self.assertEqual(again.reason, "not_found")

    def test_release_refuses(self) -> None:
        """What is unsigned, forged or in the log already never enters it by an operator's word."""
        rows = self.rows(3)
        self.leader.inject(rows[0], rows[1])
        self.leader.drain()
        bad = [
            evolve(rows[2], signature=b""),
            evolve(rows[2], signature=bytes(64)),
            evolve(rows[2], key_id="0" * 64),
            rows[1],
        ]
        for each in bad:
            row_id = self.held(each)
            self.assertEqual(self.refusal(row_id).reason, "row_not_releasable")
        before = len(self.house.records())
        self.assertEqual(self.refusal(99).reason, "not_found")
        self.assertEqual(self.refusal(row_id, " ").reason, "malformed")
        self.assertEqual(self.refusal(row_id, "x" * 2000).reason, "malformed")
        self.leader.inject(rows[2])
        self.assertEqual(self.refusal(self.leader.queue()[-1].id).reason, "row_not_held")
        self.assertEqual(len(self.house.records()), before)
        self.assertEqual(len(self.leader.queue()), 5)

    @proves("G-OPEN-14")
    def test_release(self) -> None:
        """A row that a node wrote before it was revoked is appended on an operator's word."""
        rows = self.rows(2)
        self.house.run(lambda tx: tx.nodes.revoke(self.origin.id, 5.0))
        self.house.refresh()
        self.leader.inject(*rows)
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [UNKNOWN] * 2)
        for row in self.leader.queue():
            request = pb.ReleaseRowRequest(id=row.id, note="written before it was revoked")
            value_of(self.leader.admin.release(request, OPERATOR))
        self.assertEqual((self.leader.queue(), self.leader.logged(rows)), ((), [1, 1]))
        released = self.events("audit.released")
        self.assertEqual([one["first_n"] for one in released], [1, 2])
        self.assertEqual({one["reason"] for one in released}, {UNKNOWN})
