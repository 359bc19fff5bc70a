"""The events that a connection reports to its owner, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, frozen

if TYPE_CHECKING:
    from svc.wire.headers import RequestHead
    from svc.wire.streams import Stream


@frozen(eq=False)
class CallOpened:
    """A caller began a call (server side only)."""

    stream: Stream
    head: RequestHead


@define(eq=False)
class Readable:
    """The stream holds bytes, or the end of the peer's half, that were not there before.

    At a client the end comes with :class:`Finished` alone.  There are many of these: a frozen one
    would take three times as long to make.
    """

    stream: Stream


@frozen(eq=False)
class QueueEmptied:
    """The stream's queue has room again after it had none."""

    stream: Stream


@frozen(eq=False)
class Finished:
    """The stream is over and forgotten.

    ``stream.status`` is the server's answer, or what a reset means; at a server it is never OK,
    because there it only tells of calls that the peer broke off.
    """

    stream: Stream


@frozen
class Ready:
    """The peer's first SETTINGS came: it speaks HTTP/2."""


@frozen
class Ponged:
    """The peer answered our ping."""


@frozen
class GoingAway:
    """The peer takes no stream above ``last_stream_id``; ``error_code`` 0 is a drain.

    ``words`` is what else the peer said of it.
    """

    last_stream_id: int
    error_code: int
    words: bytes = b""


Event = CallOpened | Readable | QueueEmptied | Finished | Ready | Ponged | GoingAway
