"""Which Authority a Proxy turns to.

Each instance has an address of its own.  The Proxy stays with the one that
answered, and turns to the next when it is refused (a follower says
``not_leader``) or cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from attrs import define, field

_T = TypeVar("_T")


def _nobody() -> None:
    """Nobody counts."""


@define
class AuthorityPool(Generic[_T]):
    """The members in the order of the configuration, and where the Proxy is among them.

    Attributes:
        members: At least one where anything is dialed.
        moved: Called once for each move of the Proxy's calls to another instance
            (``svc_authority_pool_moves_total``).
    """

    members: Sequence[_T]
    moved: Callable[[], object] = _nobody
    _turn: int = field(default=0, init=False)
    _settled: int | None = field(default=None, init=False)
    _failed: int = field(default=0, init=False)

    @property
    def current(self) -> _T:
        """The member to dial, or the one that is dialed."""
        return self.members[self._turn]

    @property
    def is_alone(self) -> bool:
        """Whether there is no other member to turn to."""
        return len(self.members) < 2

    def answered(self) -> None:
        """The Proxy's calls go to the current member from now on."""
        if self._settled not in (None, self._turn):
            self.moved()
        self._settled = self._turn

    def held(self) -> None:
        """The connection that just ended was no failure: the next one begins a new round."""
        self._failed = 0

    def failed(self) -> bool:
        """Turn to the next member; whether all have failed since one held or a round ended."""
        self._turn = (self._turn + 1) % len(self.members)
        self._failed += 1
        if self._failed < len(self.members):
            return False
        self._failed = 0
        return True
