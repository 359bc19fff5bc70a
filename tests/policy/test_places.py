"""Where a policy text is wrong."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.policy.compile import read_policies
from svc.policy.prescan import PolicyLimits
from svc.policy.refusals import PolicyRefused
from svc.policy.vocabulary import vocabulary
from tests.support.examples import examples

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

    def test_once(self) -> None:
        """A fault is told once, with how many actions or types it is the same for."""
        bad = (
            '@id("x") permit (principal, action, resource)\n  when { context.nothing == 1 };\n'
            '@id("y") permit (principal, action, resource)\n  when { resource.nowhere == 1 };\n'
        )
        told = self.refusal(bad)
        self.assertEqual(told, self.refusal(bad))
        first, second = told.removeprefix("policy ").split("; ")
        actions = len(WORDS.shapes)
        types = len({kind for each in WORDS.shapes.values() for kind in each.resources})
        self.assertGreater(min(actions, types), 5)
        self.assertRegex(
            first,
            r"\Ax: line 2, column 18: attribute `nothing` in context for Action::\"\w+\" not found"
            rf" \(and the same for {actions - 1} more\)\Z",
        )
        self.assertRegex(
            second,
            r"\Ay: line 4, column 19: attribute `nowhere` on entity type `\w+` not found"
            rf" \(and the same for {types - 1} more\)\Z",
        )

    def test_several(self) -> None:
        """Several faults of a policy are told in their order, and no more than five."""
        names = [f"f{n}" for n in range(7)]
        bad = "".join(
            f'@id("p{at}") permit (principal in Group::"g", action, resource)'
            f" when {{ principal.{name} == 1 }};\n"
            for at, name in enumerate(names)
        )
        *told, more = self.refusal(bad).removeprefix("policy ").split("; ")
        self.assertEqual([one.partition(":")[0] for one in told], ["p0", "p1", "p2", "p3", "p4"])
        self.assertEqual(more, "and 2 more")

    @settings(max_examples=examples(150), deadline=None)
    @given(st.text(alphabet='permit(principal,action;@id"a) \n/{}whn=?[]', max_size=60))
    def test_any_text(self, text: str) -> None:
        """Whatever the text is, it is read, or refused with a place inside of it."""
        try:
            read_policies(text, WORDS, PolicyLimits())
        except PolicyRefused as refusal:
            self.assertRegex(refusal.text, r"line \d+, column \d+|nests|more than|longer")
