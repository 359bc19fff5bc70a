"""What Authority makes of checkpoints: a session is prolonged, or found out."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.sessions.checkpoints import FORGET_SECS, LATE_SECS
from svc.authority.sessions.trust import ProxyTrust
from svc.errors import SvcError
from svc.messages.control import Ask, CountedEnd
from svc.messages.gated import (
    CheckpointAnswer,
    CheckpointAsk,
    decode_extension,
    encode_checkpoint,
)
from svc.messages.session import decode_grant, decode_request
from svc.model.principal import Role
from svc.model.session.checkpoint import GATED_MS, SessionCheckpoint
from svc.model.session.incidents import DAY_SECS, MOST_INCIDENTS
from svc.model.session.ranges import RequestRange, entry_of, first_head, next_head
from svc.model.session.recorded import RangedRecords
from svc.model.signing import Purpose, Signed, sign
from tests.authority.access.test_requests import ZED
from tests.authority.access.test_requests import Case as RequestCase
from tests.authority.house import ADA, KINDS, Holder, House, refusal_of, value_of
from tests.authority.spools import Reading
from tests.pki.support import CLUSTER

ONE = RequestRange(n=1, offset=0, size=9, tags=bytes(32))


def recorded(uid: str, range_: RequestRange, *, allowed: bool = True) -> RangedRecords:
    """The record of one decision."""
    return RangedRecords(uid, range_.n, [entry_of(*range_, allowed)])


class CheckpointTests(SynchronousTestCase):
    """A gated session of ada's on db1."""

    def setUp(self) -> None:
        self.house = House()
        self.house.serve("db1")
        self.proxy = self.house.row(self.house.proxy)
        self.issuance = self.house.issuance()
        self.kinds = {**KINDS, "tcp": evolve(KINDS["tcp"], opaque=False)}
        self.issuance.kinds = self.kinds
        self.gated = self.issuance.gated
        self.gated.kinds = self.kinds
        self.ask = self.house.ask(self.house.ada, half=bytes(32))
        answer = value_of(self.issuance.authorize(self.ask, self.proxy))
        assert answer.grant is not None
        self.grant = answer.grant
        self.uid = decode_request(self.ask.request).session_uid

    def signed(self, one: SessionCheckpoint, holder: Holder | None = None) -> Signed:
        by = holder or self.house.connector
        data = encode_checkpoint(one)
        return Signed(data, sign(by.key, Purpose.SESSION_CHECKPOINT, data), by.chain)

    def checkpoint(self, n: int = 1, *ranges: RequestRange, **changed: Any) -> SessionCheckpoint:
        head = first_head(self.uid)
        for one in ranges:
            head = next_head(head, one, allowed=True)
        made = SessionCheckpoint(
            cluster=CLUSTER,
            session_uid=self.uid,
            connector_id=self.house.connector.id,
            n=n,
            decisions=len(ranges),
            head=head,
        )
        return evolve(made, **changed)

    def said(self, one: SessionCheckpoint, **changed: Any) -> CheckpointAnswer:
        ask = CheckpointAsk(
            checkpoint=self.signed(one),
            grant=self.grant,
            request=self.ask.request,
            person_chain=self.ask.person_chain,
            source_address="192.0.2.7",
        )
        asking = self.gated.checkpoint(evolve(ask, **changed), self.proxy)
        return value_of(asking)  # type: ignore[no-any-return]

    def refused(self, one: SessionCheckpoint, **changed: Any) -> str:
        with self.assertRaises(SvcError) as caught:
            self.said(one, **changed)
        return str(caught.exception.reason)

    def record(self, *ranges: RequestRange, allowed: bool = True) -> None:
        requests = [recorded(self.uid, one, allowed=allowed) for one in ranges]
        value_of(self.gated.recorded(requests))

    def mismatches(self) -> list[str]:
        return [one["reason"] for one in self.house.records() if one["event"] == "session.mismatch"]

    def unconfirmed(self) -> list[str]:
        return [one["reason"] for one in self.house.records("session.unconfirmed")]

    def is_distrusted(self) -> bool:
        try:
            self.gated.trust.require_trusted(self.proxy.id)
        except SvcError as refusal:
            self.assertEqual(refusal.reason, "proxy_distrusted")
            return True
        return False

    def sweep(self, after: float = 0.0) -> None:
        self.house.clock.advance(after)
        value_of(self.gated.sweep())

    def granted(self, session_uid: str) -> None:
        """One more session."""
        self.house.ada = self.house.person(ADA)  # a certificate that is good now
        ask = self.house.ask(self.house.ada, half=bytes(32), session_uid=session_uid)
        value_of(self.issuance.authorize(ask, self.proxy))

    def test_a_session_without_a_word(self) -> None:
        """A Proxy that spools nothing and relays no checkpoint is on record."""
        self.sweep(GATED_MS / 1000 + LATE_SECS)
        self.assertEqual(self.unconfirmed(), [])
        self.sweep(1)
        self.sweep(1)
        self.assertEqual(self.unconfirmed(), ["no_last_checkpoint"])
        (record,) = self.house.records("session.unconfirmed")
        self.assertEqual(record["session_uid"], self.uid)
        self.assertEqual(record["details"]["proxy_id"], self.proxy.id)

    def test_only_a_first_word(self) -> None:
        """Neither is a checkpoint about nothing enough: it has to be the session's last."""
        self.said(self.checkpoint())
        self.sweep(GATED_MS / 1000 + LATE_SECS + 1)
        self.assertEqual(self.unconfirmed(), ["no_last_checkpoint"])

    def test_by_sql(self) -> None:
        """What is prolonged is decided for the granted resource, whatever the row says."""
        self.house.by_sql(f"UPDATE sessions SET resource_id = 'vault1' WHERE uid = '{self.uid}'")
        self.assertIsNotNone(self.said(self.checkpoint()).extension)

    def test_connector_by_sql(self) -> None:
        """Nor does a row make a session that of a Connector that it was not granted for."""
        other = self.house.node(Role.CONNECTOR, "conn2")
        self.house.refresh()
        self.house.by_sql(
            f"UPDATE sessions SET connector_id = '{other.id}' WHERE uid = '{self.uid}'"
        )
        ask = CheckpointAsk(
            checkpoint=self.signed(self.checkpoint(connector_id=other.id), other),
            grant=self.grant,
            request=self.ask.request,
            person_chain=self.ask.person_chain,
        )
        refusal = refusal_of(self.gated.checkpoint(ask, self.proxy))
        self.assertEqual(refusal.reason, "checkpoint_refused")
        self.gated = self.issuance.gated = self.house.gated_sessions()  # another Authority leads
        self.gated.kinds = self.kinds
        answer = value_of(self.gated.checkpoint(ask, self.proxy))
        self.assertEqual((answer.extension, answer.reason), (None, "checkpoint_refused"))

    def test_an_end_that_was_asked_by_sql(self) -> None:
        """A session that is to end is not prolonged, also where its row says so no more."""
        self.gated.asked_ends = lambda: {self.uid: "ended_by_operator"}
        said = self.said(self.checkpoint())
        self.assertEqual((said.extension, said.reason), (None, "ended_by_operator"))

    def test_a_mismatch_by_sql(self) -> None:
        """It is on record against the Proxy of the grant, whatever the row says, also without."""
        for change in (f"UPDATE sessions SET proxy_id = '{'o' * 26}'", "DELETE FROM sessions"):
            for is_known in (True, False):
                with self.subTest(f"{change}, granted here: {is_known}"):
                    self.setUp()
                    if not is_known:
                        self.gated = self.issuance.gated = self.house.gated_sessions()
                        self.gated.kinds = self.kinds
                    self.said(self.checkpoint())
                    self.house.by_sql(change)
                    self.record(ONE)
                    self.record(ONE)
                    (record,) = self.house.records("session.mismatch")
                    self.assertEqual(record["details"]["proxy_id"], self.proxy.id)
                    self.assertEqual(record["session_uid"], self.uid)
                    self.assertTrue(self.is_distrusted())

    def test_the_last_word(self) -> None:
        """After it a session is confirmed, whoever brought it; it may be about nothing."""
        self.said(self.checkpoint(is_last=True))
        self.sweep(GATED_MS / 1000 + LATE_SECS + 1)
        self.sweep(FORGET_SECS)
        self.assertEqual((self.unconfirmed(), self.mismatches()), ([], []))

    def test_by_another_proxy(self) -> None:
        """Only the last checkpoint of a session may come that way."""
        edge2 = self.house.node(Role.PROXY, "edge2")
        self.house.refresh()
        mine, self.proxy = self.proxy, self.house.row(edge2)
        self.assertEqual(self.refused(self.checkpoint()), "checkpoint_refused")
        self.record(ONE._replace(size=8))
        self.said(self.checkpoint(1, ONE, is_last=True))
        self.assertFalse(self.is_distrusted())
        self.proxy = mine
        self.assertTrue(self.is_distrusted())

    def test_often(self) -> None:
        """A Proxy that goes on like that opens no gated sessions for a day."""
        for n in range(MOST_INCIDENTS + 1):
            self.assertFalse(self.is_distrusted())
            if n:
                self.granted(f"{n:032x}")
            self.sweep(GATED_MS / 1000 + LATE_SECS + 1)
        self.assertTrue(self.is_distrusted())
        (record,) = self.house.records("proxy.distrusted")
        said = record["node_id"], record["reason"]
        self.assertEqual(said, (self.proxy.id, "sessions_unconfirmed"))
        self.house.clock.advance(DAY_SECS + 1)
        self.assertFalse(self.is_distrusted())

    def test_a_proxy_is_killed(self) -> None:
        """All of its sessions are on record; it is trusted as before."""
        for n in range(500):
            self.house.clock.advance(0.2)
            tracked = evolve(decode_grant(self.grant.payload), session_uid=f"{n:032x}")
            end = int(self.house.now() * 1000) + GATED_MS
            self.gated.granted(evolve(tracked, end_before_ms=end))
        self.sweep(GATED_MS / 1000 + LATE_SECS + 1)
        self.assertFalse(self.is_distrusted())

    def test_a_connector_is_killed(self) -> None:
        """Its next process knows nothing of them: on record, and no incident of the Proxy's."""
        for n in range(MOST_INCIDENTS + 2):
            if n:
                self.granted(f"{n:032x}")
            again = evolve(self.house.serve("db1"), instance_id=f"process {n}")
            self.house.registrations.add(again)
            self.sweep(GATED_MS / 1000 + LATE_SECS + 1)
        self.assertEqual(set(self.unconfirmed()), {"connector_restarted"})
        self.assertFalse(self.is_distrusted())

    def test_the_next_leader(self) -> None:
        """It reads from the log who is distrusted, and for how long."""
        self.record(ONE._replace(n=2))
        other, third = "o" * 26, "t" * 26
        for n in range(MOST_INCIDENTS + 1):
            self.gated.trust.unconfirmed("f" * 32, other, "no_last_checkpoint", n * 1000.0)
        value_of(self.gated.trust.write())
        self.gated.trust = trust = ProxyTrust(self.house.store, self.house.recorder, self.house.now)
        value_of(trust.load([self.proxy.id, other, third]))
        for late, distrusted in ((0.0, [self.proxy.id, other]), (DAY_SECS, [self.proxy.id])):
            self.house.clock.advance(late)
            found = []
            for one in (self.proxy.id, other, third):
                try:
                    trust.require_trusted(one)
                except SvcError:
                    found.append(one)
            self.assertEqual(found, distrusted)

    def test_a_short_grant(self) -> None:
        """A gated session is granted for two minutes, another for as long as the certificate."""
        grant = decode_grant(self.grant.payload)
        self.assertEqual(grant.end_before_ms - grant.issued_at_ms, GATED_MS)

    def test_prolonged(self) -> None:
        """By two minutes from now, and by the policy of now."""
        self.record(ONE)
        self.house.clock.advance(30)
        answer = self.said(self.checkpoint(1, ONE))
        assert answer.extension is not None
        self.house.world.verifier.verify_signed(answer.extension, Purpose.GRANT_EXTENSION)
        extension = decode_extension(answer.extension.payload)
        self.assertEqual((extension.session_uid, extension.n), (self.uid, 1))
        now = int(self.house.now() * 1000)
        self.assertEqual(extension.end_before_ms, now + GATED_MS)

    def test_records_that_do_not_come(self) -> None:
        """It goes on for a minute without them; with them, again."""
        one = self.checkpoint(1, ONE)
        self.house.clock.advance(30)
        self.assertIsNotNone(self.said(one).extension)
        self.house.clock.advance(40)
        answer = self.said(evolve(one, n=2))
        self.assertEqual((answer.extension, answer.reason), (None, "records_outstanding"))
        self.record(ONE)
        self.assertIsNotNone(self.said(evolve(one, n=3)).extension)
        self.assertEqual(self.mismatches(), [])

    def test_records_that_are_not_so(self) -> None:
        """It is on record, ends the session, and the Proxy opens no further gated one."""
        self.record(ONE._replace(size=8))
        answer = self.said(self.checkpoint(1, ONE))
        self.assertEqual((answer.extension, answer.reason), (None, "session_mismatch"))
        self.assertEqual(self.mismatches(), ["different_record"])
        self.assertEqual(self.said(self.checkpoint(2, ONE)).reason, "session_mismatch")
        self.assertEqual(self.mismatches(), ["different_record"])
        ask = self.house.ask(self.house.ada, half=bytes(32), session_uid="5" * 32)
        with self.assertRaises(SvcError) as caught:
            value_of(self.issuance.authorize(ask, self.proxy))
        self.assertEqual(caught.exception.reason, "proxy_distrusted")

    def test_a_record_is_left_out_or_invented(self) -> None:
        """Found when the next one comes, or after the person's end."""
        self.record(ONE._replace(n=2))
        self.assertEqual(self.mismatches(), ["missing_record"])
        self.setUp()
        last = self.checkpoint(1, is_last=True, is_whole=True)
        self.assertEqual(self.said(last), CheckpointAnswer())
        self.record(ONE)
        self.assertEqual(self.mismatches(), ["extra_record"])

    def test_records_that_never_come(self) -> None:
        """After the session's end it is found out by time; the Proxy was here to bring them."""
        self.gated.trust.here(self.proxy.id)
        self.said(self.checkpoint(1, ONE, is_last=True))
        self.sweep(FORGET_SECS - 1)
        self.assertEqual(self.mismatches(), [])
        self.sweep(2)
        self.assertEqual(self.mismatches(), ["missing_record"])
        self.assertTrue(self.is_distrusted())

    def test_records_that_were_lost(self) -> None:
        """A Proxy that was away since may have been killed: it is an incident, and on record."""
        self.gated.trust.here(self.proxy.id)
        self.said(self.checkpoint(1, ONE, is_last=True))
        self.gated.trust.away(self.proxy.id)
        self.house.clock.advance(30)
        self.gated.trust.here(self.proxy.id)
        self.sweep(FORGET_SECS)
        self.assertEqual((self.mismatches(), self.unconfirmed()), ([], ["records_outstanding"]))
        self.assertFalse(self.is_distrusted())

    def test_a_mismatch_while_the_store_is_down(self) -> None:
        """The Proxy is distrusted at once; the record is written when the store is back, once."""
        for mood in ("down", "commits, then down"):
            self.setUp()
            self.house.store.mood = mood
            with self.assertRaises(SvcError):
                self.record(ONE._replace(n=2))
            self.house.store.mood = "well"
            with self.assertRaises(SvcError) as caught:
                self.gated.trust.require_trusted(self.proxy.id)
            self.assertEqual(caught.exception.reason, "proxy_distrusted")
            value_of(self.gated.recorded([]))
            value_of(self.gated.recorded([]))
            self.assertEqual(self.mismatches(), ["missing_record"])
            self.assertEqual(len(self.house.records("proxy.distrusted")), 1)
            self.assertEqual(self.said(self.checkpoint(1, ONE)).reason, "session_mismatch")

    def test_a_mismatch_found_at_a_checkpoint_while_no_write_is_done(self) -> None:
        """The session ends all the same; the next checkpoint puts it on record."""
        self.record(ONE._replace(size=8))
        run, self.house.store.mood = self.house.store.read, "down"

        async def reads(desc: str, fn: Any) -> Any:
            self.house.store.mood = "well"
            try:
                return await run(desc, fn)
            finally:
                self.house.store.mood = "down"

        self.gated.store = Reading(self.house.store, reads)
        self.assertEqual(self.said(self.checkpoint(1, ONE)).reason, "session_mismatch")
        self.assertEqual(self.mismatches(), [])
        self.gated.store = self.house.store
        self.house.store.mood = "well"
        self.assertEqual(self.said(self.checkpoint(2, ONE)).reason, "session_mismatch")
        self.assertEqual(self.mismatches(), ["different_record"])

    def test_no_other_session_is_accused(self) -> None:
        """While one mismatch cannot be written, no record of another session is lost."""
        other = self.house.ask(self.house.ada, half=bytes(32), session_uid="5" * 32)
        value_of(self.issuance.authorize(other, self.proxy))
        told = [
            recorded(self.uid, ONE._replace(n=2)),
            recorded("5" * 32, ONE),
        ]
        self.house.store.mood = "down"
        self.failureResultOf(Deferred.fromCoroutine(self.gated.recorded(told)), SvcError)
        self.house.store.mood = "well"
        two = recorded("5" * 32, ONE._replace(n=2))
        value_of(self.gated.recorded([two]))
        found = [one for one in self.house.records() if one["event"] == "session.mismatch"]
        self.assertEqual([one["session_uid"] for one in found], [self.uid])

    def test_who_may_not_go_on(self) -> None:
        """A person who was revoked, and what the policy no longer allows."""
        self.house.run(lambda tx: tx.people.revoke(ADA, 5.0))
        self.house.refresh()
        self.assertEqual(self.said(self.checkpoint()).reason, "revoked_person")

    def test_a_session_that_is_over(self) -> None:
        """An ended session is not prolonged, but its last checkpoint is taken."""
        ends = self.house.ends()
        value_of(ends.reported(self.house.proxy.id, [CountedEnd(self.uid, "closed")]))
        self.assertEqual(self.said(self.checkpoint()).reason, "not_claimed")
        self.assertEqual(self.said(self.checkpoint(2, is_last=True)), CheckpointAnswer())

    def test_what_is_no_checkpoint_of_it(self) -> None:
        """Of another session, Connector or cluster, unsigned, or with another grant."""
        good = self.checkpoint()
        self.assertEqual(self.refused(evolve(good, session_uid="7" * 32)), "checkpoint_refused")
        self.assertEqual(self.refused(evolve(good, cluster="other")), "checkpoint_refused")
        self.assertEqual(self.refused(evolve(good, connector_id="z" * 26)), "checkpoint_refused")
        forged = evolve(self.signed(good), payload=encode_checkpoint(evolve(good, decisions=9)))
        self.assertEqual(self.refused(good, checkpoint=forged), "bad_signature")
        by_proxy = self.signed(good, self.house.proxy)
        self.assertNotEqual(self.refused(good, checkpoint=by_proxy), "")
        self.assertEqual(self.refused(good, request=b"x"), "malformed")
        other = self.house.ask(self.house.ada, half=bytes(32), session_uid="7" * 32).request
        said = self.said(evolve(good, n=3), request=other)
        self.assertEqual((said.extension, said.reason), (None, "checkpoint_refused"))
        self.assertEqual(self.said(evolve(good, n=2), grant=None).reason, "checkpoint_refused")


class ApprovedCheckpointTests(RequestCase):
    """Eve has a gated session by an approval of a minute, and zed one by one of an hour."""

    def setUp(self) -> None:
        super().setUp()
        kinds = {**KINDS, "tcp": evolve(KINDS["tcp"], opaque=False)}
        self.issuance.kinds = kinds
        self.gated = self.issuance.gated
        self.gated.kinds = kinds
        self.decide(self.ask(secs=60), self.house.ada)
        self.eves, self.eves_grant = self.opened(self.house.eve, "5" * 32)
        self.decide(self.ask(ZED), self.house.ada)
        _, self.zeds_grant = self.opened(self.zed, "7" * 32)

    def opened(self, who: Holder, session_uid: str) -> tuple[Ask, Signed]:
        ask = self.house.ask(who, "prod2", "deny", half=bytes(32), session_uid=session_uid)
        answer = value_of(self.issuance.authorize(ask, self.proxy))
        assert answer.grant is not None
        return ask, answer.grant

    def said(self, n: int) -> CheckpointAnswer:
        """The answer to the next checkpoint of eve's."""
        one = SessionCheckpoint(
            cluster=CLUSTER,
            session_uid="5" * 32,
            connector_id=self.house.connector.id,
            n=n,
            decisions=0,
            head=first_head("5" * 32),
        )
        data = encode_checkpoint(one)
        key, chain = self.house.connector.key, self.house.connector.chain
        ask = CheckpointAsk(
            checkpoint=Signed(data, sign(key, Purpose.SESSION_CHECKPOINT, data), chain),
            grant=self.eves_grant,
            request=self.eves.request,
            person_chain=self.eves.person_chain,
            source_address="192.0.2.7",
        )
        return value_of(self.gated.checkpoint(ask, self.proxy))  # type: ignore[no-any-return]

    def test_no_longer_than_the_approval(self) -> None:
        """It goes on until its approval ends, and not a second more."""
        extension = self.said(1).extension
        assert extension is not None
        end_ms = decode_extension(extension.payload).end_before_ms
        self.assertEqual(end_ms, int(self.house.now() + 60) * 1000)
        self.house.clock.advance(60)
        self.assertEqual(self.said(2).reason, "policy_changed")

    def test_by_sql(self) -> None:
        """Another session's approval prolongs nothing, whatever the row says (rule R8)."""
        self.said(1)
        self.house.by_sql(
            "UPDATE sessions SET decision_id = (SELECT decision_id FROM sessions "
            f"WHERE uid = '{'7' * 32}') WHERE uid = '{'5' * 32}'"
        )
        self.assertEqual(self.said(2).reason, "policy_changed")

    def test_by_an_altered_record(self) -> None:
        """Nor does the record of the opening, once somebody wrote another approval into it."""
        self.said(1)
        mine, theirs = (
            one["request"]["context"]["approved_request"]["id"]
            for one in self.house.records("session.start")
        )
        self.house.by_sql(
            f"UPDATE audit_log SET canonical = replace(canonical, '{mine}', '{theirs}') "
            "WHERE event = 'session.start'"
        )
        self.assertEqual(self.said(2).reason, "policy_changed")


del RequestCase
