"""Sessions that stand on an approval end when whoever approved it is let go."""

from __future__ import annotations

from typing import Any

from svc.authority.sessions.admin import SessionAdmin
from svc.authority.sessions.standing import StandingSessions
from svc.authority.state.recorder import node
from svc.model.policy.approval import ApprovalDecision
from svc.model.session.ending import APPROVER_GONE
from tests.authority.access.test_requests import ZED
from tests.authority.access.test_requests import Case as RequestCase
from tests.authority.house import ADA, AUTHORITY, EVE, value_of


class StandingTests(RequestCase):
    """Ada approved a session of eve's."""

    def setUp(self) -> None:
        super().setUp()
        self.asked: dict[str, str] = {}
        self.told = 0
        house = self.house
        admin = SessionAdmin(
            store=house.store, recorder=house.recorder, asked=self.asked, publish=self.tell
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
