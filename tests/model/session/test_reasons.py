"""Each reason of a decision has words of its own."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.model.session.reasons import REASONS, UNDECIDED, UNPERMITTED, WORDS, words_of
from tests.authority.house import KINDS


class WordsTests(SynchronousTestCase):
    def test_each_reason(self) -> None:
        """No reason is without words, and no two that differ in what to do have the same."""
        self.assertEqual(set(WORDS), set(REASONS))
        told = [*WORDS.values(), UNPERMITTED, UNDECIDED]
        self.assertEqual(len({one.text for one in told}), len(told))
        for one in told:
            self.assertTrue(one.text and one.hint)

    def test_only_policies_that_decided(self) -> None:
        """The words blame a policy only where one denied it."""
        for reason in REASONS:
            blames = "forbids" in WORDS[reason].text
            self.assertEqual(blames, reason == "denied", reason)

    def test_by_what_was_decided(self) -> None:
        """Nothing of what was allowed; a denial by what can be done about it."""

        def told(decision: str, reason: str, policies: bool = False, ask: bool = False) -> str:
            words = words_of(
                decision,
                reason,
                policies=policies,
                requestable=ask,
                kind_reasons={"odd": "it is odd"},
            )
            return "" if words is None else f"{words.text}; {words.hint}"

        self.assertEqual(told("allow", ""), "")
        self.assertIn("a policy forbids it; only whoever", told("deny", "denied", policies=True))
        self.assertIn("no policy permits it; if you need", told("deny", "denied"))
        self.assertIn("no policy permits it; another person", told("deny", "denied", ask=True))
        self.assertIn("could not be evaluated", told("error", "denied", policies=True))
        self.assertIn("it is odd; the request itself", told("deny", "odd"))
        self.assertIn("refuses such a request", told("deny", "of_another_version"))
        self.assertIn("no Connector serves", told("not_served", "departed"))

    def test_words_of_kinds(self) -> None:
        """No kind has other words for a reason that is everybody's."""
        for kind in KINDS.values():
            self.assertFalse(set(kind.terms.reasons) & set(REASONS), kind.name)
