"""Signing in with an ID token that a machine's platform gave it, without a browser.

The token must be for this cluster and for nothing else, and is taken once.
Which were taken is known to the Authority that leads, in memory; one that was
issued before it led is therefore refused.  Where the store failed as somebody was to be let in, or
the caller broke off before it was told, the token may be brought again for the same key: a platform
may give no other for an hour.  What the store has kept all the same is then given, and no second
certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from math import inf
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError

from svc.authority.signin.id_token import LEEWAY_SECS
from svc.authority.signin.once import IssuedOnce
from svc.authority.signin.refusals import SignInRefused
from svc.errors import Fault, SvcError

MAX_TAKEN = 100_000
MAX_LIFE_SECS = 86_400.0


@define
class _Taken:
    """A token that was taken.

    Attributes:
        end: When it would have expired.
        holder: The key that it was brought for, and the agent that it is of; empty: a person's.
        left: By what it goes on when it is brought again; None: it is not good any more.
    """

    end: float
    holder: tuple[bytes, str]
    left: IssuedOnce | None = None


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

    def use(self, token: str, key_sha256: bytes) -> AssertionUse:
        """One request that brings a token for a key; nothing is taken yet."""
        return AssertionUse(self, _id(token), key_sha256)

    def take(self, id: bytes, holder: tuple[bytes, str], claims: Mapping[str, Any]) -> _Taken:
        """Take a token; who takes it may leave it to be brought again.

        Raises:
            SignInRefused: ``assertion_replayed``, ``assertion_life``,
                ``assertion_old``, ``assertion_busy``.
        """
        if claims["exp"] - claims["iat"] > MAX_LIFE_SECS:
            raise _refused("life", "it is good for more than a day")
        if claims["iat"] < self._began_at:
            raise _refused(
                "old", "it was issued before this Authority began to lead; get a new one"
            )
        self.forget_ended()
        known = self._until.get(id)
        if known is not None:
            if known.left is None or known.holder != holder:
                raise _refused("replayed", "it was used already; get a new one")
            return known
        if len(self._until) >= MAX_TAKEN:
            raise _refused("busy", "too many are in use; try again later")
        self._until[id] = _Taken(claims["exp"] + LEEWAY_SECS, holder)
        return self._until[id]

    def forget_ended(self) -> None:
        """Forget the tokens that have expired."""
        now = self.now()
        self._until = {each: one for each, one in self._until.items() if one.end > now}


@define(eq=False)
class AssertionUse:
    """One request that brings a token: only what it took itself can it leave open again."""

    _assertions: TakenAssertions
    _id: bytes
    _key_sha256: bytes
    _taken: _Taken | None = field(default=None, init=False)
    _once: IssuedOnce = field(factory=IssuedOnce, init=False)

    def take(self, claims: Mapping[str, Any], agent_id: str = "") -> IssuedOnce:
        """Take the token; what it gives is issued by the answer.

        Raises:
            SignInRefused: see :meth:`TakenAssertions.take`.
        """
        taken = self._assertions.take(self._id, (self._key_sha256, agent_id), claims)
        if taken.left is not None:
            self._once, taken.left = taken.left, None
        self._taken = taken
        return self._once

    def failed(self, failure: SvcError | CancelledError) -> None:
        """Nobody was told of being let in: where that may pass, the token is good once more.

        A request that failed before it took the token says nothing of the one that did.

        Args:
            failure: Of the request; a cancellation, where its caller broke off.
        """
        may_pass = isinstance(failure, CancelledError) or failure.fault is Fault.UNAVAILABLE
        if may_pass and self._taken is not None:
            self._taken.left = self._once


def _id(token: str) -> bytes:
    """Of what was signed, which nobody can write in another way; a `jti` is not always there."""
    return sha256(token.rpartition(".")[0].encode()).digest()


def _refused(word: str, text: str) -> SignInRefused:
    return SignInRefused(
        f"the ID token of a machine is refused: {text}", reason=f"assertion_{word}"
    )
