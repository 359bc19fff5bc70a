"""Which policies change from one text to another, remembered: texts never change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256

from attrs import define, field

from svc.errors import SvcError
from svc.model.policy.rules import PolicyRules
from svc.policy.refusals import MAY_PASS_LATER
from svc.policy.sensitive import PolicyChange, policy_changes
from svc.policy.vocabulary import Vocabulary
from svc.runtime.threads import InThread

_REMEMBERED = 256


@define
class KnownChanges:
    """Compares texts that the guard lets pass.

    Attributes:
        guard: Refuses a text that must not be parsed in this process.
    """

    vocabulary: Vocabulary
    rules: PolicyRules
    guard: Callable[[str], Awaitable[object]]
    in_thread: InThread
    _known: dict[bytes, tuple[PolicyChange, ...]] = field(factory=dict)

    async def of(self, before: str, after: str) -> tuple[PolicyChange, ...]:
        """What changes from *before* to *after*.

        Raises:
            SvcError: *after* is refused by the guard, or is no policy; or the guard did not
                get to the end of one of them, which is not taken for an answer.
        """
        key = sha256(sha256(before.encode()).digest() + sha256(after.encode()).digest()).digest()
        found = self._known.get(key)
        if found is None:
            await self.guard(after)
            base = before if await self._passes(before) else ""
            found = await self.in_thread(
                lambda: policy_changes(base, after, self.vocabulary, self.rules.principals)
            )
            while len(self._known) >= _REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[key] = found
        return found

    async def _passes(self, text: str) -> bool:
        try:
            await self.guard(text)
        except SvcError as refusal:
            # Compared with an empty text, no forbid that is taken away would be seen.
            if refusal.reason in MAY_PASS_LATER:
                raise
            return False
        return True
