"""Chooses the Authority that a Proxy uses.

Each instance has an address of its own.  The Proxy stays with the one that
answered, and turns to another when it is refused (a follower says
``not_leader``), cannot reach it, or hears from another one that it leads in a
newer epoch.  Epochs only grow, so two that both say they lead never toss a
Proxy to and fro.
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
    _failed: set[int] = field(factory=set, init=False)
    _epochs: dict[int, int] = field(factory=dict, init=False)

    @property
    def turn(self) -> int:
        """The place of the member to dial, or of the one that is dialed."""
        return self._turn

    @property
    def current(self) -> _T:
        """That member."""
        return self.members[self._turn]

    @property
    def is_alone(self) -> bool:
        """Whether the pool has no other member."""
        return len(self.members) < 2

    @property
    def preferred(self) -> int | None:
        """The member that leads in a newer epoch than the current one is known to, if any does."""
        best = self._best(range(len(self.members)))
        if best in (None, self._turn) or self._epoch(best) <= self._epoch(self._turn):
            return None
        return best

    def claimed(self, at: int, epoch: int) -> None:
        """A member says that it leads in *epoch*; 0: that it does not."""
        self._epochs[at] = epoch

    def unanswered(self, at: int) -> None:
        """A member did not answer.

        What the current one said stands: whether its connection does is seen on it.
        """
        if at != self._turn:
            self._epochs.pop(at, None)

    def turn_to(self, at: int) -> None:
        """Dial this one next."""
        self._turn = at

    def turn_back(self, at: int) -> None:
        """The current one was not reached after all; stay with the former."""
        self._epochs.pop(self._turn, None)
        self._turn = at

    def answered(self) -> None:
        """The Proxy's calls go to the current member from now on."""
        if self._settled not in (None, self._turn):
            self.moved()
        self._settled = self._turn

    def held(self) -> None:
        """The connection that just ended was no failure: the next one begins a new round."""
        self._failed.clear()

    def failed(self, at: int | None = None) -> bool:
        """Turn to another member; whether all have failed since one held or a round ended.

        Args:
            at: The one that failed, where that is not the current one.
        """
        at = self._turn if at is None else at
        self._epochs.pop(at, None)
        self._failed.add(at)
        count = len(self.members)
        is_over = len(self._failed) == count
        if is_over:
            self._failed.clear()
        order = [(at + step) % count for step in range(1, count + 1)]
        left = [each for each in order if each not in self._failed]
        best = self._best(left)
        self._turn = left[0] if best is None else best
        return is_over

    def _best(self, among: Sequence[int]) -> int | None:
        leading = [at for at in among if self._epoch(at)]
        return max(leading, key=self._epoch) if leading else None

    def _epoch(self, at: int | None) -> int:
        return 0 if at is None else self._epochs.get(at, 0)
