"""The servers of gRPC's negative HTTP/2 cases: each does one thing to its first call.

Every later call is answered well, so that a test sees what became of the connection.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    RequestReceived,
    SettingsAcknowledged,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol

from svc.wire.framing import prefix
from tests.interop import testing_pb2 as pb

_PREFIX = 5
_HEADERS = [(":status", "200"), ("content-type", "application/grpc")]


class Script(Protocol):
    """A bare HTTP/2 server of ``UnaryCall``; subclasses change what its first call meets.

    Attributes:
        calls: Stream ids in the order in which their calls came.
        pongs: How many pings of ours were answered.
        most: Calls that were open at once, at most.
    """

    chunk = 16_384
    padding: int | None = None

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.pongs = 0
        self.most = 0
        self._open: set[int] = set()
        self._bodies: dict[int, bytearray] = {}
        self._left: dict[int, bytes] = {}
        self.h2 = H2Connection(H2Configuration(client_side=False))

    def connectionMade(self) -> None:
        self.h2.initiate_connection()
        self.begun()
        self.flush()

    def dataReceived(self, data: bytes) -> None:
        # What crosses our own GOAWAY is refused by h2, which has closed.
        with suppress(ProtocolError):
            for event in self.h2.receive_data(data):
                self.happened(event)
        self.flush()

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data and self.transport is not None:
            self.transport.write(data)

    def happened(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self.calls.append(event.stream_id)
            self._open.add(event.stream_id)
            self.most = max(self.most, len(self._open))
            self._bodies[event.stream_id] = bytearray()
            self.called(event.stream_id)
        elif isinstance(event, DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            self._took(event.stream_id, event.data or b"")
        elif isinstance(event, WindowUpdated | SettingsAcknowledged):
            self.send_on()
        elif isinstance(event, PingAckReceived):
            self.pongs += 1
            self.ponged()
        elif isinstance(event, StreamReset):
            self._open.discard(event.stream_id)
            self._left.pop(event.stream_id, None)

    def _took(self, stream_id: int, data: bytes) -> None:
        body = self._bodies.get(stream_id)
        if body is None:
            return
        body += data
        if len(body) >= _PREFIX and len(body) == _PREFIX + int.from_bytes(body[1:_PREFIX], "big"):
            del self._bodies[stream_id]
            size = pb.SimpleRequest.FromString(bytes(body[_PREFIX:])).response_size
            message = pb.SimpleResponse(payload=pb.Payload(body=bytes(size))).SerializeToString()
            self.asked(stream_id, prefix(len(message)) + message)

    def send(self, stream_id: int, data: bytes) -> None:
        """Send *data* as the windows allow, then :meth:`sent`."""
        self._left[stream_id] = data
        self.send_on()

    def send_on(self) -> None:
        for stream_id in list(self._left):
            self._send_on(stream_id)

    def _send_on(self, stream_id: int) -> None:
        extra = 0 if self.padding is None else self.padding + 1
        while left := self._left[stream_id]:
            room = self.h2.local_flow_control_window(stream_id) - extra
            if room <= 0:
                return
            piece = left[: min(room, self.chunk)]
            self._left[stream_id] = left[len(piece) :]
            self.h2.send_data(stream_id, piece, pad_length=self.padding)
        del self._left[stream_id]
        self.sent(stream_id)

    def is_first(self, stream_id: int) -> bool:
        return stream_id == self.calls[0]

    # What scripts change

    def begun(self) -> None:
        """The connection stands."""

    def ponged(self) -> None:
        """A ping was answered."""

    def called(self, stream_id: int) -> None:
        """A call came."""
        self.h2.send_headers(stream_id, _HEADERS)

    def asked(self, stream_id: int, answer: bytes) -> None:
        """Its request came."""
        self.send(stream_id, answer)

    def sent(self, stream_id: int) -> None:
        """Its answer went."""
        self._open.discard(stream_id)
        self.h2.send_headers(stream_id, [("grpc-status", "0")], end_stream=True)


class Goaway(Script):
    """Leaves after its first answer."""

    def sent(self, stream_id: int) -> None:
        super().sent(stream_id)
        self.h2.close_connection(last_stream_id=stream_id)


class RstAfterHeader(Script):
    """Resets where its first answer has begun."""

    def called(self, stream_id: int) -> None:
        super().called(stream_id)
        if self.is_first(stream_id):
            self.h2.reset_stream(stream_id)
            del self._bodies[stream_id]


class RstDuringData(Script):
    """Resets in the middle of its first answer."""

    def asked(self, stream_id: int, answer: bytes) -> None:
        whole = len(answer) // 2 if self.is_first(stream_id) else len(answer)
        self.send(stream_id, answer[:whole])

    def sent(self, stream_id: int) -> None:
        if self.is_first(stream_id):
            self.h2.reset_stream(stream_id)
        else:
            super().sent(stream_id)


class RstAfterData(RstDuringData):
    """Resets behind its first answer, instead of its status."""

    def asked(self, stream_id: int, answer: bytes) -> None:
        self.send(stream_id, answer)


class Ping(Script):
    """Pings around headers and data.

    Attributes:
        all_answered: Fires once every ping of its first call was answered.
    """

    def __init__(self) -> None:
        super().__init__()
        self.all_answered: Deferred[None] = Deferred()

    def called(self, stream_id: int) -> None:
        self.h2.ping(b"before  ")
        super().called(stream_id)
        self.h2.ping(b"behind  ")

    def asked(self, stream_id: int, answer: bytes) -> None:
        self.h2.ping(b"before 2")
        super().asked(stream_id, answer)
        self.h2.ping(b"behind 2")

    def ponged(self) -> None:
        if self.pongs == 4:
            self.all_answered.callback(None)


class MaxStreams(Script):
    """Allows one call at a time; h2 ends the connection of who begins another."""

    def begun(self) -> None:
        self.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1})


class DataFramePadding(Script):
    """Five bytes in each frame, and 255 of padding."""

    chunk = 5
    padding = 255


class ScriptFactory(Factory):
    """Serves one script on each connection, and keeps them."""

    noisy = False

    def __init__(self, script: type[Script]) -> None:
        self.script = script
        self.served: list[Script] = []

    def buildProtocol(self, addr: Any) -> Script:
        protocol = self.script()
        self.served.append(protocol)
        return protocol
