"""The guard before a policy text, with a real child process."""

import subprocess
import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.policy.child import job
from svc.policy.guard import PolicyGuard, guard_command
from svc.policy.prescan import PolicyLimits, check_shape
from svc.policy.refusals import PolicyRefused
from svc.policy.vocabulary import vocabulary

WORDS = vocabulary()
GOOD = '@id("all") permit (principal, action, resource);'
LOOSE = PolicyLimits(bytes=4_000_000, depth=1_000_000_000)


def policy(condition: str) -> str:
    """A named policy with this condition."""
    return f'@id("p") permit (principal, action, resource) when {{ {condition} }};'


def nested_if(depth: int) -> str:
    """An ``if`` within the ``else`` of another, *depth* times."""
    return "if true then true else " * depth + "true"


HOSTILE = {
    "parentheses": policy("(" * 800 + "true" + ")" * 800),
    "chain": policy(" && ".join(["true"] * 1_400)),
    "missing attribute": policy(" && ".join(["context.missing == 1"] * 5_000)),
    "sets": policy("[" * 800 + "1" + "]" * 800 + " == [1]"),
    "if": policy(nested_if(2_000)),
    "records": policy('{"a": ' * 800 + "1" + "}" * 800 + " == 1"),
    "dots": policy("context" + ".a" * 2_000 + " == 1"),
    "clauses": '@id("p") permit (principal, action, resource) ' + "when { true } " * 2_000 + ";",
}


class ShapeTests(SynchronousTestCase):
    """The scan that needs no parser."""

    def test_hostile_texts_are_too_deep(self) -> None:
        """Every way of nesting or chaining too far is found before any parser runs."""
        for name, text in HOSTILE.items():
            limits = PolicyLimits(bytes=1_000_000)
            refusal = self.assertRaises(PolicyRefused, check_shape, text, limits)
            self.assertEqual(refusal.reason, "policy_too_deep", name)

    def test_size(self) -> None:
        """A text of ten megabytes is refused for its size."""
        refusal = self.assertRaises(PolicyRefused, check_shape, "x" * 10_000_000, PolicyLimits())
        self.assertEqual(refusal.reason, "policy_too_large")

    def test_many_policies(self) -> None:
        """More policies than the limit are refused."""
        limits = PolicyLimits(policies=10)
        refusal = self.assertRaises(PolicyRefused, check_shape, GOOD * 11, limits)
        self.assertEqual(refusal.reason, "policy_too_large")
        check_shape(GOOD * 10, limits)

    def test_brackets_in_texts_and_comments(self) -> None:
        """Brackets within strings and comments nest nothing."""
        check_shape(policy('"' + "(" * 900 + '\\"((" == "a"'), PolicyLimits())
        check_shape("// " + "(" * 900 + "\n" + GOOD, PolicyLimits())

    def test_long_but_flat(self) -> None:
        """A long list, and many policies, are not deep."""
        items = ", ".join('"a" == "b" && true' for _ in range(1_000))
        check_shape(policy(f"[{items}].contains(true)"), PolicyLimits())
        check_shape(policy("1 == 1 && true") * 1_000, PolicyLimits())

    def test_line_is_named(self) -> None:
        """The refusal names the line."""
        text = "\n\n" + HOSTILE["parentheses"]
        refusal = self.assertRaises(PolicyRefused, check_shape, text, PolicyLimits())
        self.assertIn("line 3", refusal.text)


class ChildTests(SynchronousTestCase):
    """The child as a program."""

    def run_child(self, data: bytes) -> "subprocess.CompletedProcess[bytes]":
        """Run it on *data*, to its end."""
        return subprocess.run(
            guard_command(), input=data, capture_output=True, timeout=60, env={}, check=False
        )

    def test_good(self) -> None:
        """A good text gives an empty answer."""
        ended = self.run_child(job(GOOD, WORDS, PolicyLimits()))
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, b"{}", b""))

    def test_quick_start(self) -> None:
        """It starts without Twisted, which would take half of the time that a text takes."""
        code = "import svc.policy.child, sys; sys.exit('twisted' in sys.modules)"
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        self.assertEqual((ended.returncode, ended.stderr), (0, b""))

    def test_garbage(self) -> None:
        """Input that is no job ends it with a failure, not with an answer."""
        ended = self.run_child(b"garbage")
        self.assertNotEqual(ended.returncode, 0)
        self.assertEqual(ended.stdout, b"")


class GuardTests(TestCase):
    """The guard as Authority uses it: real processes, this one lives."""

    def guard(self, **more: Any) -> PolicyGuard:
        """A guard on the running reactor."""
        from twisted.internet import reactor

        return PolicyGuard(reactor, **more)

    async def reason(self, guard: PolicyGuard, text: str) -> str:
        """The word under which *text* is refused; ``passed`` when it is not."""
        try:
            await guard.check(text, WORDS)
        except PolicyRefused as refusal:
            self.assertLessEqual(len(refusal.text), 2_000)
            return refusal.reason
        return "passed"

    def assert_reasons(self, guard: PolicyGuard, texts: "dict[str, tuple[str, str]]") -> Any:
        """Each text gets its word."""

        async def all_of_them() -> None:
            for name, (text, reason) in texts.items():
                self.assertEqual(await self.reason(guard, text), reason, name)

        return Deferred.fromCoroutine(all_of_them())

    def test_words(self) -> Any:
        """Every sort of wrong text is refused under its own word, and a good one passes."""
        return self.assert_reasons(
            self.guard(),
            {
                "good": (GOOD, "passed"),
                "empty": ("", "passed"),
                "size": ("x" * 10_000_000, "policy_too_large"),
                "syntax": ("permit (", "policy_invalid"),
                "unknown action": (
                    '@id("a") permit (principal, action == Action::"fly", resource);',
                    "policy_invalid",
                ),
                "type": (policy('"a" in ["a"]'), "policy_invalid"),
                "unguarded": (policy("context.hour > 3"), "policy_invalid"),
                "template": (
                    '@id("t") permit (principal == ?principal, action, resource);',
                    "policy_invalid",
                ),
                "no name": ("permit (principal, action, resource);", "policy_unnamed"),
                "bad name": (GOOD.replace("all", "a`b"), "policy_unnamed"),
                "same name": (GOOD + GOOD, "policy_duplicate_id"),
                "typed nodes": (policy(" && ".join(["true"] * 150)), "policy_too_deep"),
            },
        )

    def test_hostile(self) -> Any:
        """Texts that would end the process are refused as too deep."""
        wanted = {name: (text, "policy_too_deep") for name, text in HOSTILE.items()}
        return self.assert_reasons(self.guard(), wanted)

    def test_crash(self) -> Any:
        """When the scan lets a deadly text through, only the child dies of it."""
        deadly = policy("(" * 5_000 + "true" + ")" * 5_000)
        return self.assert_reasons(
            self.guard(limits=LOOSE), {"deadly": (deadly, "policy_guard_crashed")}
        )

    def test_deadline(self) -> Any:
        """A child that does not end is killed at its deadline."""
        guard = self.guard(command=("/bin/sleep", "600"), deadline=0.2)
        return self.assert_reasons(guard, {"slow": (GOOD, "policy_guard_timeout")})

    def test_missing_program(self) -> Any:
        """A guard that cannot start lets nothing through."""
        guard = self.guard(command=("/nonexistent/svc",))
        return self.assert_reasons(guard, {"any": (GOOD, "policy_guard_crashed")})

    def test_other_program(self) -> Any:
        """A program that says nothing of the form lets nothing through."""
        guard = self.guard(command=("/bin/true",))
        return self.assert_reasons(guard, {"any": (GOOD, "policy_guard_crashed")})

    def test_remembered(self) -> Any:
        """A text that passed is not tried again; another one is."""
        guard = self.guard()

        async def twice() -> None:
            self.assertEqual(await self.reason(guard, GOOD), "passed")
            guard._command = ("/bin/true",)
            self.assertEqual(await self.reason(guard, GOOD), "passed")
            self.assertEqual(await self.reason(guard, GOOD + "\n"), "policy_guard_crashed")

        return Deferred.fromCoroutine(twice())

    def test_own(self) -> Any:
        """A text of this build is not tried; whatever differs from it by one character is."""
        guard = self.guard(command=("/bin/true",), own=(GOOD,))

        async def ask() -> None:
            self.assertEqual(await self.reason(guard, GOOD), "passed")
            self.assertEqual(await self.reason(guard, f"{GOOD} "), "policy_guard_crashed")

        return Deferred.fromCoroutine(ask())

    def test_validation_names_the_policy(self) -> Any:
        """The refusal of a wrong policy names it by its own id."""

        async def ask() -> None:
            try:
                await self.guard().check(GOOD + policy("context.hour > 3"), WORDS)
            except PolicyRefused as refusal:
                self.assertIn("policy p: ", refusal.text)
                self.assertIn("hour", refusal.text)
            else:
                self.fail("not refused")

        return Deferred.fromCoroutine(ask())
