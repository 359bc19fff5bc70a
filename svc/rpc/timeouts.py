"""How long a peer may leave a header block, an answer or its reading unfinished.

The handshake and a call's first message have deadlines of their own (``connection``, ``server``).
Nothing here costs a byte that moves: the timers look at what has not moved since.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Protocol

from h2.errors import ErrorCodes
from twisted.internet.interfaces import IReactorTime

from svc.rpc.call import MessageEnd, OnProblem
from svc.rpc.status import deadline_exceeded
from svc.wire.connection import Connection
from svc.wire.streams import Stream

_DEAF = 4
"""A transport is only full or empty: a slow path needs longer to empty one than to move."""

_PROGRESS = 1024
"""Whoever takes less in that time, and not the end, takes nothing."""


class TimeoutOwner(Protocol):
    """What the connection's owner does when time is up."""

    @property
    def wire(self) -> Connection:
        """Its HTTP/2."""

    clock: IReactorTime
    on_problem: OnProblem

    def fail(self, reason: str) -> None:
        """End the connection at once."""

    def give_up(self, reason: str) -> None:
        """End the connection with a last word."""

    def schedule(self) -> None:
        """Write what is queued."""


class ConnectionTimeouts:
    """The deadlines of one connection; its owner says what happened, and keeps the timers.

    Args:
        owner: The connection.
        after: ``after(name, seconds, call)`` starts a timer.
        running: The names of the timers that run.
    """

    def __init__(
        self,
        owner: TimeoutOwner,
        after: Callable[[str, float, Callable[[], object]], None],
        running: Container[str],
    ) -> None:
        self._owner = owner
        self._after = after
        self._running = running
        self._deaf_since: float | None = None
        self._taken = 0
        self._left: dict[int, int] = {}

    @property
    def _seconds(self) -> float:
        return self._owner.wire.limits.stalled_secs

    def received(self) -> None:
        """Bytes came; a header block may have begun."""
        if self._owner.wire.is_amid_head and "head" not in self._running:
            self._wait_for_head()

    def written(self) -> None:
        """Something was written, and waits for its caller."""
        if "answers" not in self._running:
            self._wait_for_answers()

    def full(self) -> None:
        """The transport accepts no more bytes."""
        self._deaf_since = self._owner.clock.seconds()
        if "deaf" not in self._running:
            self._after("deaf", _DEAF * self._seconds, self._look_deaf)

    def empty(self) -> None:
        """The transport accepts bytes again."""
        self._deaf_since = None

    def _wait_for_head(self) -> None:
        self._taken = self._owner.wire.taken
        self._after("head", self._seconds, self._look_head)

    def _look_head(self) -> None:
        if not self._owner.wire.is_amid_head:
            return
        if self._owner.wire.taken == self._taken:
            self._owner.give_up("header_block_timeout")
        else:
            self._wait_for_head()

    def _wait_for_answers(self) -> None:
        self._left = {stream.id: stream.queued for stream in self._owed()}
        self._after("answers", self._seconds, self._look_answers)

    def _look_answers(self) -> None:
        for stream in self._owed():
            before = self._left.get(stream.id)
            if before is not None and before - stream.queued < _PROGRESS:
                self._drop(stream)
        if self._owner.wire.blocked:
            self._wait_for_answers()

    def _owed(self) -> list[Stream]:
        """Calls that wait for nothing but that their peer takes what it asked for."""
        blocked = self._owner.wire.blocked.values()
        return [each for each in blocked if each.ending is not None or _awaits_room(each)]

    def _drop(self, stream: Stream) -> None:
        self._owner.on_problem("answer_not_taken", str(stream.id))
        end = stream.context
        self._owner.wire.reset(stream, ErrorCodes.CANCEL)
        if isinstance(end, MessageEnd):
            end.lost(deadline_exceeded())
        self._owner.schedule()

    def _look_deaf(self) -> None:
        if self._deaf_since is None:
            return
        left = self._deaf_since + _DEAF * self._seconds - self._owner.clock.seconds()
        if left <= 0:
            self._owner.fail("not_reading")
        else:
            self._after("deaf", left, self._look_deaf)


def _awaits_room(stream: Stream) -> bool:
    return isinstance(stream.context, MessageEnd) and stream.context.awaits_room
