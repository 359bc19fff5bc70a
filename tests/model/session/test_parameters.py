"""Parameters of a session: what a kind takes, and nothing made to fit."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.session.parameters import (
    MAX_PARAMETERS,
    MAX_VALUE_BYTES,
    Parameter,
    ceiling,
    facts,
    fault_of,
    read_pairs,
    resolved,
)

KNOWN: Mapping[str, Parameter] = {
    "account": Parameter(fact="personal"),
    "database": Parameter(form="[a-z]+", fact="public", enforced=True, default="main"),
    "role": Parameter(form="[a-z]*", enforced=True),
}
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,62}", fullmatch=True)
PAIRS = st.lists(st.tuples(NAMES | st.text(max_size=70), st.text(max_size=300)), max_size=20)


class PairsTests(SynchronousTestCase):
    @given(PAIRS)
    def test_taken_as_they_are_or_refused(self, pairs: list[tuple[str, str]]) -> None:
        """Of what is taken nothing is lost, added or changed, and it is within its bounds."""
        try:
            found = read_pairs(pairs, "x")
        except Malformed as refusal:
            self.assertEqual(refusal.reason, "bad_parameter")
            return
        self.assertEqual(list(found.items()), pairs)
        self.assertEqual(sorted(set(found)), [name for name, _ in pairs])
        self.assertLessEqual(len(found), MAX_PARAMETERS)
        for name, value in found.items():
            self.assertLessEqual(len(name), 63)
            self.assertLessEqual(len(value.encode()), MAX_VALUE_BYTES)
            self.assertTrue(value.isprintable() and value == value.strip())

    @given(st.dictionaries(NAMES, st.text("abc/é", min_size=1, max_size=40), max_size=16))
    def test_what_is_well_formed_is_taken(self, values: dict[str, str]) -> None:
        """Up to 16 in ascending order, of letters alone, are never refused."""
        self.assertEqual(read_pairs(sorted(values.items()), "x"), values)

    @given(st.text())
    def test_any_text_has_a_verdict(self, value: str) -> None:
        """Whatever the text, half of a surrogate pair too, it is judged without a failure."""
        self.assertIsInstance(fault_of(value), str)


class ResolvedTests(SynchronousTestCase):
    def refusal(self, **given: str) -> Malformed:
        error: Malformed = self.assertRaises(Malformed, resolved, KNOWN, given, "db")
        return error

    def test_defaults(self) -> None:
        """What nobody asks for is its default; what is a claim only is left out."""
        asked = resolved(KNOWN, {"role": "reader"}, "db")
        self.assertEqual(asked, {"database": "main", "role": "reader"})
        self.assertEqual(facts(KNOWN, asked), {"database": "main"})
        self.assertEqual(ceiling(KNOWN, asked), asked)

    def test_a_claim_is_in_no_ceiling(self) -> None:
        """What nobody enforces is a fact at most."""
        asked = resolved(KNOWN, {"role": "reader", "account": "root"}, "db")
        self.assertEqual(facts(KNOWN, asked), {"account": "root", "database": "main"})
        self.assertNotIn("account", ceiling(KNOWN, asked))

    def test_refused(self) -> None:
        """What the kind does not take, is not of its form or is missing; never its value."""
        unknown = self.refusal(role="r", schema="private")
        self.assertEqual(unknown.reason, "unknown_parameter")
        self.assertEqual(
            unknown.text, "db takes no parameter schema; it takes account, database, role"
        )
        malformed = self.refusal(role="r", database="Private")
        self.assertEqual(malformed.reason, "bad_parameter")
        self.assertEqual(malformed.text, "db: parameter database: does not have the form [a-z]+")
        self.assertEqual(self.refusal().reason, "missing_parameter")
        for text in (unknown.text, malformed.text):
            self.assertNotIn("rivate", text.replace("private;", ""))
