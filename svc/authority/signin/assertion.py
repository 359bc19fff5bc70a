"""Signing in with an ID token that a machine's platform gave it, without a browser.

The token must be for this cluster and for nothing else, and is taken once.
Which were taken is known to the Authority that leads, in memory; one that was
issued before it led is therefore refused.  One by which nobody was let in, because the store
failed, may be brought again for the same key: a platform may give no other for an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from math import inf
from typing import Any

from attrs import define, field

from svc.authority.signin.id_token import LEEWAY_SECS
from svc.authority.signin.refusals import SignInRefused
from svc.errors import Fault, SvcError

MAX_TAKEN = 100_000
MAX_LIFE_SECS = 86_400.0


@define
class _Taken:
    """A token that was taken.

    Attributes:
        end: When it would have expired.
        key_sha256: Of the key that it was brought for.
        is_open: Nobody was let in by it, as far as is known.
    """

    end: float
    key_sha256: bytes
    is_open: bool = False


@define
class TakenAssertions:
    """The ids of tokens that were taken, until each would have expired.

    Attributes:
        leeway: By how much the clock of who led before may differ, where somebody could have.
    """

    now: Callable[[], float]
    leeway: float = 0.0
    _began_at: float = field(default=inf, init=False)
    _until: dict[bytes, _Taken] = field(factory=dict, init=False)

    def begin(self) -> None:
        """We lead from now on; of tokens of before, who knows whether they were taken."""
        # Who leads again after a lapse has missed nothing: nobody else led meanwhile.
        self._began_at = min(self._began_at, self.now() + self.leeway)

    def take(self, token: str, key_sha256: bytes, claims: Mapping[str, Any]) -> None:
        """Take a token that is brought for a key.

        Raises:
            SignInRefused: ``assertion_replayed``, ``assertion_life``,
                ``assertion_old``, ``assertion_busy``.
        """
        id, now = _id(token), self.now()
        if claims["exp"] - claims["iat"] > MAX_LIFE_SECS:
            raise _refused("life", "it is good for more than a day")
        if claims["iat"] < self._began_at:
            raise _refused(
                "old", "it was issued before this Authority began to lead; get a new one"
            )
        self._until = {each: one for each, one in self._until.items() if one.end > now}
        known = self._until.get(id)
        if known is not None:
            if not known.is_open or known.key_sha256 != key_sha256:
                raise _refused("replayed", "it was used already; get a new one")
            known.is_open = False
            return
        if len(self._until) >= MAX_TAKEN:
            raise _refused("busy", "too many are in use; try again later")
        self._until[id] = _Taken(claims["exp"] + LEEWAY_SECS, key_sha256)

    def failed(self, token: str, key_sha256: bytes, refusal: SvcError) -> None:
        """Nobody was let in by a token: where that may pass, it is good once more for its key.

        It is unknown whether the store has a certificate all the same; that is for this key too.
        """
        known = self._until.get(_id(token))
        if refusal.fault is Fault.UNAVAILABLE and known is not None:
            known.is_open = known.is_open or known.key_sha256 == key_sha256


def _id(token: str) -> bytes:
    """Of what was signed, which nobody can write in another way; a `jti` is not always there."""
    return sha256(token.rpartition(".")[0].encode()).digest()


def _refused(word: str, text: str) -> SignInRefused:
    return SignInRefused(
        f"the ID token of a machine is refused: {text}", reason=f"assertion_{word}"
    )
