"""Texts of denied requests, kept for the person who sent them."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.messages.access import DeniedRequest
from svc.proxy.denied import KEPT_SECS, MOST, MOST_OF_ONE, DeniedTexts


def denied(text: bytes = b"GET /") -> DeniedRequest:
    """A denial."""
    return DeniedRequest(resource="board", action="webAccess", parameters={}, text=text)


class DeniedTextsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.texts = DeniedTexts(self.clock)

    def is_kept(self, person: str, decision: str) -> bool:
        try:
            self.texts.get(person, decision)
        except SvcError as refusal:
            self.assertEqual(refusal.reason, "unknown_decision")
            return False
        return True

    def test_one_s_own_for_a_while(self) -> None:
        """Nobody else gets it, and nobody gets it after ten minutes."""
        self.texts.keep("ada", "1", denied())
        self.assertEqual(self.texts.get("ada", "1"), denied())
        self.assertFalse(self.is_kept("bob", "1"))
        self.clock.advance(KEPT_SECS)
        self.assertFalse(self.is_kept("ada", "1"))

    def test_few_of_one_person(self) -> None:
        """Who is denied often loses the oldest of their own, and nobody else's."""
        self.texts.keep("bob", "b", denied())
        for n in range(MOST_OF_ONE + 3):
            self.texts.keep("ada", str(n), denied())
        kept = [n for n in range(MOST_OF_ONE + 3) if self.is_kept("ada", str(n))]
        self.assertEqual(kept, list(range(3, MOST_OF_ONE + 3)))
        self.assertTrue(self.is_kept("bob", "b"))

    def test_few_of_all(self) -> None:
        """What all people are denied has a limit, too."""
        for n in range(MOST + 5):
            self.texts.keep(f"p{n}", str(n), denied())
        kept = sum(self.is_kept(f"p{n}", str(n)) for n in range(MOST + 5))
        self.assertEqual(kept, MOST)
