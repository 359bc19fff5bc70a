"""Joins two calls as byte streams: messages pass unread, even before they are complete.

The framing of gRPC is the same on both sides, so its bytes are too.  A side's window opens only
as far as the other side's transport has taken what came, so a join holds no more than one window
in either direction.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from zope.interface import implementer

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRawEnd, IRawSink


@frozen
class RelayedBytes:
    """Bytes that passed, framing included.

    Attributes:
        from_first: Bytes read from the first end.
        from_second: Bytes read from the second end.
    """

    from_first: int
    from_second: int


Watch = Callable[[bytes | memoryview], object]
"""Shown bytes before they pass; must not raise."""


async def join_streams(
    first: IRawEnd,
    second: IRawEnd,
    counted: Callable[[RelayedBytes], object],
    watch: Watch | None = None,
) -> RelayedBytes:
    """Pass everything between two ends until the call that ends first is over.

    For a call being served the caller's handler awaits this, and ends as it does: returning is
    OK, raising passes the refusal on.  A stream being made is half-closed when the other end
    is, and broken off when the other end breaks.  Where both are calls being served, the end
    of either caller's half is the end of both.

    Args:
        counted: Told the bytes that passed, however the join ended; before this returns or raises.
        watch: Shown what comes from *second*.

    Raises:
        SvcError: how the join broke.
    """
    join = _Join(first, second, watch)
    join.begin()
    try:
        await join.done
    except CancelledError:
        join.failed(SvcError("the join was cancelled", reason="cancelled", fault=Fault.CANCELLED))
        raise
    finally:
        joined = RelayedBytes(join.first.received, join.second.received)
        counted(joined)
        join.let_go()
    return joined


@implementer(IRawSink)
@define(eq=False)
class _Side:
    """Takes the bytes of one end to the other."""

    join: _Join
    source: IRawEnd
    target: IRawEnd
    watch: Watch | None = None
    received: int = 0
    has_ended: bool = False
    raw_sent: Callable[[int], None] = field(init=False)
    """What the source sent out came from the target."""

    @raw_sent.default
    def _credits(self) -> Callable[[int], None]:
        return self.target.credit

    def raw_received(self, chunk: bytes | memoryview) -> None:
        self.received += len(chunk)
        if self.watch is not None:
            self.watch(chunk)
        self.target.write_raw(chunk)

    def raw_ended(self) -> None:
        self.has_ended = True
        goes_on = self.target.end_raw()
        self.join.ended(goes_on=goes_on)

    def raw_failed(self, refusal: SvcError) -> None:
        self.join.failed(refusal)


@define(eq=False)
class _Join:
    """Two sides and whether they are over."""

    _first_end: IRawEnd
    _second_end: IRawEnd
    _watch: Watch | None = None
    first: _Side = field(init=False)
    second: _Side = field(init=False)
    done: Deferred[None] = field(init=False, factory=Deferred)

    def begin(self) -> None:
        self.first = _Side(self, self._first_end, self._second_end)
        self.second = _Side(
            join=self, source=self._second_end, target=self._first_end, watch=self._watch
        )
        self._first_end.divert(self.first)
        self._second_end.divert(self.second)

    def ended(self, *, goes_on: bool) -> None:
        if not self.done.called and (
            not goes_on or (self.first.has_ended and self.second.has_ended)
        ):
            self.done.callback(None)

    def let_go(self) -> None:
        """Once it is done: its sides lead to both calls, and back here."""
        del self.first, self.second

    def failed(self, refusal: SvcError) -> None:
        self._first_end.fail_raw(refusal)
        self._second_end.fail_raw(refusal)
        if not self.done.called:
            self.done.errback(refusal)
