"""The reload pass of an Authority that leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.authority.lifecycle import each_of
from svc.errors import StoreUnavailable


class PassTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.done: list[str] = []

    def part(self, word: str, failed: Exception | None = None) -> Callable[[], Awaitable[None]]:
        async def do() -> None:
            self.done.append(word)
            if failed is not None:
                raise failed

        return do

    def run_all(self, *parts: Callable[[], Awaitable[None]]) -> Deferred[None]:
        return Deferred.fromCoroutine(each_of(*parts))

    def test_a_row_that_no_part_can_read(self) -> None:
        """It keeps that part from its work, and no other; the pass says that it failed."""
        first, second = ValueError("a row"), KeyError("another")
        running = self.run_all(self.part("a", first), self.part("b", second), self.part("c"))
        self.assertIs(self.failureResultOf(running).value, first)
        self.assertEqual(self.done, ["a", "b", "c"])
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_a_store_that_does_not_answer(self) -> None:
        """No part is tried that would wait for it too."""
        running = self.run_all(self.part("a", StoreUnavailable("store: away")), self.part("b"))
        self.failureResultOf(running, StoreUnavailable)
        self.assertEqual(self.done, ["a"])
