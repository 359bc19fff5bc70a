"""Signing in with an ID token that a machine's platform gave it, without a browser.

The token must be for this cluster and for nothing else, and is taken once.
Which were taken is known to the Authority that leads, in memory; one that was
issued before it led is therefore refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from math import inf
from typing import Any

from attrs import define, field

from svc.authority.signin.id_token import LEEWAY_SECS
from svc.authority.signin.refusals import SignInRefused

MAX_TAKEN = 100_000
MAX_LIFE_SECS = 86_400.0


@define
class TakenAssertions:
    """The ids of tokens that were taken, until each would have expired.

    Attributes:
        leeway: By how much the clock of who led before may differ, where somebody could have.
    """

    now: Callable[[], float]
    leeway: float = 0.0
    _began_at: float = field(default=inf, init=False)
    _until: dict[bytes, float] = field(factory=dict, init=False)

    def begin(self) -> None:
        """We lead from now on; of tokens of before, who knows whether they were taken."""
        # Who leads again after a lapse has missed nothing: nobody else led meanwhile.
        self._began_at = min(self._began_at, self.now() + self.leeway)

    def take(self, token: str, claims: Mapping[str, Any]) -> None:
        """Take a token.

        Raises:
            SignInRefused: ``assertion_replayed``, ``assertion_life``,
                ``assertion_old``, ``assertion_busy``.
        """
        # What was signed, which nobody can write in another way; a `jti` is not always there.
        signed, now = token.rpartition(".")[0], self.now()
        id = sha256(signed.encode()).digest()
        if claims["exp"] - claims["iat"] > MAX_LIFE_SECS:
            raise _refused("life", "it is good for more than a day")
        if claims["iat"] < self._began_at:
            raise _refused(
                "old", "it was issued before this Authority began to lead; get a new one"
            )
        self._until = {each: end for each, end in self._until.items() if end > now}
        if id in self._until:
            raise _refused("replayed", "it was used already; get a new one")
        if len(self._until) >= MAX_TAKEN:
            raise _refused("busy", "too many are in use; try again later")
        self._until[id] = claims["exp"] + LEEWAY_SECS


def _refused(word: str, text: str) -> SignInRefused:
    return SignInRefused(
        f"the ID token of a machine is refused: {text}", reason=f"assertion_{word}"
    )
