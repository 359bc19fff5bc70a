"""The reasons of a text by its tokens: the same that Cedar's parser reads."""

from __future__ import annotations

from cedarpy import PolicySet
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.policy.annotations import annotated_reasons

_REST = 'permit (principal, action, resource) when { "; @id(\\"x\\")" == "//" };'
_PIECES = (
    "a",
    "\\n",
    "\\t",
    "\\r",
    "\\0",
    "\\\\",
    '\\"',
    "\\'",
    "\\u{1F600}",
    "\\x41",
    "é",
    "@",
    ";",
    "//",
)
_VALUES = st.lists(st.sampled_from(_PIECES), max_size=8).map("".join)
_GAPS = st.sampled_from(("", " ", "\n", '// "; @reason("no")\n'))


def by_cedar(text: str) -> dict[str, str]:
    """What the parser makes of it."""
    policies = PolicySet.from_str(text).to_pst().static_policies.values()
    marks = [policy.annotations for policy in policies]
    return {one["id"]: one["reason"] for one in marks if one.get("id") and one.get("reason")}


class AnnotationTests(SynchronousTestCase):
    @given(st.lists(st.tuples(_VALUES, _GAPS, st.booleans()), max_size=5))
    def test_as_the_parser(self, policies: list[tuple[str, str, bool]]) -> None:
        """Escapes, comments, and strings that look like annotations or ends are read alike."""
        text = ""
        for number, (value, gap, is_first) in enumerate(policies):
            marks = [f'@id{gap}({gap}"p{number}"{gap})', f'@{gap}reason{gap}("{value}")']
            marks.append("@requestable")
            text += gap.join([gap, *(marks if is_first else reversed(marks)), f" {_REST}"])
        self.assertEqual(annotated_reasons(text), by_cedar(text))

    def test_no_annotation(self) -> None:
        """A policy without a reason, or without a name, is left out."""
        text = f'@id("a") {_REST} @reason("b") {_REST} @id("c") @reason {_REST}'
        self.assertEqual(annotated_reasons(text), {})
        self.assertEqual(annotated_reasons(""), {})
