"""What the tests of tunnels are made of: tunnels that talk into lists."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcCall, Serve
from svc.interfaces.transport import OpenOrder
from svc.messages.tunnel import Down, OpenNotice, decode_carry_open
from svc.model.session.tunnels import EndReason
from svc.model.signing import Signed
from svc.rpc.call import MessageEnd
from svc.rpc.frames import FrameKind, open_frame, parse_frame
from svc.rpc.stream import StreamTransport
from svc.tunnel.transport import RegisteredTunnel

UID = "0123456789abcdef" * 2
OTHER_UID = "fedcba9876543210" * 2


def order(uid: str = UID) -> OpenOrder:
    """An order as a Proxy passes it on: bytes it cannot make."""
    return OpenOrder(
        session_uid=uid,
        grant=Signed(b"grant", b"signature"),
        request=b"request",
        signature=b"sig",
        person_chain=(b"leaf",),
    )


@define
class Line:
    """A tunnel, what it said, how it was hung up, and the streams it was given."""

    clock: Clock
    connection: object = field(factory=object)
    said: list[Down] = field(factory=list)
    hung_up: list[EndReason] = field(factory=list)
    streams: list[Deferred[None]] = field(factory=list)
    _numbers: count[int] = field(factory=lambda: count(1))

    def tunnel(
        self,
        node_id: str = "node",
        *resources: str,
        instance_id: str = "first",
        generation: int = 1,
    ) -> RegisteredTunnel:
        """A tunnel over this line."""
        return RegisteredTunnel(
            node_id=node_id,
            instance_id=instance_id,
            generation=generation,
            resources=frozenset(resources),
            connection=self.connection,
            clock=self.clock,
            entropy=lambda n: next(self._numbers).to_bytes(n, "big"),
            send=self.said.append,
            hang_up=self.hung_up.append,
        )

    def notices(self) -> list[OpenNotice]:
        """The open notices sent so far."""
        return [message for message in self.said if isinstance(message, OpenNotice)]

    def attach(self, protocol: IProtocol) -> Deferred[None]:
        """Stand for a carry stream: connects at once, ends when the test says."""
        protocol.makeConnection(StringTransport())
        self.streams.append(Deferred())
        return self.streams[-1]


_TAKEN = open_frame(b"")


def serve_carry(tunnel_on: Callable[[object], RegisteredTunnel | None]) -> Serve:
    """Serve ``Carry`` as a Proxy does, but that the stream ends here, in a protocol."""

    async def serve(call: IRpcCall) -> None:
        first = await call.receive()
        kind, payload = (None, b"") if first is None else parse_frame(first)
        tunnel = tunnel_on(call.peer)
        if kind is not FrameKind.OPEN or tunnel is None:
            raise SvcError(
                "no open session waits for this stream", reason="carry_refused", fault=Fault.DENIED
            )
        session_uid, secret, _ = decode_carry_open(bytes(payload))
        end = cast(MessageEnd, call)

        def attach(protocol: IProtocol) -> Deferred[None]:
            end.write([_TAKEN], len(_TAKEN))
            transport = StreamTransport(end)
            transport.start(protocol)
            return transport.closed

        await tunnel.carry(session_uid, secret, attach)

    return serve
