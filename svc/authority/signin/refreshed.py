"""Remembers refresh tokens that a provider gave and the store has not taken yet.

A provider takes the one before it for no further use, and a second use for a theft.  So what came
of a renewal that failed afterwards is what the next one begins with.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field, frozen

MOST_UNSTORED = 1000
"""Past these the oldest is forgotten; whose it was has to sign in again."""


@frozen
class _Unstored:
    """A token, beside the one that the store has; of no use once the sign-in has ended."""

    stored: str
    newest: str
    ends_at: float


@define
class UnstoredTokens:
    """By sign-in."""

    _known: OrderedDict[str, _Unstored] = field(factory=OrderedDict, init=False, repr=False)

    def newest(self, sign_in_id: str, stored: str) -> str:
        """The token to use next, where the store has *stored*."""
        known = self._known.get(sign_in_id)
        return known.newest if known is not None and stored and known.stored == stored else stored

    def came(self, sign_in_id: str, stored: str, newest: str, ends_at: float) -> None:
        """The provider gave *newest*, for a sign-in that lasts until *ends_at*."""
        self._known.pop(sign_in_id, None)
        self._known[sign_in_id] = _Unstored(stored, newest, ends_at)
        while len(self._known) > MOST_UNSTORED:
            self._known.popitem(last=False)

    def forget(self, sign_in_id: str) -> None:
        """It is stored, or the sign-in has ended."""
        self._known.pop(sign_in_id, None)

    def forget_ended(self, now: float) -> None:
        """Forget those of sign-ins that have ended by themselves."""
        for sign_in_id in [each for each, one in self._known.items() if one.ends_at <= now]:
            self.forget(sign_in_id)
