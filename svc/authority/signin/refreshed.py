"""Remembers refresh tokens that a provider gave and the store has not taken yet.

A provider takes the one before it for no further use, and a second use for a theft.  So what came
of a renewal that failed afterwards is what the next one begins with.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field

MOST_UNSTORED = 1000
"""Past these the oldest is forgotten; whose it was has to sign in again."""


@define
class UnstoredTokens:
    """By sign-in; each beside the token that the store has for it."""

    _known: OrderedDict[str, tuple[str, str]] = field(factory=OrderedDict, init=False, repr=False)

    def newest(self, sign_in_id: str, stored: str) -> str:
        """The token to use next, where the store has *stored*."""
        before, newest = self._known.get(sign_in_id, ("", ""))
        return newest if stored and before == stored else stored

    def came(self, sign_in_id: str, stored: str, newest: str) -> None:
        """The provider gave *newest*."""
        self._known.pop(sign_in_id, None)
        self._known[sign_in_id] = stored, newest
        while len(self._known) > MOST_UNSTORED:
            self._known.popitem(last=False)

    def forget(self, sign_in_id: str) -> None:
        """It is stored, or the sign-in has ended."""
        self._known.pop(sign_in_id, None)
