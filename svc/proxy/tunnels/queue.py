"""Limits how many registrations and checkpoints are sent to the Authority at once; others wait.

After a restart every Connector comes at once, and after Authority's every
tunnel asks again: each question costs Authority a signature and a record, so
they go a few at a time, in the order in which they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from attrs import define, field
from twisted.internet.defer import DeferredSemaphore

from svc.errors import Fault, SvcError

MAX_ASKING = 64
"""Registrations that Authority has before it at once, of one Proxy."""

MAX_WAITING = 4096
"""Connectors that wait for their turn; the next one is told to come later."""

SHARE = 4
"""Of one node: its tunnel, the one that replaces it, and as many of a restarted process."""

MAX_CHECKPOINTS = 16
"""Of one Connector, before Authority at once: what others ask has room on the same connection."""

MAX_WAITING_CHECKPOINTS = 8192
"""Of one Connector: one for each session, and the last ones of those that ended."""

_LATER_SECS = 5.0

_T = TypeVar("_T")


@define
class RegistrationQueue:
    """See the module.

    Attributes:
        most: Registrations before Authority at once.
    """

    most: int = MAX_ASKING
    _turns: DeferredSemaphore = field(init=False)
    _of: Counter[str] = field(factory=Counter)

    @_turns.default
    def _all(self) -> DeferredSemaphore:
        return DeferredSemaphore(self.most)

    async def first(self, node_id: str, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Run *ask* in its turn, for a Connector that comes.

        Raises:
            SvcError: ``too_many_registrations``, with when to come again: too many wait, or too
                many of this node.
        """
        if self._of[node_id] >= SHARE or len(self._turns.waiting) >= MAX_WAITING:
            if not self._of[node_id]:
                del self._of[node_id]
            raise SvcError(
                "too many registrations are in progress; try again later",
                reason="too_many_registrations",
                fault=Fault.EXHAUSTED,
                retry_after=_LATER_SECS,
            )
        self._of[node_id] += 1
        try:
            return await self.again(ask)
        finally:
            self._of[node_id] -= 1
            if not self._of[node_id]:
                del self._of[node_id]

    async def again(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Run *ask* in its turn for a registered tunnel, which is never refused a place."""
        await self._turns.acquire()
        try:
            return await ask()
        finally:
            self._turns.release()


@define
class CheckpointQueue:
    """Brings the checkpoints of each Connector to Authority, a few at a time."""

    _turns: dict[str, DeferredSemaphore] = field(factory=dict, init=False)

    async def bring(self, node_id: str, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Run *ask* in its turn.

        Raises:
            SvcError: ``too_many_checkpoints``: too many of this Connector wait.
        """
        turns = self._turns.get(node_id)
        if turns is None:
            turns = self._turns[node_id] = DeferredSemaphore(MAX_CHECKPOINTS)
        if len(turns.waiting) >= MAX_WAITING_CHECKPOINTS:
            raise SvcError(
                "too many checkpoints of this Connector wait; try again later",
                reason="too_many_checkpoints",
                fault=Fault.EXHAUSTED,
                retry_after=_LATER_SECS,
            )
        await turns.acquire()
        try:
            return await ask()
        finally:
            turns.release()
            if turns.tokens == turns.limit:
                self._turns.pop(node_id, None)
