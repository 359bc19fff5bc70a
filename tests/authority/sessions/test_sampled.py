"""A Proxy that records "allow" where the policy says otherwise is found out, and no other."""

from __future__ import annotations

from functools import partial
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred

from svc.audit.ingest.sampled import pick_none
from svc.authority.access.approved import UsedApproval
from svc.authority.policy.recent import LAG_SECS, RecentEngines
from svc.authority.sessions.sampled import ONE_IN, WRONG_ALLOW, SampledAllows, at_random
from svc.errors import StoreUnavailable, SvcError
from svc.model.audit.request import RequestRecord
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.session.grant import Grant
from tests.authority.house import ADA, EVE, POLICY
from tests.authority.test_outbox import Queue
from tests.pki.support import CLUSTER

CLOSED = POLICY.replace('"tcpConnect", Action::"view"', '"view", Action::"view"')


def _byte(at: int, _count: int) -> bytes:
    return bytes([at])


class SampledTests(Queue):
    """Every allow is picked here; the Proxy knows no more of it than elsewhere."""

    def setUp(self) -> None:
        super().setUp()
        self.recent = RecentEngines(self.house.now)
        self.house.clock.advance(LAG_SECS + 1)  # what was before this process matters no more
        self.gated = self.house.gated_sessions()
        self.follow()
        self.leader.drains = evolve(
            self.leader.drains,
            recorded=self.gated.recorded,
            pick=lambda: True,
            decide_again=SampledAllows(
                self.recent, self.gated, self.house.approvals().facts_of
            ).decide_again,
        )
        self.numbers = self.origin.session()

    def follow(self) -> None:
        """The house's engine is in force from now on."""
        assert self.house.policy.engine is not None
        self.recent.came(self.house.policy.engine)

    def request(self, resource: str = "db1", **more: Any) -> RequestRecord:
        """What the Proxy says it allowed."""
        made = self.origin.request(self.numbers, **more)
        asked: AccessRequest = evolve(made.request, resource=EntityUid("TcpService", resource))
        return evolve(made, request=asked)

    def on(self, resource: str, **more: Any) -> RequestRecord:
        """A request of a session on another resource."""
        self.numbers = self.origin.session(resource_id=resource, **more)
        return self.request(resource)

    def drained(self, *requests: RequestRecord) -> list[dict[str, Any]]:
        """What is on record of mismatches once these are in the log."""
        row = self.origin.batch(*requests)
        self.leader.send(self.origin, [self.origin.first, row])
        self.leader.drain()
        self.assertEqual(self.leader.logged([row]), [1])
        return [
            one
            for one in self.house.records()
            if one["event"] in ("session.mismatch", "proxy.distrusted")
        ]

    def test_true_allows(self) -> None:
        """What the policy allows is no mismatch, whatever else is in the batch."""
        denied = evolve(self.request(), decision="deny", reason="denied", policies=())
        self.assertEqual(self.drained(self.request(), denied, self.request()), [])

    def test_a_wrong_allow(self) -> None:
        """The session is a mismatch, and its Proxy opens no gated session any more."""
        requests = self.request(), self.on("prod1"), self.on("vault1")
        found = self.drained(*requests)
        mismatched = [one for one in found if one["event"] == "session.mismatch"]
        self.assertEqual([one["reason"] for one in mismatched], [WRONG_ALLOW] * 2)
        self.assertEqual({one["resource_id"] for one in mismatched}, {"prod1", "vault1"})
        error = self.assertRaises(SvcError, self.gated.trust.require_trusted, self.origin.id)
        self.assertEqual(error.reason, "proxy_distrusted")

    def test_another_person(self) -> None:
        """The person is the one of Authority's own row of the session, not the Proxy's word."""
        found = self.drained(self.on("db1", person_id=EVE))
        self.assertIn(WRONG_ALLOW, [one["reason"] for one in found])

    def test_another_person_by_sql(self) -> None:
        """Nor that of the row, where the grant says whose session it is (rule R8)."""
        self.gated.granted(self.granted())
        self.assertEqual(self.drained(self.request()), [])
        self.numbers = self.origin.session()
        uid = self.numbers.session_uid
        self.gated.granted(evolve(self.granted(), person_id=EVE))
        found = self.drained(self.request())
        self.assertEqual(
            [(one["session_uid"], one["reason"]) for one in found if "session_uid" in one],
            [(uid, WRONG_ALLOW)],
        )

    def test_an_approval_that_nobody_gave(self) -> None:
        """A Proxy that names an approval which Authority never gave the session is found out."""
        made = self.request()
        fact = {"id": "r1", "approver": EVE, "expires": 9}
        asked = evolve(made.request, context={**made.request.context, "approved_request": fact})
        found = self.drained(evolve(made, request=asked))
        self.assertIn(WRONG_ALLOW, [one["reason"] for one in found])

    def by(self, used: UsedApproval, count: int) -> list[dict[str, Any]]:
        """What is found of so many allows by an approval, of which none is picked."""

        async def approvals(session_uid: str, action: str) -> list[UsedApproval]:
            return [used]

        sampled = SampledAllows(self.recent, self.gated, approvals)
        self.leader.drains = evolve(
            self.leader.drains, pick=pick_none, decide_again=sampled.decide_again
        )
        made = [self.request() for _ in range(count)]
        return self.drained(
            *(
                evolve(
                    one,
                    request=evolve(
                        one.request,
                        context={**one.request.context, "approved_request": dict(used.fact)},
                    ),
                )
                for one in made
            )
        )

    def test_an_approval_used_more_often_than_counted(self) -> None:
        """Each allow by an approval of a number of uses is held against what Authority counted."""
        fact = {"id": "r1", "approver": EVE, "expires": 2**40}
        found = self.by(UsedApproval(fact, 2), 3)
        self.assertIn(WRONG_ALLOW, [one["reason"] for one in found])

    def test_as_often_as_counted(self) -> None:
        """What was counted, and an approval without a number of uses, is good."""
        fact = {"id": "r1", "approver": EVE, "expires": 2**40}
        self.assertEqual(self.by(UsedApproval(fact, 2), 2), [])

    def test_any_number(self) -> None:
        """An approval without a number of uses is good for any."""
        fact = {"id": "r1", "approver": EVE, "expires": 2**40}
        self.assertEqual(self.by(UsedApproval(fact, None), 5), [])

    def standing_on(self, **fact: Any) -> RequestRecord:
        """A request of a session of its own that names an approval."""
        self.numbers = self.origin.session()
        made = self.request()
        context = {**made.request.context, "approved_request": {"approver": EVE, **fact}}
        return evolve(made, request=evolve(made.request, context=context))

    def test_the_store_does_not_answer(self) -> None:
        """The rest of a sample is decided though the store fails for one of it, and that one later.

        By the policy that was in force when the records came: it may be long forgotten by then.
        """
        is_away = True

        async def approvals(session_uid: str, action: str) -> list[UsedApproval]:
            if is_away:
                raise StoreUnavailable("store: cut off")
            return [UsedApproval({"id": "good", "approver": EVE, "expires": 2**40}, None)]

        sampled = SampledAllows(self.recent, self.gated, approvals)
        self.leader.drains = evolve(self.leader.drains, decide_again=sampled.decide_again)
        good = self.standing_on(id="good", expires=2**40)
        bad = self.standing_on(id="bad", expires=2**40)
        found = self.drained(good, bad, self.on("prod1"))
        self.assertEqual([one["resource_id"] for one in found if "session_uid" in one], ["prod1"])
        is_away = False
        self.set_policy(CLOSED)
        self.house.clock.advance(LAG_SECS + 1)
        self.successResultOf(Deferred.fromCoroutine(sampled.decide_waiting()))
        found = [one for one in self.house.records() if one["event"] == "session.mismatch"]
        self.assertEqual([one["session_uid"] for one in found][1:], [bad.numbers.session_uid])
        self.successResultOf(Deferred.fromCoroutine(sampled.decide_waiting()))
        self.assertEqual(len(sampled._waiting), 0)

    def test_one_that_cannot_be_decided(self) -> None:
        """A fault about one session's approval does not keep back the others."""

        async def approvals(session_uid: str, action: str) -> list[UsedApproval]:
            if session_uid == broken.numbers.session_uid:
                raise SvcError("its record is damaged", reason="audit_broken")
            return []

        sampled = SampledAllows(self.recent, self.gated, approvals)
        self.leader.drains = evolve(self.leader.drains, decide_again=sampled.decide_again)
        broken = self.standing_on(id="one", expires=2**40)
        bad = self.standing_on(id="two", expires=2**40)
        found = self.drained(broken, bad)
        self.assertEqual(
            [one["session_uid"] for one in found if one["event"] == "session.mismatch"],
            [bad.numbers.session_uid],
        )
        self.assertEqual(len(sampled._waiting), 1)

    def test_what_was_in_force_then(self) -> None:
        """A policy that has just been replaced may still have decided; one long gone may not."""
        before = self.request()
        self.set_policy(CLOSED)
        late = self.request()  # by the snapshot before, which the Proxy still had
        self.assertEqual(self.drained(before, late), [])

    def test_entities_of_then(self) -> None:
        """Whoever has just left a group may still have been allowed by the snapshot before."""
        self.house.run(lambda tx: tx.people.set_groups(ADA, ()))
        self.house.refresh()
        self.follow()
        self.assertEqual(self.drained(self.request()), [])
        self.house.clock.advance(LAG_SECS + 1)
        self.numbers = self.origin.session()
        row = self.origin.batch(self.request())
        self.leader.send(self.origin, [row])
        self.leader.drain()
        reasons = [one.get("reason") for one in self.house.records()]
        self.assertIn(WRONG_ALLOW, reasons)

    def test_before_all_that_is_known(self) -> None:
        """A process that has just begun judges nothing by another's engines."""
        self.recent = RecentEngines(self.house.now)
        self.follow()
        self.leader.drains = evolve(
            self.leader.drains,
            decide_again=SampledAllows(
                self.recent, self.gated, self.house.approvals().facts_of
            ).decide_again,
        )
        self.assertEqual(self.drained(self.on("prod1")), [])

    def test_the_very_entities(self) -> None:
        """An engine over the entities that the Proxy names has the last word at once."""
        self.recent = RecentEngines(self.house.now)
        self.follow()
        self.leader.drains = evolve(
            self.leader.drains,
            decide_again=SampledAllows(
                self.recent, self.gated, self.house.approvals().facts_of
            ).decide_again,
        )
        made = self.on("prod1")
        engine = self.house.policy.engine
        assert engine is not None
        digest = engine.decide(made.request).entities_digest
        found = self.drained(evolve(made, entities_digest=digest))
        self.assertIn(WRONG_ALLOW, [one["reason"] for one in found])

    def test_another_version(self) -> None:
        """A version that was not in force then was no Proxy's, whatever it would have allowed."""
        found = self.drained(evolve(self.request(), policy_version=77))
        self.assertIn(WRONG_ALLOW, [one["reason"] for one in found])

    def test_an_early_time(self) -> None:
        """A time from before the last change does not choose the engine, nor hide the request."""
        self.house.clock.advance(600)
        self.set_policy(CLOSED)
        self.numbers = self.origin.session(started_at=self.house.now() - 600)
        self.house.clock.advance(600)
        self.gated.granted(self.granted())
        early = evolve(self.request(), time=self.house.now() - 1100)
        found = self.drained(early)
        self.assertIn(WRONG_ALLOW, [one["reason"] for one in found])

    def test_how_many(self) -> None:
        """About one in sixty-four is picked."""
        picks = at_random(self.house.entropy)
        drawn = [at_random(partial(_byte, at))() for at in range(256)]
        self.assertEqual(sum(drawn), 256 // ONE_IN)
        self.assertIn(picks(), (True, False))

    def granted(self) -> Grant:
        """A grant of the session, made now."""
        now_ms = int(self.house.now() * 1000)
        return Grant(
            cluster=CLUSTER,
            session_uid=self.numbers.session_uid,
            request_sha256=bytes(32),
            person_id=ADA,
            person_certificate_sha256=bytes(32),
            resource="db1",
            resource_revision=1,
            kind="tcp",
            connector_id=self.house.connector.id,
            proxy_id=self.origin.id,
            policy_version=1,
            audit_hash=bytes(32),
            issued_at_ms=now_ms,
            open_before_ms=now_ms + 30_000,
            end_before_ms=now_ms + 120_000,
            is_gated=True,
        )

    def set_policy(self, text: str) -> None:
        """A text in force."""
        self.house.run(
            lambda tx: tx.policies.activate(tx.policies.add(text, "test", 2.0).version, 2.0)
        )
        self.house.refresh()
        self.follow()
