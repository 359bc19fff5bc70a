"""Reads the first frame of a stream: what the caller opens."""

from __future__ import annotations

from functools import partial

from twisted.internet.interfaces import IReactorTime

from svc.errors import Malformed
from svc.interfaces.rpc import IRpcCall
from svc.rpc.frames import FrameKind, parse_frame
from svc.runtime.services import bounded

_FIRST_FRAME_SECS = 10.0


async def read_open(call: IRpcCall, clock: IReactorTime, what: str) -> bytes:
    """The payload of the ``open`` frame that a call begins with.

    Called by whatever serves byte streams: sessions, their streams in a tunnel, lanes.

    Args:
        what: Names the stream in a refusal's text.

    Raises:
        Malformed: the caller ended its half first, or began with another frame.
        SvcError: nothing came in time, or the caller went away.
    """
    data = await call.receive(partial(bounded, clock, _FIRST_FRAME_SECS, what=what))
    if data is None:
        raise Malformed(f"{what}: no message arrived")
    kind, payload = parse_frame(data)
    if kind is not FrameKind.OPEN:
        raise Malformed(f"{what}: the first frame is not an open frame")
    return bytes(payload)
