"""Ids are shortened as far as they stay the one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.short_ids import LEAST_PREFIX, AmbiguousId, whole_id

IDS = st.lists(st.text("ab", min_size=5, max_size=7), unique=True, max_size=12)


class ShortIdTests(SynchronousTestCase):
    @given(ids=IDS, word=st.text("ab", max_size=7))
    def test_one_or_none_or_a_refusal(self, ids: list[str], word: str) -> None:
        """What is found begins with the word, and is the only one or the word itself."""
        begin = sorted(one for one in ids if one.startswith(word))
        try:
            found = whole_id("request", word, ids)
        except AmbiguousId as refusal:
            self.assertGreater(len(begin), 1)
            for one in begin[:5]:
                self.assertIn(one, refusal.text)
            return
        if len(word) < LEAST_PREFIX:
            self.assertIsNone(found)
        else:
            self.assertEqual(found, word if word in ids else next(iter(begin), None))

    def test_many(self) -> None:
        """Of many candidates five are named, and the number of the others."""
        ids = [f"abcd{number}" for number in range(9)]
        refusal = self.assertRaises(AmbiguousId, whole_id, "request", "abcd", ids)
        self.assertEqual(
            refusal.text,
            "request abcd: the ids of 9 begin so: abcd0, abcd1, abcd2, abcd3, abcd4 and 4 more; "
            "type more digits",
        )
