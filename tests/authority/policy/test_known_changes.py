"""What changes between two policies is known once both were looked at, and not guessed before."""

from __future__ import annotations

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.proposed.known_changes import KnownChanges
from svc.model.policy.rules import PolicyRules
from svc.policy.refusals import GUARD_CRASHED, GUARD_TIMEOUT, INVALID, refused
from svc.runtime.threads import inline
from tests.authority.house import POLICY, WORDS, refusal_of, value_of

WITHOUT = POLICY.partition('@id("nobody-production")')[0]


@define
class Guard:
    """Refuses one text, once for each word."""

    text: str
    words: list[str] = field(factory=list)

    async def check(self, text: str) -> None:
        """See PolicyGuard."""
        if text == self.text and self.words:
            raise refused(self.words.pop(), "no")


class KnownChangesTests(SynchronousTestCase):
    """A policy without the forbid of the one in force."""

    def made(self, *words: str) -> KnownChanges:
        """With a guard that refuses the policy in force with these words in turn."""
        guard = Guard(POLICY, [*reversed(words)])
        return KnownChanges(
            vocabulary=WORDS, rules=PolicyRules(approvals=1), guard=guard.check, in_thread=inline
        )

    def sensitive(self, changes: KnownChanges) -> list[str]:
        """Why more approvals are needed."""
        return [why.value for one in value_of(changes.of(POLICY, WITHOUT)) for why in one.sensitive]

    def test_a_guard_that_is_busy(self) -> None:
        """A forbid is not overlooked because the policy that has it could not be looked at."""
        changes = self.made(GUARD_TIMEOUT, GUARD_CRASHED)
        for word in (GUARD_TIMEOUT, GUARD_CRASHED):
            self.assertEqual(refusal_of(changes.of(POLICY, WITHOUT)).reason, word)
        self.assertEqual(self.sensitive(changes), ["forbid_removed"])

    def test_one_that_is_no_policy(self) -> None:
        """Of another build's kinds, say: all of the new one is new."""
        changes = self.made(INVALID)
        self.assertNotIn("forbid_removed", self.sensitive(changes))
