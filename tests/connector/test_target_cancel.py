"""Cancels at a target: one at a time, bounded, and none once the session is over."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.connector.target_cancel import CANCEL_SECS, TargetCancel
from svc.errors import SvcError


class TargetCancelTests(SynchronousTestCase):
    """Of one session."""

    def setUp(self) -> None:
        """A target that hears a cancel when the test says so."""
        self.asked: list[Deferred[None]] = []
        self.ended = 0
        self.clock = Clock()
        self.target = TargetCancel(self.cancel, self.clock, "1" * 32)

    async def cancel(self) -> None:
        """See ICancellingEndpoint."""
        asked: Deferred[None] = Deferred()
        self.asked.append(asked)
        try:
            await asked
        finally:
            self.ended += 1

    def test_one_at_a_time(self) -> None:
        """However often it is asked for, one is under way and one follows."""
        for _ in range(100):
            self.target.ask()
        self.assertEqual(len(self.asked), 1)
        self.asked[0].callback(None)
        self.assertEqual(len(self.asked), 2)
        self.asked[1].callback(None)
        self.assertEqual(len(self.asked), 2)
        self.target.ask()
        self.assertEqual(len(self.asked), 3)

    def test_a_target_that_does_not_answer(self) -> None:
        """It is given up after a while, and may be asked again."""
        self.target.ask()
        self.clock.advance(CANCEL_SECS)
        self.assertEqual((len(self.asked), self.ended), (1, 1))
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.target.ask()
        self.assertEqual(len(self.asked), 2)

    def test_a_failure(self) -> None:
        """The session goes on."""
        self.target.ask()
        self.asked[0].errback(SvcError("no", reason="target_untrusted"))
        self.target.ask()
        self.assertEqual(len(self.asked), 2)

    def test_stop(self) -> None:
        """Nothing is cancelled for a session that is over."""
        self.target.ask()
        self.target.ask()
        self.target.stop()
        self.assertEqual((len(self.asked), self.ended), (1, 1))
        self.target.ask()
        self.assertEqual(len(self.asked), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
