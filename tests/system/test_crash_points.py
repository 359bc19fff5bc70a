"""The Authority dies at the points of an append where a record could be lost or doubled."""

from __future__ import annotations

import os

from svc.model.events import SESSION_START
from tests.proof import proves
from tests.system.killing import KillCase
from tests.system.traffic import Traffic

CRASHED = 137
KILLS = 20 if os.environ.get("SVC_LONG") == "1" else 1
PAST_START = 25
"""More commits than an Authority makes until it is ready."""

VISITORS = 4


@proves("G-AUD-01")
class CrashPoints(KillCase):
    """No session without a record, whatever instant the Authority dies at."""

    def setUp(self) -> None:
        """Leave the Authority as it was."""
        super().setUp()
        self.addCleanup(self.set_crash, "")

    def set_crash(self, point: str) -> None:
        """Where the next Authority dies; empty: nowhere."""
        authority = self.gateway.child("authority")
        environ = {**authority.environ, "SVC_CRASH_AT": point}
        authority.environ = {k: v for k, v in environ.items() if v}

    def test_before_commit(self) -> None:
        """Dying before a commit leaves neither a session nor a grant."""
        self.crash_again_and_again("before_commit")

    def test_after_commit(self) -> None:
        """Dying after a commit leaves a record and a session that nobody was given."""
        self.assertNotIn(0, self.crash_again_and_again("after_commit"))

    def test_before_answer(self) -> None:
        """Dying before the answer leaves a record and a session that nobody was given."""
        self.assertNotIn(0, self.crash_again_and_again("before_answer"))

    def crash_again_and_again(self, point: str) -> list[int]:
        """Crash under sessions that are only opened; how many each time were given to nobody."""
        authority = self.gateway.child("authority")
        authority.stop()
        known = self.allowed()
        traffic = self.traffic(visitors=VISITORS, pile=True)
        orphans: list[int] = []
        for kill in range(KILLS):
            given = len(traffic.lines("given"))
            self.set_crash(f"{point}:{PAST_START + kill}")
            self.gateway.start("authority", ready=False)
            self.assertEqual(authority.wait(), CRASHED)
            self.assertGreater(len(traffic.lines("given")), given, "it died before any session")
            traffic.await_more("refused", VISITORS)
            orphans.append(self.check_grants(traffic, known) - sum(orphans))
        self.set_crash("")
        self.gateway.start("authority")
        self.check_accounts(traffic)
        return orphans

    def check_grants(self, traffic: Traffic, known: set[tuple[str, str]]) -> int:
        """Every grant is among the records; how many records nobody has the grant of."""
        given = {(one["session_uid"], one["decision_id"]) for one in traffic.lines("given")}
        recorded = self.allowed() - known
        self.assertLessEqual(given, recorded)
        self.assertEqual(self.rows_without_record(), [])
        return len(recorded - given)

    def allowed(self) -> set[tuple[str, str]]:
        """Session and decision of every record that allowed one."""
        query = "SELECT session_uid, decision_id FROM audit_log WHERE event = ?"
        allow = "json_extract(canonical, '$.decision') = 'allow'"
        return set(self.select(f"{query} AND {allow}", SESSION_START.name))

    def rows_without_record(self) -> list[str]:
        """Sessions that no record allowed."""
        allowed = self.allowed()
        rows = self.select("SELECT uid, decision_id FROM sessions")
        return [uid for uid, decision in rows if (uid, decision) not in allowed]
