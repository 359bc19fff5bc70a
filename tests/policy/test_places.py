"""Where a policy text is wrong."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.policy.compile import read_policies
from svc.policy.prescan import PolicyLimits
from svc.policy.refusals import PolicyRefused
from svc.policy.vocabulary import vocabulary

WORDS = vocabulary()
GOOD = """\
// A comment; with a semicolon, and "a quote.
@id("good")
permit (principal, action, resource) when { "a;b" == "a;b" };
"""
TWICE = """\
@id("b") permit (principal, action, resource);
 @id("b") permit (principal, action, resource);"""


class PlaceTests(SynchronousTestCase):
    """Every refusal of a text names its line and column."""

    def refusal(self, text: str) -> str:
        """The text with which it is refused."""
        refused = self.assertRaises(PolicyRefused, read_policies, text, WORDS, PolicyLimits())
        return str(refused.text)

    def test_syntax(self) -> None:
        """The place is the token with which no policy can go on."""
        for bad, line, column, said in (
            ("permit (principal action, resource);", 1, 19, "unexpected token `action`"),
            ('@id("a")\npermit (principal, action, resource)\n  wenn { true };', 3, 3, "wenn"),
            ('@id("a") permit (principal, action, resource)', 1, 46, "end of input"),
            ('@id("a") permit (principal, action, resource);\n\n garbage $', 3, 10, "token"),
            ('@id("a") permit (principal, action, resource)\nwhen { $ };', 2, 8, "token"),
            ('@id("a") permit (principal, action, resource)\nwhen { 1 < };', 2, 12, "`}`"),
            ('@id("a") permit (principal, action, resource)\nwhen { [1,,2] };', 2, 11, "`,`"),
            ('@id("a") permit (principal, action, resource)\nwhen { (1 + ) };', 2, 13, "`)`"),
            ('@id("a") permit (principal, action, resource)\nwhen { true }};', 2, 14, "`}`"),
            ('@id("a") permit (principal;, action, resource);', 1, 27, "`;`"),
        ):
            for before in ("", GOOD, GOOD * 3):
                at = before.count("\n") + line
                told = self.refusal(before + bad + "\n")
                self.assertIn(f"policy: line {at}, column {column}: ", told, bad)
                self.assertIn(said, told)

    def test_meaning(self) -> None:
        """A fault of meaning stands at what is quoted, or where its policy begins."""
        for bad, line, column, said in (
            ('@id("a")\npermit (principal, action, resource)\n  when { foo.bar };', 3, 10, "foo"),
            (
                '@id("a")\npermit (principal, action, resource)\n  when { context.nothing == 1 };',
                3,
                18,
                "nothing",
            ),
            ('@id("a")\npermit (principal in Nobody::"x", action, resource);', 2, 22, "Nobody"),
            ("\npermit (principal, action, resource);", 2, 1, "has no @id"),
            (TWICE, 2, 2, "is already used by policy"),
            ("permitt (principal, action, resource);", 1, 1, "permitt"),
            ("permit (principle, action, resource);", 1, 9, "principle"),
            ('@id("a") permit (principal == ?principal, action, resource);', 1, 31, "slots"),
        ):
            for before in ("", GOOD):
                at = before.count("\n") + line
                told = self.refusal(before + bad + "\n")
                self.assertIn(f"line {at}, column {column}: ", told, bad)
                self.assertIn(said, told)

    @settings(max_examples=150, deadline=None)
    @given(st.text(alphabet='permit(principal,action;@id"a) \n/{}whn=?[]', max_size=60))
    def test_any_text(self, text: str) -> None:
        """Whatever the text is, it is read, or refused with a place inside of it."""
        try:
            read_policies(text, WORDS, PolicyLimits())
        except PolicyRefused as refusal:
            self.assertRegex(refusal.text, r"line \d+, column \d+|nests|more than|longer")
