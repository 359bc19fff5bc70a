"""Serving ``Tunnel/Carry``: a stream is joined to its order, on the order's own connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcCall, Serve
from svc.messages.tunnel import decode_carry_open
from svc.rpc.ends import MessageEnd
from svc.rpc.frames import FrameKind, open_frame, parse_frame
from svc.rpc.stream import StreamTransport
from svc.tunnel.transport import RegisteredTunnel

_TAKEN = open_frame(b"")


def serve_carry(tunnel_on: Callable[[object], RegisteredTunnel | None]) -> Serve:
    """What serves ``Carry`` on a Proxy's public listener.

    The answer's first frame, an empty ``open``, says that the stream was
    joined; a refusal is ``carry_refused`` whatever its cause.

    Args:
        tunnel_on: The tunnel registered on a connection, which is told by its
            ``peer``: one object for all calls of a connection.
    """

    async def serve(call: IRpcCall) -> None:
        first = await call.receive()
        kind, payload = (None, b"") if first is None else parse_frame(first)
        tunnel = tunnel_on(call.peer)
        if kind is not FrameKind.OPEN or tunnel is None:
            raise SvcError(
                "no open session waits for this stream", reason="carry_refused", fault=Fault.DENIED
            )
        session_uid, secret = decode_carry_open(bytes(payload))
        end = cast(MessageEnd, call)

        def attach(protocol: IProtocol) -> Deferred[None]:
            end.write([_TAKEN], len(_TAKEN))
            transport = StreamTransport(end)
            transport.start(protocol)
            return transport.closed

        await tunnel.carry(session_uid, secret, attach)

    return serve
