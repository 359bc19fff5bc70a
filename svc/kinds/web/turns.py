"""Whose answer comes next: requests of one connection are answered in their order, denied ones too.

What was denied never reaches the target, so its answer cannot come from there.
It is inserted where it belongs: at once if nothing is owed before it, or else
when the answer before it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred

from svc.errors import Malformed
from svc.kinds.web.head import HttpRequest

MOST_OWED = 32
"""Requests of one connection that may wait for their answers; more are not read."""

Insert = Callable[[str, Mapping[str, str]], None]


@frozen
class Turn:
    """One answer that is owed.

    Attributes:
        method: Of the request; HEAD gets no body.
        request: Its head; None where the answer is an insertion.
        edit: The insertion that is the answer; empty: the target answers.
        values: Of that insertion.
        over: Called when the target's answer has ended.
    """

    method: bytes
    request: HttpRequest | None = None
    edit: str = ""
    values: Mapping[str, str] = field(factory=dict)
    over: Callable[[], object] = lambda: None


@define
class Turns:
    """The answers that one connection owes, in their order.

    Attributes:
        insert: Inserts an answer that is not the target's.
        answered: How many requests have been answered whole.
        is_worded: Whether the last of these answers was inserted.
    """

    insert: Insert
    answered: int = field(default=0, init=False)
    is_worded: bool = field(default=False, init=False)
    _owed: list[Turn] = field(factory=list, init=False)
    _has_begun: bool = field(default=False, init=False)
    _waiting: list[tuple[int, Deferred[None]]] = field(factory=list, init=False)
    _at_end: Callable[[], object] | None = field(default=None, init=False)

    def owe(self, turn: Turn) -> None:
        """Note the next request; it must be done before any of it is passed on."""
        self._owed.append(turn)
        if turn.edit:
            self._go_on()

    def current(self) -> Turn:
        """Whose answer the target now sends.

        Raises:
            Malformed: nobody's.
        """
        if not self._owed:
            raise Malformed("the target answers what nobody asked")
        self._has_begun = True
        return self._owed[0]

    def lasts(self) -> None:
        """The answer that has begun may last: what was asked is not kept for so long."""
        self._owed[0] = evolve(self._owed[0], request=None)

    def end(self) -> None:
        """The target's answer has come whole."""
        self._owed.pop(0).over()
        self._has_begun = self.is_worded = False
        self.answered += 1
        self._go_on()

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is owed of which nothing was sent yet."""
        return bool(self._owed) and not self._has_begun

    def spoil(self, turn: Turn) -> bool:
        """Put this in place of the newest request's turn, unless its answer has begun."""
        is_begun = self._has_begun and len(self._owed) == 1
        if not self._owed or is_begun:
            return False
        self._owed[-1] = turn
        self._go_on()
        return True

    def none_follows(self, then: Callable[[], object]) -> None:
        """Nothing more will be owed: call this once all is answered."""
        self._at_end = then
        self._go_on()

    async def fewer_than(self, count: int) -> None:
        """Wait until fewer answers than this are owed."""
        if len(self._owed) >= count:
            waiting: Deferred[None] = Deferred()
            self._waiting.append((count, waiting))
            await waiting

    def _go_on(self) -> None:
        while self._owed and self._owed[0].edit:
            turn = self._owed.pop(0)
            self.insert(turn.edit, turn.values)
            self.answered += 1
            self.is_worded = True
        for each in list(self._waiting):
            count, waiting = each
            if len(self._owed) < count:
                self._waiting.remove(each)
                if not waiting.called:
                    waiting.callback(None)
        if self._at_end is not None and not self._owed:
            then, self._at_end = self._at_end, None
            then()
