"""Batches of requests at Authority: judged whole, in the log once, and read as requests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import evolve

from svc.audit.ingest.sampled import SampledAllow
from svc.audit.ingest.validate import validate_row
from svc.audit.log.find import find_entry
from svc.audit.log.requests import RecordedRequest, recorded_requests
from svc.audit.log.selection import Selection
from svc.audit.log.verify import ChainFault, verified_range
from svc.authority.ingest.erase import RequestErasure
from svc.interfaces.store import ITransaction
from svc.model.audit.batch import VALUES, without
from svc.model.audit.outbox import Hold
from svc.model.audit.plain_json import write_plain
from svc.model.audit.spool import SpoolPlace, SpoolRow
from svc.model.policy.access import request_form
from svc.ops.show import LogReader, session_of
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.house import ADA, EVE, refusal_of, value_of
from tests.authority.spools import FACTS, WITH_REQUESTS, Origin
from tests.authority.test_outbox import OPERATOR, Queue
from tests.support.proof import proves

FACT = "proxy_reported"
PATH = f"request.context.{FACT}"


class BatchCase(Queue):
    """A Proxy with two sessions of ada's."""

    def setUp(self) -> None:
        super().setUp()
        self.one, self.two = self.origin.session(), self.origin.session()

    def requests(self, count: int = 4) -> SpoolRow:
        """A batch of requests of both sessions by turns."""
        sessions = (self.one, self.two)
        return self.origin.batch(*(self.origin.request(sessions[at & 1]) for at in range(count)))

    def read(self, look: Any) -> Any:
        """In one snapshot of the store."""
        return value_of(self.house.store.store.read("look", look))

    def why_forged(self, row: SpoolRow) -> str:
        """What is wrong with a batch."""

        def judged(tx: ITransaction) -> str:
            signer = self.leader.drains.keys.now().get
            members = self.leader.drains.keys.is_member
            verdict = validate_row(row, signer, FACTS, members, WITH_REQUESTS, tx.sessions.get)
            self.assertIs(verdict.hold, Hold.FORGED if verdict.why else None)
            return verdict.why

        return str(self.read(judged))

    def changed(self, at: int, **more: Any) -> SpoolRow:
        """A batch whose entry *at* says something else, committed to and signed by its Proxy."""
        sealed = self.origin.sealed(self.origin.request(self.one))
        form = {**json.loads(sealed.text(0, 1)), **more}
        del form["session"], form["session_n"]
        text = write_plain({name: one for name, one in form.items() if one is not None})
        # Members are in order of their names, and none after "session" but the time.
        before, time, after = text.rpartition('"time":')
        other = self.origin.sealed(self.origin.request(self.one))
        values = () if "context" in more else sealed.values
        changed = evolve(
            sealed,
            before=before,
            after=time + after,
            decision_id=str(form["decision_id"]),
            values=values,
        )
        entries = [other] * at + [changed]
        place = SpoolPlace(self.origin.spool_id, self.origin.last + 1, self.origin.tip)
        return self.origin.maker.batch(entries, place, {})


class IntakeTests(BatchCase):
    """What the leader makes of a batch."""

    @proves("G-AUD-11")
    def test_appended_once(self) -> None:
        """A good batch is one record; what is sent again is not appended again."""
        rows = [self.origin.first, self.requests(), self.requests(1)]
        self.leader.send(self.origin, rows)
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [])
        self.assertEqual(self.leader.logged(rows), [1, 1, 1])
        self.leader.send(self.origin, rows)
        self.leader.drain()
        self.assertEqual(self.leader.logged(rows), [1, 1, 1])

    def test_whose_session(self) -> None:
        """A session that was not granted to this Proxy, or of a kind without a gate, is refused."""
        for more, what in (
            ({"proxy_id": "z" * 26}, "not granted"),
            ({"kind": "ssh"}, "has no gate"),
        ):
            numbers = self.origin.session(**more)
            self.assertIn(what, self.why_forged(self.origin.batch(self.origin.request(numbers))))
        self.assertEqual(self.why_forged(self.requests()), "")
        self.one.session_uid = "9" * 32
        self.assertIn("not granted", self.why_forged(self.requests()))

    def test_the_row_of_a_session_is_not_believed(self) -> None:
        """Whose requests they are, of what and whose Proxy's, the record of the opening says."""
        sampled = list[SampledAllow]()

        async def again(found: Iterable[SampledAllow]) -> None:
            sampled.extend(found)

        self.leader.drains.pick, self.leader.drains.decide_again = lambda: True, again
        other = Origin(self.house, "edge9").session()
        self.house.by_sql(
            f"UPDATE sessions SET person_id = '{EVE}', resource_id = 'db2', kind = 'ssh',"
            f" proxy_id = '{'z' * 26}', started_at = 0 WHERE uid = '{self.one.session_uid}'",
            f"UPDATE sessions SET proxy_id = '{self.origin.id}' WHERE uid = '{other.session_uid}'",
        )
        rows = [self.origin.first, self.origin.batch(self.origin.request(self.one))]
        rows.append(self.origin.batch(self.origin.request(other)))
        self.leader.send(self.origin, rows)
        self.leader.drain()
        self.assertEqual(self.leader.logged(rows), [1, 1, 0])
        self.assertEqual(self.leader.holds(), ["forged"])
        [one] = sampled
        self.assertEqual((one.request.principal.id, one.request.resource.id), (ADA, "db1"))
        self.assertEqual(one.proxy_id, self.origin.id)

    def test_an_altered_opening_gives_nothing(self) -> None:
        """A batch of a session whose record of the opening is not the one hashed is held."""
        self.house.by_sql(
            f"UPDATE audit_log SET canonical = replace(canonical, '{ADA}', '{EVE}')"
            f" WHERE session_uid = '{self.one.session_uid}'",
            f"UPDATE sessions SET person_id = '{EVE}' WHERE uid = '{self.one.session_uid}'",
        )
        rows = [self.origin.first, self.origin.batch(self.origin.request(self.one))]
        self.leader.send(self.origin, rows)
        self.leader.drain()
        self.assertEqual((self.leader.logged(rows), self.leader.holds()), ([1, 0], ["forged"]))

    def test_a_row_that_cannot_be_judged(self) -> None:
        """It is held, whatever is wrong with it, and those behind it enter the log."""
        asked = iter(range(9))

        def fails_once() -> bool:
            if not next(asked):
                raise KeyError("no such thing")
            return False

        self.leader.drains.pick = fails_once
        rows = [self.origin.first, self.requests(), self.requests()]
        self.leader.send(self.origin, rows)
        self.leader.drain()
        self.assertEqual((self.leader.logged(rows), self.leader.holds()), ([1, 0, 1], ["forged"]))
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_a_bad_entry_is_named(self) -> None:
        """What no entry may say is forged, and the reason names the entry."""
        for more, what in (
            ({"cedar_action": "sshConnect"}, "no action of its session's kind"),
            ({"action": "web"}, "counts it as another"),
            ({"decision": "maybe"}, "no decision"),
            ({"decision": ["allow"]}, "a text member is missing"),
            ({"policies": [{}]}, "a text member is missing"),
            ({"policies": "['x']"}, "policies are malformed"),
            ({"decision_id": "0" * 32}, "not one of its Proxy's"),
            ({"time": "yesterday"}, "the time is malformed"),
            ({"reason": "password=hunter2"}, "too long, or was not sealed"),
            ({"policies": ["x"] * 65}, "policies are malformed"),
            ({"context": {"unheard_of": 1}}, "not classified"),
            ({"context": {"proxy_reported": {"source_address": "x"}}}, "must be hidden"),
            ({"context": None}, "without its facts"),
            ({"range": [3, 2]}, "range is malformed"),
            ({"frames": "x"}, "malformed"),
            ({"more": 1}, "not those of a request"),
        ):
            why = self.why_forged(self.changed(1, **more))
            self.assertIn("entry 1", why, more)
            self.assertIn(what, why, more)
        self.assertEqual(self.why_forged(self.changed(0, range=[0, 9], frames="f" * 64)), "")

    def test_personal_values(self) -> None:
        """Each hidden value is there once, and a batch lacks none when it comes."""
        row = self.requests()
        value = without(row.personal, 2, PATH)
        assert value is not None
        beside = tuple(value if one.path == VALUES else one for one in row.personal)
        self.assertIn("not those that it hides", self.why_forged(evolve(row, personal=beside)))
        self.assertIn("missing", self.why_forged(evolve(row, personal=row.personal[1:])))

    def test_repeated_ids(self) -> None:
        """A decision id that is in the batch twice, or in the log already, is not taken."""
        first = self.origin.request(self.one)
        again = self.origin.request(self.one, decision_id=first.decision_id)
        self.assertIn("twice", self.why_forged(self.origin.batch(first, again)))
        self.origin = Origin(self.house, "edge9")
        numbers = self.origin.session()
        first = self.origin.request(numbers)
        again = self.origin.request(numbers, decision_id=first.decision_id)
        rows = [self.origin.first, self.origin.batch(first), self.origin.batch(again)]
        self.leader.inject(*rows)
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [Hold.REPLAYED.value])

    def test_single_records(self) -> None:
        """A decision in a record of its own, as an older Proxy writes it, is taken as before."""
        rows = [self.origin.first, self.origin.noted(), self.requests()]
        self.leader.inject(*rows)
        self.leader.drain()
        self.assertEqual(self.leader.logged(rows), [1, 1, 1])


def verified(tx: ITransaction) -> Any:
    """What checking every record finds."""
    return verified_range(1, tx.audit.rows(1, 1000), tx.audit.personal(1, 1000))


class ReadingTests(BatchCase):
    """Entries as records of their own."""

    def setUp(self) -> None:
        super().setUp()
        self.sent = [self.origin.first, self.origin.noted(), self.requests(), self.requests(3)]
        self.leader.inject(*self.sent)
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [])

    def recorded(self) -> list[RecordedRequest]:
        """As replay reads them."""

        def look(tx: ITransaction) -> list[RecordedRequest]:
            rows = tx.audit.rows(1, 1000)
            return list(
                recorded_requests([rows], tx.audit.personal, lambda uid: session_of(tx, uid))
            )

        found: list[RecordedRequest] = self.read(look)
        return found

    def ids(self, row: SpoolRow) -> list[str]:
        """The decision ids in a batch."""
        return [one["decision_id"] for one in json.loads(row.personal[0].value)]

    def test_recorded_requests(self) -> None:
        """Each request comes back exactly."""
        found = self.recorded()
        self.assertEqual([one.index for one in found], [0, 1, 2, 3, 0, 1, 2])
        self.assertEqual({one.told_by for one in found}, {"proxy"})
        asked = request_form(self.origin.request(self.one).request)
        self.assertEqual([one.form for one in found], [asked] * 7)
        self.assertEqual(
            {one.session_uid for one in found}, {self.one.session_uid, self.two.session_uid}
        )

    def test_found(self) -> None:
        """Each decision is found by its id, and no other is."""
        for row in self.sent[2:]:
            for at, id in enumerate(self.ids(row)):
                found = self.read(lambda tx, id=id: find_entry(tx, id))
                self.assertEqual((found.row.canonical, found.index), (row.canonical, at))
        for other in ("0" * 32, "f" * 32, id[:-1] + ("0" if id[-1] != "0" else "1")):
            self.assertIsNone(self.read(lambda tx, other=other: find_entry(tx, other)))

    def test_shown(self) -> None:
        """Entries are shown in their order with person and resource; filters ask each of them."""
        shown = self.read(lambda tx: LogReader(tx).newest(Selection(event="request"), 100)).shown
        self.assertEqual([one.get("index") for one in shown], [0, 1, 2, 3, 0, 1, 2])
        self.assertEqual({one["event"] for one in shown}, {"request.decision"})
        self.assertEqual(
            shown[1]["request"]["context"]["proxy_reported"]["value"],
            {"source_address": "192.0.2.7"},
        )
        two = Selection(event="request", session=self.two.session_uid)
        self.assertEqual(len(self.read(lambda tx: LogReader(tx).newest(two, 100)).shown), 3)
        newest = self.read(lambda tx: LogReader(tx).newest(Selection(decision="allow"), 2))
        self.assertEqual([one["index"] for one in newest.shown], [1, 2])
        self.assertTrue(newest.more)
        [one] = self.read(lambda tx: LogReader(tx).decided(self.ids(self.sent[3])[1])).shown
        self.assertEqual((one["index"], one["actor"]["id"]), (1, ADA))

    def test_whose_it_was_is_on_record(self) -> None:
        """Who asked, and of what, does not change with the unsigned row of a session."""

        def shown() -> list[Any]:
            found = self.read(lambda tx: LogReader(tx).newest(Selection(event="request"), 100))
            return [(one["actor"]["id"], one["resource_id"]) for one in found.shown]

        self.house.by_sql(f"UPDATE sessions SET person_id = '{EVE}', resource_id = 'prod1'")
        self.assertEqual(shown(), [(ADA, "db1")] * 7)
        self.assertEqual({one.form["principal"]["id"] for one in self.recorded()}, {ADA})
        forgetting = self.house.registry().erasure.forget_name
        value_of(forgetting(pb.ForgetNameRequest(person=EVE, records=True), OPERATOR))
        self.assertEqual(self.read(verified).missing, [])
        # Nor does a row that leads to the opening of another session.
        other = self.origin.session(person_id=EVE)
        self.house.by_sql(
            "UPDATE sessions SET decision_id = (SELECT decision_id FROM sessions"
            f" WHERE uid = '{other.session_uid}')"
        )
        found = self.read(lambda tx: LogReader(tx).newest(Selection(event="request"), 1)).shown
        self.assertNotIn("actor", found[0])
        self.assertRaises(ChainFault, self.recorded)

    def test_erased(self) -> None:
        """An operator erases one value of one request; nothing else is lost."""
        row = self.read(lambda tx: find_entry(tx, self.ids(self.sent[3])[1])).row
        erasure = RequestErasure(self.house.store.store, self.house.recorder)
        request = pb.EraseValueRequest(seq=row.seq, index=1, path=PATH, note="asked for")
        answer = value_of(erasure.erase(request, OPERATOR))
        self.assertEqual(answer.seq, self.read(lambda tx: tx.audit.head().seq))
        whole = self.read(verified)
        self.assertEqual((whole.missing, whole.erased), ([f"{row.seq}:1:{PATH}"],) * 2)
        self.assertEqual([one.erased for one in self.recorded()[-3:]], [(), (FACT,), ()])
        shown = self.read(lambda tx: LogReader(tx).numbered(row.seq)).shown
        erased = ["erased" in one["request"]["context"]["proxy_reported"] for one in shown[1:]]
        self.assertEqual(erased, [False, True, False])
        for change in ({}, {"index": 9}, {"seq": 1}, {"seq": 10**6}, {"path": "x"}, {"note": ""}):
            bad = pb.EraseValueRequest(seq=row.seq, index=1, path=PATH, note="again")
            for name, value in change.items():
                setattr(bad, name, value)
            self.assertIn(
                refusal_of(erasure.erase(bad, OPERATOR)).fault.name, ("INVALID", "NOT_FOUND")
            )

    @proves("G-OPEN-67")
    def test_forgotten(self) -> None:
        """All values of a person's requests go, each named, and nobody else's."""
        house = self.house
        erasure = house.registry().erasure
        other = value_of(
            erasure.forget_name(pb.ForgetNameRequest(person=EVE, records=True), OPERATOR)
        )
        self.assertEqual(self.read(verified).missing, [])
        self.assertTrue(other.changed)
        asked = pb.ForgetNameRequest(person=ADA, records=True)
        told = value_of(erasure.forget_name(asked, OPERATOR))
        self.assertEqual((told.id, told.changed), (ADA, True))
        whole = self.read(verified)
        self.assertIsNone(whole.fault)
        self.assertEqual(len(whole.missing), 7)
        self.assertEqual(
            sorted(whole.missing), sorted(one for one in whole.erased if one[:8] != "entities")
        )
        self.assertEqual({one.erased for one in self.recorded()}, {(FACT,)})
        again = value_of(erasure.forget_name(asked, OPERATOR))
        self.assertEqual((again.changed, again.erased), (False, 0))
        person = house.state_cache.state.people[ADA]
        self.assertEqual((person.name, person.known_name), (ADA, ""))

    def test_verified(self) -> None:
        """A missing value is a fault unless a record names it, and so is a missing entry."""
        whole = self.read(verified)
        self.assertEqual((whole.fault, whole.missing), (None, []))
        row = self.read(lambda tx: find_entry(tx, self.ids(self.sent[3])[0])).row
        value = without(self.sent[3].personal, 0, PATH)
        assert value is not None
        run = self.house.store.store.run
        self.assertEqual(value_of(run("x", lambda tx: tx.audit.erase_personal(row.seq, value))), 1)
        self.assertEqual(self.read(verified).missing, [f"{row.seq}:0:{PATH}"])
        self.assertEqual([one.erased for one in self.recorded()[-3:]], [(FACT,), (), ()])
        broken = evolve(value, path="batch.entries", value="[]")
        value_of(run("x", lambda tx: tx.audit.erase_personal(row.seq, broken)))
        self.assertEqual(self.read(verified).fault[:2], (row.seq, "batch"))
