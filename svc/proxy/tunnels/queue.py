"""Limits how many registrations are sent to the Authority at once; the others wait.

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
