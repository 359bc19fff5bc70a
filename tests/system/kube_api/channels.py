"""The channels of one exec, attach or port-forward, whether they come by WebSocket or by SPDY."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha1
from threading import Lock
from typing import Protocol

from attrs import define, field

from tests.system.kube_api.spdy import Streams

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
NAMES = ("stdin", "stdout", "stderr", "error", "resize")
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10
_ENDS = 255
_MOST = 16 * 1024


class Channels(Protocol):
    """What a process is connected to."""

    def received(self) -> Iterator[tuple[str, bytes | None]]:
        """Data of a channel, and None at its end, until the client leaves."""

    def send(self, channel: str, data: bytes) -> None:
        """Write data of a channel."""

    def close(self) -> None:
        """Nothing more comes of any."""


@define(eq=False)
class WebSocket:
    """The server's end of one WebSocket.

    Attributes:
        read: Reads exactly so many bytes; fewer at the end.
        write: Writes all of them.
    """

    read: Callable[[int], bytes]
    write: Callable[[bytes], object]
    _lock: Lock = field(factory=Lock, init=False)
    _held: bytes = field(default=b"", init=False)

    def messages(self) -> Iterator[bytes]:
        """The binary messages, until the client closes or leaves."""
        whole = b""
        while len(head := self.read(2)) == 2:
            size = head[1] & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self.read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self.read(8))
            mask, data = self.read(4), self.read(size)
            data = bytes(each ^ mask[at % 4] for at, each in enumerate(data))
            sort = head[0] & 0x0F
            if sort == PING:
                self.frame(PONG, data)
            elif sort == CLOSE:
                return
            elif sort < CLOSE:
                whole += data
                if head[0] & 0x80:
                    yield whole
                    whole = b""

    def frame(self, sort: int, data: bytes) -> None:
        """Write one."""
        size = len(data)
        head = (
            bytes((0x80 | sort, size))
            if size < 126
            else struct.pack(">BBH", 0x80 | sort, 126, size)
        )
        with self._lock:
            self.write(head + data)

    def read_on(self, size: int) -> bytes:
        """So many bytes of what the messages hold, one after the other; fewer at the end."""
        while len(self._held) < size:
            message = next(self.messages(), None)
            if message is None:
                break
            self._held += message
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def write_on(self, data: bytes) -> None:
        """Write bytes as binary messages."""
        for at in range(0, len(data), _MOST):
            self.frame(BINARY, data[at : at + _MOST])


def proof_of(key: str) -> str:
    """What shows that the server has read the client's key."""
    return b64encode(sha1(key.encode() + GUID).digest()).decode()


@define(eq=False)
class WebSocketChannels:
    """Channels told apart by the first byte of a message (``v4``, ``v5.channel.k8s.io``)."""

    socket: WebSocket

    def received(self) -> Iterator[tuple[str, bytes | None]]:
        """See Channels."""
        for message in self.socket.messages():
            if message[0] == _ENDS:
                yield NAMES[message[1]], None
            elif len(message) > 1:
                yield NAMES[message[0]], message[1:]

    def send(self, channel: str, data: bytes) -> None:
        """See Channels."""
        number = bytes((NAMES.index(channel),))
        for at in range(0, len(data), _MOST):
            self.socket.frame(BINARY, number + data[at : at + _MOST])

    def close(self) -> None:
        """See Channels."""
        self.socket.frame(CLOSE, struct.pack(">H", 1000))


@define(eq=False)
class SpdyChannels:
    """Channels that are streams of SPDY, each named by its header ``streamtype``."""

    streams: Streams
    _by_name: dict[str, int] = field(factory=dict, init=False)
    _early: list[tuple[str, bytes | None]] = field(factory=list, init=False)
    _rest: Iterator[tuple[int, dict[str, str] | bytes | None]] = field(init=False)

    def opened(self, wanted: set[str]) -> None:
        """Wait until the client has opened these."""
        self._rest = self.streams.received()
        while set(self._by_name) != wanted:
            stream, what = next(self._rest)
            if isinstance(what, dict):
                self._by_name[what["streamtype"]] = stream
                self.streams.accept(stream)
            else:
                self._early.append((self._name(stream), what))

    def received(self) -> Iterator[tuple[str, bytes | None]]:
        """See Channels."""
        yield from self._early
        for stream, what in self._rest:
            if not isinstance(what, dict):
                yield self._name(stream), what

    def send(self, channel: str, data: bytes) -> None:
        """See Channels."""
        self.streams.send(self._by_name[channel], data)

    def close(self) -> None:
        """See Channels."""
        for name, stream in self._by_name.items():
            if name not in ("stdin", "resize"):
                self.streams.send(stream, b"", ends=True)
        self.streams.go_away()

    def _name(self, stream: int) -> str:
        return next(name for name, one in self._by_name.items() if one == stream)
