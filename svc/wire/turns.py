"""Calls that wait until their peer allows another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import field, frozen

from svc.errors import Fault, SvcError
from svc.wire.headers import Headers

if TYPE_CHECKING:
    from svc.wire.streams import Stream


@frozen(eq=False)
class StreamQueue:
    """A client's calls past the peer's limit of streams, first come first served.

    Attributes:
        most: How many may wait.
        begin: Begins one.
        waiting: Those that wait, and the fields that each begins with; only to be looked at.
    """

    most: int
    begin: Callable[[Stream, Headers], object]
    waiting: dict[Stream, Headers] = field(factory=dict, init=False)

    def wait(self, stream: Stream, fields: Headers) -> None:
        """Let a call wait.

        Raises:
            SvcError: ``EXHAUSTED``, ``too_many_streams``: too many wait already.
        """
        if len(self.waiting) >= self.most:
            raise too_many_streams()
        self.waiting[stream] = fields

    def next(self) -> None:
        """Begin the call that has waited longest."""
        stream = next(iter(self.waiting))
        self.begin(stream, self.waiting.pop(stream))

    def forget(self, stream: Stream) -> None:
        """A call waits no more, if it did."""
        self.waiting.pop(stream, None)


def _begins_none(_stream: Stream, _fields: Headers) -> None:
    raise AssertionError("a server begins no call")


NOBODY = StreamQueue(0, _begins_none)
"""The queue of every server: nobody can wait in it, so that all may hold it."""


def too_many_streams() -> SvcError:
    """The refusal of a call that the peer's limit of streams kept from beginning."""
    return SvcError(
        "the peer allows no further call on this connection",
        reason="too_many_streams",
        fault=Fault.EXHAUSTED,
    )
