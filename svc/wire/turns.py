"""Calls that wait until their peer allows another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field

from svc.errors import Fault, SvcError
from svc.wire.headers import Headers

if TYPE_CHECKING:
    from svc.wire.streams import Stream


@define
class StreamQueue:
    """A client's calls past the peer's limit of streams, first come first served.

    Attributes:
        most: How many may wait.
        begin: Begins one.
    """

    most: int
    begin: Callable[[Stream, Headers], object]
    _waiting: dict[Stream, Headers] = field(factory=dict)

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, stream: Stream, fields: Headers) -> None:
        """Let a call wait.

        Raises:
            SvcError: ``EXHAUSTED``, ``too_many_streams``: too many wait already.
        """
        if len(self._waiting) >= self.most:
            raise too_many_streams()
        self._waiting[stream] = fields

    def next(self) -> None:
        """Begin the call that has waited longest."""
        stream = next(iter(self._waiting))
        self.begin(stream, self._waiting.pop(stream))

    def forget(self, stream: Stream) -> None:
        """A call waits no more, if it did."""
        self._waiting.pop(stream, None)

    @property
    def streams(self) -> list[Stream]:
        """Those that wait."""
        return list(self._waiting)


def too_many_streams() -> SvcError:
    """The refusal of a call that the peer's limit of streams kept from beginning."""
    return SvcError(
        "the peer allows no further call on this connection",
        reason="too_many_streams",
        fault=Fault.EXHAUSTED,
    )
