"""Has the signatures of a backlog verified in a process of its own, beside all other work on it.

Threads are no help: each signature lets go of the interpreter's lock and has to wait for it again,
so that two of them, beside one that writes, take longer than one thread alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import Deferred

from svc.errors import SvcError
from svc.model.audit.outbox import QueuedRow
from svc.model.audit.spool import row_question
from svc.model.cluster.node import Node
from svc.runtime.apart import MOST_GIVEN

ENOUGH = 64
"""Fewer rows are verified where they are judged: they are no backlog."""

IDLE_SECS = 60.0
"""So long the process stays with nothing to do; and so long none is begun after one failed."""

_WORK = "svc.model.sodium:answers"
_OURS = "the audit queue"


class WarmProcess(Protocol):
    """As :class:`svc.runtime.apart.WorkApart`."""

    def run(self, work: str, data: bytes, person: str, /) -> Awaitable[bytes]:
        """What a function makes of *data* in the process.  Raises SvcError."""

    def rest(self) -> None:
        """End the process until there is more."""

    def stop(self) -> Awaitable[None]:
        """End it for good."""


@define(eq=False)
class SignaturesApart:
    """The process, begun with the first backlog.

    Attributes:
        process: Does the work.
        now: In seconds, of a clock that nobody sets.
    """

    process: WarmProcess
    now: Callable[[], float]
    _is_ready: bool = field(default=False, init=False)
    _is_begun: bool = field(default=False, init=False)
    _used_at: float = field(default=0.0, init=False)

    def verified(
        self, rows: Sequence[QueuedRow], keys: Mapping[str, Node]
    ) -> Deferred[frozenset[int]]:
        """The ids of rows whose signatures are good; of all others nothing is said.

        Args:
            keys: The nodes by the id of their key.
        """
        return Deferred.fromCoroutine(self._verified(rows, keys))

    def idle(self) -> None:
        """End the process if it had nothing to do for a while; called now and then."""
        if self._is_begun and self.now() - self._used_at > IDLE_SECS:
            self._is_begun = self._is_ready = False
            self.process.rest()

    async def stop(self) -> None:
        """End it for good; the rows of a later look are verified where they are judged."""
        await self.process.stop()

    async def _verified(
        self, rows: Sequence[QueuedRow], keys: Mapping[str, Node]
    ) -> frozenset[int]:
        if len(rows) < ENOUGH:
            return frozenset()
        if not self._is_ready:
            self._begin()
            return frozenset()
        asked, questions, left = list[int](), list[bytes](), MOST_GIVEN
        for row in rows:
            node = keys.get(row.row.key_id)
            question = b"" if node is None else row_question(row.row, node.audit_key)
            if 0 < len(question) <= left:
                asked.append(row.id)
                questions.append(question)
                left -= len(question)
        answers = await self._ask(b"".join(questions))
        return frozenset(id for id, is_good in zip(asked, answers, strict=False) if is_good)

    def _begin(self) -> None:
        """Begin the process; until it answers, rows are verified where they are judged."""
        if not self._is_begun:
            self._is_begun = True
            Deferred.fromCoroutine(self._ask(b""))

    async def _ask(self, questions: bytes) -> bytes:
        """The answers; none where the process cannot be had, and no other is begun for a while."""
        self._used_at = self.now()
        try:
            answers = await self.process.run(_WORK, questions, _OURS)
        except SvcError:
            self._is_ready = False  # it is in the log what became of it
            return b""
        self._is_ready = True
        return answers
