"""Reports of what sessions did: brought, brought again, given up."""

from __future__ import annotations

from collections import Counter

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.connector.uses import AGAIN_SECS, KEPT_SECS, LAST_SECS, MAX_KEPT, SessionUses
from svc.errors import Denied, SvcError, Unavailable
from svc.messages.use import SessionUse
from svc.model.signing import Signed
from svc.runtime.services import BackgroundTasks
from tests.authority.house import outcome
from tests.support.logged import logged

GRANT = Signed(b"grant", b"signature", ())
USED = Counter({"shell": 1})


class UseReportTests(SynchronousTestCase):
    """Of one Connector."""

    def setUp(self) -> None:
        self.clock, self.told = Clock(), list[SessionUse]()
        self.refusals: list[SvcError] = []
        self.uses = SessionUses(self.report, self.clock, BackgroundTasks())
        self.events = logged(self)

    async def report(self, use: SessionUse) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.told.append(use)

    def lost(self) -> list[object]:
        return [one["reason"] for one in self.events if "not recorded" in str(one["log_format"])]

    def test_told(self) -> None:
        """What a session did goes to Authority at once."""
        self.uses.tell("s1", GRANT, USED)
        self.assertEqual(self.told, [SessionUse(GRANT, {"shell": 1})])

    def test_away(self) -> None:
        """While Authority is away it is kept, and brought again."""
        self.refusals = [Unavailable("not there"), Unavailable("not there")]
        self.uses.tell("s1", GRANT, USED)
        for _ in range(2):
            self.assertEqual(self.told, [])
            self.clock.advance(AGAIN_SECS)
        self.assertEqual(len(self.told), 1)

    def test_refused(self) -> None:
        """What Authority refuses is not brought again; it is logged."""
        self.refusals = [Denied("no", reason="unknown_session")]
        self.uses.tell("s1", GRANT, USED)
        self.clock.advance(AGAIN_SECS)
        self.assertEqual((self.told, self.lost()), ([], ["unknown_session"]))

    def test_given_up(self) -> None:
        """After a while nobody waits for it any more."""
        self.refusals = [Unavailable("not there")] * 1000
        self.uses.tell("s1", GRANT, USED)
        self.clock.pump([AGAIN_SECS] * int(KEPT_SECS / AGAIN_SECS + 2))
        self.assertEqual(len(self.lost()), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_bounded(self) -> None:
        """Only so many wait."""
        self.refusals = [Unavailable("not there")] * (MAX_KEPT + 1)
        for number in range(MAX_KEPT + 1):
            self.uses.tell(f"s{number}", GRANT, USED)
        self.assertEqual(len(self.refusals), 1)

    def test_left(self) -> None:
        """A Connector that stops waits for them, and not for long."""
        self.assertEqual(outcome(self.uses.left()), [None])
        self.refusals = [Unavailable("not there")]
        self.uses.tell("s1", GRANT, USED)
        waiting = outcome(self.uses.left())
        self.assertEqual(waiting, [])
        self.clock.advance(LAST_SECS + 1)
        self.assertEqual(waiting, [None])
