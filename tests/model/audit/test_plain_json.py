"""Canonical JSON of values that were checked before is that of the room that checks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.audit.plain_json import read_plain, write_plain
from svc.model.canonical import MAX_INTEGER, decode, encode

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


class PlainJsonTests(SynchronousTestCase):
    """Write and read."""

    @given(VALUES)
    def test_same(self, value: object) -> None:
        """Both rooms write one text, and read the value back."""
        text = write_plain(value)
        self.assertEqual(text.encode(), encode(value))  # type: ignore[arg-type]
        self.assertEqual(read_plain(text), decode(text.encode()))

    def test_numbers(self) -> None:
        """A number that is no integer, or past 2^53, is refused wherever it stands."""
        large = str(MAX_INTEGER + 1)
        for number in ("1.5", "1e3", "NaN", "Infinity", large, f"-{large}", "9" * 5000):
            for text in (number, f"[{number}]", f'{{"a":{number}}}', f"[1,{number}]", f" {number}"):
                self.assertRaises(Malformed, read_plain, text)
        self.assertEqual(read_plain(f"[{MAX_INTEGER}]"), [MAX_INTEGER])

    def test_no_json(self) -> None:
        """What is not JSON is refused, however deep."""
        for text in ("", "[", '{"a"}', "[" * 100_000, "1 2"):
            self.assertRaises(Malformed, read_plain, text)
