"""A session in its lane, from socket to socket in one function.

A small message that a session carries passes through some fifteen calls of layers that each
look only at their own part; most of what it costs is those calls.  Once both directions of a
session run in its lane, and the session rests on two plain sockets, the usual case is all of
these at once: a short read, one TLS record, room to write.  That case is done here, and
everything else is left to the layers as if this were not there: a read that fills the buffer,
a partial record or several, an end, a pause, an alert.  (docs/adr/0031-small-messages.md.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.main import CONNECTION_LOST

from svc.lanes.half import LaneHalf
from svc.lanes.relay import RelaySide
from svc.rpc.tls_records import RECORD_BYTES
from svc.runtime.outlet import is_socket
from svc.tunnel.tls import SessionTls


@define(eq=False)
class FusedEnd:
    """Reads both sockets of one end of a session in the place of their transports.

    Attributes:
        tls: Between the two.
        inside: The side of the relay that TLS delivers to.
        outside: The side across, which the person's tool or the target is connected to.
        lane: Carries the ciphertext.
    """

    tls: SessionTls
    inside: RelaySide
    outside: RelaySide
    lane: LaneHalf
    _outside_is_busy: bool = field(default=False, init=False)
    _lane_is_busy: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Take the place of the transports' own reading."""
        for transport, read in self._places():
            transport.doRead = read

    def end(self) -> None:
        """Let the transports read by themselves; an aborted one reads no more.  Idempotent."""
        for transport, read in self._places():
            if vars(transport).get("doRead") == read:
                del transport.doRead

    def _places(self) -> tuple[tuple[Any, Callable[[], Any]], ...]:
        return (
            (self.outside.transport, self._read_outside),
            (self.lane.transport, self._read_lane),
        )

    def _read_outside(self) -> Any:
        """What the reactor calls when bytes have come from the tool or the target."""
        transport = self.outside.transport
        size = transport.bufferSize if self._outside_is_busy else RECORD_BYTES
        try:
            data = transport.socket.recv(size)
        except BlockingIOError:
            return None
        except OSError:
            return CONNECTION_LOST
        self._outside_is_busy = is_busy = len(data) >= RECORD_BYTES
        sealed = None if is_busy or not data else self.tls.seal(data)
        if sealed is None:
            return transport._dataReceived(data)
        self.outside.received += len(data)
        self.lane.out.write(sealed)
        return None

    def _read_lane(self) -> Any:
        """What the reactor calls when bytes have come from the lane."""
        transport = self.lane.transport
        size = transport.bufferSize if self._lane_is_busy else RECORD_BYTES
        try:
            data = transport.socket.recv(size)
        except BlockingIOError:
            return None
        except OSError:
            return CONNECTION_LOST
        self._lane_is_busy = is_busy = len(data) >= RECORD_BYTES
        opened = None if is_busy or self.outside.is_lost else self.tls.open(data)
        if opened is None:
            return transport._dataReceived(data)
        if opened:
            self.inside.received += len(opened)
            self.outside.out.write(opened)
        return None


def fuse(tls: Any, lane: LaneHalf) -> FusedEnd | None:
    """Shorten the way between *lane* and what *tls* carries; None where it cannot be shortened.

    Both directions must have moved to the lane.
    """
    if not isinstance(tls, SessionTls) or not isinstance(tls.inner, RelaySide):
        return None
    inside = tls.inner
    if type(inside).dataReceived is not RelaySide.dataReceived or not inside.relay.is_joined:
        return None
    outside = inside.relay.other(inside)
    if type(outside).dataReceived is not RelaySide.dataReceived or outside.is_lost:
        return None
    if not (is_socket(outside.transport) and is_socket(lane.transport)):
        return None
    fused = FusedEnd(tls=tls, inside=inside, outside=outside, lane=lane)
    fused.begin()
    return fused
