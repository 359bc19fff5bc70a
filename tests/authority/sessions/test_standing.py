"""Sessions that stand on an approval end when whoever approved it is let go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from svc.audit.state.anchor import StateAnchor
from svc.audit.state.in_force import GRACE_SECS, StateView
from svc.authority.registry.credentials import CredentialAdmin
from svc.authority.sessions.admin import SessionAdmin
from svc.authority.sessions.standing import StandingSessions
from svc.authority.state.recorder import node, operator
from svc.messages.control import CountedEnd
from svc.model.policy.approval import ApprovalDecision
from svc.model.session.ending import APPROVER_GONE
from svc.proto.gate.v1 import admin_pb2
from tests.authority.access.test_requests import ZED
from tests.authority.access.test_requests import Case as RequestCase
from tests.authority.house import ADA, AUTHORITY, EVE, value_of
from tests.support.nothing import nothing


class StandingTests(RequestCase):
    """Ada approved a session of eve's."""

    def setUp(self) -> None:
        super().setUp()
        self.asked: dict[str, str] = {}
        self.told = 0
        house = self.house
        admin = SessionAdmin(
            store=house.store,
            recorder=house.recorder,
            asked=self.asked,
            publish=self.tell,
            peers=house.peers,
        )
        self.standing = StandingSessions(house.approvals(), admin, node(AUTHORITY))

    def tell(self) -> None:
        self.told += 1

    def opened(self) -> str:
        """The uid of a session that an approval has just opened."""
        self.entry = self.ask()
        self.decide(self.entry, self.house.ada)
        answer = self.open()
        assert answer.grant is not None
        (uid,) = (
            one.uid
            for one in self.house.run(lambda tx: tx.sessions.open())
            if one.decision_id == answer.decision_id
        )
        return str(uid)

    def ended(self) -> dict[str, str]:
        """What the Proxies are told after a pass."""
        self.house.refresh()
        value_of(self.standing.look())
        return dict(self.asked)

    def disable(self) -> None:
        """Ada is let go."""
        self.house.run(lambda tx: tx.people_changes.disable(ADA))

    def test_goes_on(self) -> None:
        """While the approver stands, also once all is used and the request was given up."""
        self.opened()
        self.assertEqual(self.ended(), {})
        value_of(self.requests.withdraw(self.asker(EVE), str(self.entry.terms["id"])))
        self.assertEqual((self.ended(), self.told), ({}, 0))

    def test_disabled(self) -> None:
        """It ends with a reason, on record, and once."""
        uid = self.opened()
        self.disable()
        self.assertEqual(self.ended(), {uid: APPROVER_GONE})
        self.assertEqual((self.ended(), self.told), ({uid: APPROVER_GONE}, 1))
        (record,) = self.house.records("session.end_asked")
        self.assertEqual((record["session_uid"], record["reason"]), (uid, APPROVER_GONE))
        self.assertEqual(record["actor"]["id"], AUTHORITY)

    def test_disabled_after_a_withdrawal(self) -> None:
        """Giving the request up does not hide the session from the approver's end."""
        uid = self.opened()
        self.house.clock.advance(5)
        value_of(self.requests.withdraw(self.asker(EVE), str(self.entry.terms["id"])))
        self.house.clock.advance(5)
        self.assertEqual(self.ended(), {})
        self.disable()
        self.assertEqual(self.ended(), {uid: APPROVER_GONE})

    def test_the_right_is_lost(self) -> None:
        """It ends once the approver may approve no more; nothing new opens either."""
        uid = self.opened()
        self.house.run(lambda tx: tx.people.set_groups(ADA, ()))
        self.assertEqual(self.ended(), {uid: APPROVER_GONE})
        self.assertIsNone(self.open().grant)

    def test_revoked(self) -> None:
        """It ends with the certificate that approved it."""
        uid = self.opened()

        def revoke(tx: Any) -> None:
            tx.certificates.revoke(self.house.ada.sha256, 2.0)

        self.house.run(revoke)
        self.assertEqual(self.ended(), {uid: APPROVER_GONE})

    def test_signed_out(self) -> None:
        """An approver who signs out has left in order, unless an operator then takes it away."""
        uid, mine = self.opened(), self.house.ada.sha256
        self.house.run(lambda tx: tx.certificates.revoke(mine, 2.0, signed_out=True))
        self.assertEqual(self.ended(), {})
        self.assertIn(mine, self.house.state_cache.state.revoked_certificates)
        self.assertIsNotNone(self.open().grant)
        late = self.ask(reason="another")
        self.assertEqual(self.not_decided(late, self.house.ada), "revoked_certificate")
        credentials = CredentialAdmin(self.house.registry().tokens, {}, nothing)
        request = admin_pb2.ChangePersonRequest(person=ADA)
        answer = value_of(credentials.revoke(request, operator(0)))
        self.assertEqual(list(answer.serials), [mine.hex()])
        self.assertIn(uid, self.ended())
        self.house.by_sql(
            f"UPDATE person_certificates SET signed_out = 1 WHERE sha256 = x'{mine.hex()}'"
        )
        self.assertIsNone(self.open().grant)

    def test_signed_out_by_sql(self) -> None:
        """No SQL makes a certificate that was revoked one whose holder signed out (rule R8)."""
        uid, mine = self.opened(), self.house.ada.sha256
        self.house.run(lambda tx: tx.certificates.revoke(mine, 2.0))
        self.house.by_sql("UPDATE person_certificates SET signed_out = 1")
        self.assertEqual(self.ended(), {uid: APPROVER_GONE})

    def test_hidden_by_sql(self) -> None:
        """SQL that hides or alters the approval or its request ends the session (rule R8)."""
        for change in (
            "DELETE FROM access_approvals",
            "UPDATE access_approvals SET ends_at = 1",
            f"UPDATE access_approvals SET approver = '{ZED}'",
            "DELETE FROM access_approvals; DELETE FROM access_requests",
            "UPDATE access_requests SET state = 'denied'",
            "UPDATE access_requests SET state = 'open', ends_at = asked_at + 1",
            f"UPDATE access_requests SET person_id = '{ZED}'",
            "UPDATE access_requests SET resource_id = 'prod1'",
            "PRAGMA ignore_check_constraints=on; UPDATE access_requests SET state = 'bogus'",
            "UPDATE access_approvals SET certificate = x'00'",
            "UPDATE access_requests SET reason = CAST(x'ff' AS TEXT)",
        ):
            with self.subTest(change):
                self.setUp()
                other = self.uid_of(self.open_session())
                uid = self.opened()
                self.assertEqual(self.ended(), {})
                self.house.by_sql(*change.split("; "))
                value_of(self.standing.look())
                self.assertEqual(self.asked, {uid: APPROVER_GONE})
                self.assertNotIn(other, self.asked)
                self.flushLoggedErrors()

    def test_a_session_hidden_by_sql(self) -> None:
        """SQL that says something else of the session does not spare it (rule R8)."""
        for change in (
            "UPDATE sessions SET end_reason = 'closed'",
            "UPDATE sessions SET decision_id = 'deadbeef'",
            f"UPDATE sessions SET person_id = '{ZED}'",
            "UPDATE sessions SET resource_id = 'prod1'",
            "UPDATE sessions SET state = 'ended', ended_at = 1",
            "PRAGMA ignore_check_constraints=on; UPDATE sessions SET state = 'bogus'",
            "DELETE FROM sessions",
            "UPDATE audit_log SET canonical = replace(canonical, 'approved_request', 'x')",
            "UPDATE audit_log SET canonical = replace(canonical, '\"request\":', '\"q\":')",
            (
                "INSERT INTO state_changes SELECT max(n) + 1, (SELECT min(seq) FROM audit_log WHERE"
                " seq NOT IN (SELECT seq FROM state_changes)), key_id, signature FROM state_changes"
            ),
        ):
            with self.subTest(change):
                self.setUp()
                other = self.uid_of(self.open_session())
                uid = self.opened()
                self.disable()
                self.house.refresh()
                self.house.by_sql(*change.split("; "))
                value_of(self.standing.look())
                self.assertEqual((self.asked, self.told), ({uid: APPROVER_GONE}, 1))
                self.assertNotIn(other, self.asked)
                value_of(self.standing.look())
                self.assertEqual(self.told, 1)
                self.flushLoggedErrors()

    def test_until_its_proxy_says_that_it_is_over(self) -> None:
        """Whatever the row says; another Proxy that says so is not believed."""
        uid = self.opened()
        self.disable()
        self.house.by_sql("DELETE FROM sessions")
        self.assertEqual(self.ended(), {uid: APPROVER_GONE})
        ends = self.house.ends()
        ends.asked = self.asked
        told = [CountedEnd(uid, APPROVER_GONE)]
        value_of(ends.reported("o" * 26, told))
        self.assertEqual(self.ended(), {uid: APPROVER_GONE})
        value_of(ends.reported(self.proxy.id, told))
        self.assertEqual((self.ended(), self.told), ({}, 1))

    def test_a_proxy_without_it(self) -> None:
        """A Proxy that comes back and does not carry it has ended it."""
        uid = self.opened()
        ends = self.house.ends()
        value_of(ends.claimed(self.proxy.id, [uid]))
        self.disable()
        self.assertEqual(self.ended(), {uid: APPROVER_GONE})
        self.asked.clear()
        value_of(ends.claimed(self.proxy.id, []))
        self.assertEqual(self.ended(), {})

    def test_one_broken_record_spares_nobody_elses(self) -> None:
        """An approval that cannot be read is lost, and keeps the sessions of no other going."""
        first = self.opened()
        other = self.ask(reason="another")
        other_id = other.terms["id"]
        self.decide(other, self.zed)
        self.disable()
        self.house.refresh()
        self.house.by_sql(
            f"UPDATE access_requests SET reason = CAST(x'ff' AS TEXT) WHERE id = '{other_id}'"
        )
        value_of(self.standing.look())
        self.assertEqual(self.asked, {first: APPROVER_GONE})
        self.assertEqual(len(self.flushLoggedErrors()), 2)
        read = value_of(self.house.state_cache.reload())
        named = {one.subject for one in read.unsigned}
        self.assertIn(f"access:{other_id}", named)
        self.assertEqual(len(self.flushLoggedErrors()), 1)

    def test_after_a_new_start(self) -> None:
        """What an Authority keeps outside the store says which sessions stand on an approval."""
        uid, used = self.opened(), self.uid_of(self.open_session())
        ledger = self.house.recorder.ledger
        self.house.refresh()
        anchor = StateAnchor(Path(self.mktemp()))
        anchor.keep(ledger.view, rows=True)
        kept = anchor.checkpoint()
        assert kept is not None
        self.assertEqual(kept.sessions, ledger.view.sessions)
        self.assertEqual(set(kept.sessions), {uid})
        self.assertNotIn(used, kept.sessions)
        for view in (kept, StateView()):
            self.asked.clear()
            self.house.by_sql("DELETE FROM sessions")
            ledger.begin_from(view)
            self.house.refresh()
            self.assertEqual(set(ledger.view.sessions), {uid})
        self.disable()
        self.assertEqual(self.ended(), {uid: APPROVER_GONE})

    def test_kept_by_an_earlier_build(self) -> None:
        """What says nothing of sessions is no checkpoint: every record is verified again."""
        self.house.refresh()
        anchor = StateAnchor(Path(self.mktemp()))
        anchor.keep(self.house.recorder.ledger.view, rows=True)
        kept = anchor.path / "state-rows.json"
        form = json.loads(kept.read_bytes())
        del form["sessions"]
        kept.write_text(json.dumps(form))
        self.assertIsNone(anchor.checkpoint())

    def test_no_longer_than_the_approval_is_known(self) -> None:
        """Nothing is kept of a session once its approval is forgotten."""
        self.opened()
        self.house.refresh()
        self.house.clock.advance(3600 + GRACE_SECS + 1)
        value_of(self.house.state_cache.reload())
        self.assertEqual(dict(self.house.recorder.ledger.view.sessions), {})

    def test_a_denied_request(self) -> None:
        """It ends nothing, and neither does an approval that has ended."""
        uid = self.opened()
        denied = self.ask(reason="another")
        self.decide(denied, self.zed, decision=ApprovalDecision.DENY)
        self.house.run(lambda tx: tx.people_changes.disable(ZED))
        self.assertEqual(self.ended(), {})
        self.house.clock.advance(3601)
        self.disable()
        self.assertEqual(self.ended(), {}, uid)

    def test_used_inside(self) -> None:
        """A session that used it for requests inside it ends too; others of the person go on."""
        one = self.open_session()
        self.decide(self.ask(), self.house.ada)
        self.used_by(self.house.request_approvals(), one)
        self.disable()
        self.assertEqual(self.ended(), {self.uid_of(one): APPROVER_GONE})


del RequestCase
