"""What a text would decide about a request, as the process that tries texts tells it."""

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.errors import Malformed
from svc.policy.guard import PolicyGuard
from svc.policy.places import entities_named
from svc.policy.refusals import PolicyRefused
from svc.policy.trial import TrialAnswer, answer_form, answer_from_form, trial_answer
from tests.policy.samples import WORDS, ask, engine, everybody, random_policy, random_request

TEXT = """\
@id("by-day") @reason("office hours")
permit (principal in Group::"g1", action == Action::"tcpConnect", resource)
when { context has hour && context.hour >= 8 };
@id("own-laptop")
permit (principal, action == Action::"tcpConnect", resource)
when { context has mfa_age_seconds && context.mfa_age_seconds < 60 };
@id("elsewhere") permit (principal, action == Action::"webAccess", resource);
"""


class TrialTests(SynchronousTestCase):
    """`trial_answer`."""

    def test_determined(self) -> None:
        """An answer names the policies behind it with their reasons, and what they lacked."""
        found = trial_answer(engine(TEXT), ask("u1", hour=9))
        self.assertEqual(
            found,
            TrialAnswer(
                decision="allow",
                policies=("by-day",),
                reasons={"by-day": "office hours"},
                considered=("by-day", "own-laptop"),
                missing=("mfa_age_seconds",),
            ),
        )

    def test_by_default(self) -> None:
        """A denial by default has no policy, but those whose scope fits and what they read."""
        found = trial_answer(engine(TEXT), ask("u1"))
        self.assertEqual((found.decision, found.policies), ("deny", ()))
        self.assertEqual(found.considered, ("by-day", "own-laptop"))
        self.assertEqual(found.missing, ("hour", "mfa_age_seconds"))

    @settings(max_examples=25)
    @given(st.integers(0, 2**32))
    def test_as_decided(self, seed: int) -> None:
        """For any policies and request it is what the engine decides, in a form read back."""
        random = Random(seed)
        made = engine("\n".join(random_policy(random, f"p{n}") for n in range(5)))
        request = random_request(random)
        found = trial_answer(made, request)
        decision = made.decide(request)
        self.assertEqual((found.decision, found.policies), (decision.decision, decision.policies))
        self.assertLessEqual(set(found.policies), set(found.considered))
        self.assertEqual(answer_from_form(answer_form(found)), found)

    @settings(max_examples=25)
    @given(st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5))
    def test_other_forms(self, form: Any) -> None:
        """Nothing else is taken for an answer."""
        self.assertRaises(Malformed, answer_from_form, form)
        good = answer_form(TrialAnswer("deny"))
        for name in good:
            self.assertRaises(Malformed, answer_from_form, {**good, name: [form, 1]})

    def test_entities_named(self) -> None:
        """What a text names is found by its tokens, in texts of strings and comments too."""
        text = (
            '// User::"no"\npermit (principal == User::"a\\"b", action == Action::"x", resource);'
        )
        self.assertEqual(
            {(uid.type, uid.id) for uid in entities_named(text)}, {("User", 'a"b'), ("Action", "x")}
        )


class GuardAskTests(TestCase):
    """`PolicyGuard.ask`, with a real child process."""

    def test_asked(self) -> Any:
        """The child answers each request; a text that only was proposed is refused for claims."""
        from twisted.internet import reactor

        guard = PolicyGuard(reactor)
        claims = (
            '@id("c") permit (principal, action == Action::"dbConnect", resource)'
            ' when { context has db_name && context.db_name == "root" };'
        )

        async def told(text: str, *, proposed: bool) -> Any:
            requests = (ask("u1", hour=9), ask("u2"))
            try:
                return await guard.ask(
                    text, requests, everybody(), vocabulary=WORDS, proposed=proposed
                )
            except PolicyRefused as refusal:
                return refusal.reason

        async def all_of_it() -> None:
            answers = await told(TEXT, proposed=True)
            self.assertEqual([one.decision for one in answers], ["allow", "deny"])
            self.assertEqual(await told(claims, proposed=True), "policy_unenforced_fact")
            self.assertEqual(len(await told(claims, proposed=False)), 2)
            self.assertEqual(await told("permit (", proposed=True), "policy_invalid")
            guard._command = ("/bin/true",)
            self.assertEqual(await told(TEXT, proposed=True), "policy_guard_crashed")

        return Deferred.fromCoroutine(all_of_it())
