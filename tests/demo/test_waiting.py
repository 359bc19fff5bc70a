"""Waiting has an end."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.demo.waiting import until
from svc.errors import SvcError


class UntilTests(SynchronousTestCase):
    """What is looked for comes back, or a refusal that names it."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.there: list[str] = []

    def begin(self, seconds: float) -> Deferred[object]:
        return Deferred.fromCoroutine(until(self.clock, seconds, lambda: self.there, "the thing"))

    def test_what_is_there_comes_at_once(self) -> None:
        """Nothing is waited for that is there."""
        self.there.append("it")
        self.assertEqual(self.successResultOf(self.begin(0)), ["it"])

    def test_what_comes_later_is_seen(self) -> None:
        """It is looked for again and again."""
        waiting = self.begin(5)
        self.assertNoResult(waiting)
        self.there.append("it")
        self.clock.pump([0.02] * 2)
        self.assertEqual(self.successResultOf(waiting), ["it"])

    def test_patience_ends(self) -> None:
        """After that many seconds the refusal names what did not come."""
        waiting = self.begin(1)
        self.clock.pump([0.02] * 60)
        refusal = self.failureResultOf(waiting, SvcError).value
        self.assertEqual(refusal.reason, "deadline")
        self.assertIn("the thing", refusal.text)

    def test_coroutines_are_awaited(self) -> None:
        """A look may itself have to wait."""

        async def look() -> str:
            return "found"

        waiting = Deferred.fromCoroutine(until(self.clock, 1, look, "it"))
        self.assertEqual(self.successResultOf(waiting), "found")
