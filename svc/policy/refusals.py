"""The reasons for refusing a policy, a vocabulary or a set of entities.

The words are an interface: programs compare them, so they never change.
"""

from __future__ import annotations

from svc.errors import Fault, SvcError

TOO_LARGE = "policy_too_large"
TOO_DEEP = "policy_too_deep"
INVALID = "policy_invalid"
UNNAMED = "policy_unnamed"
DUPLICATE_ID = "policy_duplicate_id"
UNENFORCED_FACT = "policy_unenforced_fact"
GUARD_CRASHED = "policy_guard_crashed"
GUARD_TIMEOUT = "policy_guard_timeout"

REASONS = frozenset(
    {
        *(TOO_LARGE, TOO_DEEP, INVALID, UNNAMED, DUPLICATE_ID, UNENFORCED_FACT),
        *(GUARD_CRASHED, GUARD_TIMEOUT),
    }
)

MAY_PASS_LATER = frozenset({GUARD_TIMEOUT, GUARD_CRASHED})
"""A busy or starved machine refuses like this too: what it says of the text is not known."""

MAX_TEXT = 2_000
"""A refusal's text is cut here: it may quote what somebody else wrote."""


class PolicyRefused(SvcError):
    """A policy text that is refused; ``reason`` is one of :data:`REASONS`."""

    fault = Fault.INVALID
    reason = INVALID


class VocabularyError(SvcError):
    """Terms that do not go together: a word twice, an unknown type, a missing fact."""

    fault = Fault.INVALID
    reason = "vocabulary"


class EntitiesRefused(SvcError):
    """Entities that the vocabulary does not allow: nothing is decided on them."""

    fault = Fault.INVALID
    reason = "entities_invalid"


def refused(reason: str, text: str) -> PolicyRefused:
    """A refusal under one of :data:`REASONS`, its text cut to :data:`MAX_TEXT`."""
    return PolicyRefused(text[:MAX_TEXT], reason=reason)
