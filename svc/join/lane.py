"""Opens a Proxy's lane as a node does: bytes to one listener of the Authority."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IReactorTime

from svc.errors import Malformed
from svc.interfaces.rpc import IRpcChannel
from svc.messages.relay import OPEN_METHOD, Lane, encode_relay_open
from svc.rpc.frames import FrameKind, open_frame, parse_frame
from svc.runtime.services import bounded


async def opened_lane(channel: IRpcChannel, lane: Lane, clock: IReactorTime, seconds: float) -> Any:
    """The stream of a lane after its first frames, for a byte-stream endpoint.

    Called by joiners, and by a Connector for its renewals.  The channel stays
    the caller's, whatever comes of the lane.

    Raises:
        Malformed: the Proxy's first frame does not open.
        SvcError: it refused, or did not answer within *seconds*.
    """
    stream = channel.stream(OPEN_METHOD)
    try:
        await stream.send(open_frame(encode_relay_open(lane)))
        first = await bounded(clock, seconds, stream.receive(), "the Proxy")
        if first is None or parse_frame(first)[0] is not FrameKind.OPEN:
            raise Malformed(f"the {lane.value} lane did not open correctly")
    except BaseException:
        stream.cancel()
        raise
    return stream
