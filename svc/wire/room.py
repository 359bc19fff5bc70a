"""How much data one connection's streams may hold: their windows, and longer messages.

A message longer than its stream's window only becomes whole if the peer may send more before it
was read.  That room is given for a whole message at a time, first come first served: who has it
can finish, so those behind it wait and are not refused.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from svc.wire.limits import WireLimits


@define
class StreamBudget:
    """What the streams of one connection share.

    Attributes:
        limits: The bounds.
        windows: What the peer may have under way, over all streams' windows.
    """

    limits: WireLimits
    windows: int = 0
    _long: _LongMessages | None = field(default=None, init=False)
    """Made for the first of them: most connections see none."""

    @property
    def ahead(self) -> int:
        """What is set aside for messages longer than their windows."""
        return 0 if self._long is None else self._long.ahead

    def grant(self, size: int) -> int:
        """How much of *size* a stream may add to its window: all, or 0 once we are crowded."""
        if self.windows >= self.limits.crowded:
            return 0
        self.windows += size
        return size

    def run_ahead(self, stream_id: int, size: int, on_room: Callable[[], object]) -> int:
        """Set *size* bytes aside for the message that a stream is reading.

        Args:
            on_room: Called once there is room, if there is none now.

        Returns:
            What is set aside for the stream; 0 while it must wait.
        """
        if self._long is None:
            self._long = _LongMessages(self.limits.run_ahead)
        return self._long.begin(stream_id, size, on_room)

    def release(self, stream_id: int) -> None:
        """The stream's message was read or is no longer needed; other streams may use its room."""
        if self._long is not None:
            self._long.end(stream_id)


@define
class _LongMessages:
    """Those that are longer than their streams' windows: a size each, by stream.

    Attributes:
        most: How much may be set aside for them together; one alone may be longer.
        ahead: What is set aside.
    """

    most: int
    ahead: int = 0
    _held: dict[int, int] = field(factory=dict)
    _waiting: dict[int, tuple[int, Callable[[], object]]] = field(factory=dict)

    def begin(self, stream_id: int, size: int, on_room: Callable[[], object]) -> int:
        """See :meth:`StreamBudget.run_ahead`."""
        held = self._held.get(stream_id)
        if held is not None:
            return held
        if self._waiting or not self._fits(size):
            self._waiting[stream_id] = size, on_room
            return 0
        return self._set_aside(stream_id, size)

    def end(self, stream_id: int) -> None:
        """See :meth:`StreamBudget.release`."""
        self._waiting.pop(stream_id, None)
        self.ahead -= self._held.pop(stream_id, 0)
        while self._waiting:
            first = next(iter(self._waiting))
            size, on_room = self._waiting[first]
            if not self._fits(size):
                return
            del self._waiting[first]
            self._set_aside(first, size)
            on_room()

    def _fits(self, size: int) -> bool:
        return not self._held or self.ahead + size <= self.most

    def _set_aside(self, stream_id: int, size: int) -> int:
        self._held[stream_id] = size
        self.ahead += size
        return size
