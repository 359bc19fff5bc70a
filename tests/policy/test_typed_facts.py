"""Facts of a request, as people type them."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.policy.access import AccessRequest, EntityUid, request_form
from svc.policy.typed_facts import facts_of
from svc.policy.vocabulary import vocabulary

WORDS = vocabulary()
SHAPE = WORDS.shapes["dbQuery"]
NAMES = st.one_of(st.sampled_from(sorted(SHAPE.facts)), st.text(max_size=12))
INNER = st.sampled_from(["", ".source_address", ".", ".x"])
VALUES = st.one_of(st.text(max_size=20), st.sampled_from(["true", "7", "10.0.0.1", "a,b"]))


class TypedFactsTests(SynchronousTestCase):
    """`facts_of`."""

    def test_each_type(self) -> None:
        """Every type of the vocabulary has a form in which it is typed."""
        typed = [
            ("hour", "14"),
            ("read_only", "true"),
            ("db_role", "reader"),
            ("effects", "write,read"),
            ("proxy_reported.source_address", "10.0.0.7"),
        ]
        self.assertEqual(
            facts_of(typed, "dbQuery", SHAPE),
            {
                "hour": 14,
                "read_only": True,
                "db_role": "reader",
                "effects": frozenset({"read", "write"}),
                "proxy_reported": {"source_address": "10.0.0.7"},
            },
        )

    def test_refused(self) -> None:
        """What is no such fact, or not of its type, is refused by its name, with what to type."""
        for name, value, told in (
            ("hours", "14", "nearest is hour"),
            ("hour", "two", "whole number"),
            ("hour", "9" * 30, "within"),
            ("read_only", "yes", "true or false"),
            ("proxy_reported", "10.0.0.7", "proxy_reported.source_address"),
            ("proxy_reported.source_address", "home", "IP address"),
            ("hour.of", "1", "do not have it"),
        ):
            refusal = self.assertRaises(Malformed, facts_of, [(name, value)], "dbQuery", SHAPE)
            self.assertIn(f"fact {name}: ", refusal.text)
            self.assertIn(told, refusal.text)
        twice = [("hour", "1"), ("hour", "2")]
        refusal = self.assertRaises(Malformed, facts_of, twice, "dbQuery", SHAPE)
        self.assertIn("more than once", refusal.text)

    @given(st.lists(st.tuples(st.builds(lambda a, b: a + b, NAMES, INNER), VALUES), max_size=4))
    def test_what_is_taken_can_be_asked(self, typed: list[tuple[str, str]]) -> None:
        """Whatever is typed is refused, or makes a request that can be asked and recorded."""
        try:
            facts = facts_of(typed, "dbQuery", SHAPE)
        except Malformed:
            return
        request = AccessRequest(
            request_kind="db_query",
            principal=EntityUid("User", "u"),
            action="dbQuery",
            resource=EntityUid("Database", "d"),
            context=facts,
        )
        self.assertIsNone(WORDS.refusal(request))
        request_form(request)
