"""Waits for as much of a message as the gate has to read, or to be about; the rest is not held."""

from __future__ import annotations

from svc.errors import Malformed
from svc.interfaces.gating import IGatedStream
from svc.kinds.postgres.messages import HEAD, LONGEST_NAMES, LONGEST_TEXT


async def whole(stream: IGatedStream, size: int) -> bytes:
    """The message, once all of it is here."""
    held = await stream.at_least(size)
    if held is None:
        raise Malformed("the stream ended in the middle of a request")
    return held


async def first_of(stream: IGatedStream, size: int) -> int:
    """How many bytes of a message a decision is about; they are held."""
    first = min(size, LONGEST_TEXT)
    await whole(stream, first)
    return first


async def names(stream: IGatedStream, size: int, head: bytes) -> bytes:
    """The beginning of a message's body, with the names in it.

    Args:
        head: What of the message was there.
    """
    first = min(size, HEAD + LONGEST_NAMES)
    return (head if first <= len(head) else await whole(stream, first))[HEAD:first]


async def drop(stream: IGatedStream, size: int) -> None:
    """Let nothing arrive in the place of the next bytes."""
    while size > 0:
        first = min(size, LONGEST_TEXT)
        await whole(stream, first)
        stream.edit(first, "drop", {})
        size -= first
