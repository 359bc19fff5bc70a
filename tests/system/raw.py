"""A raw HTTP/2 client over real TLS: sends any bytes, keeps every frame it is sent.

On hyperframe and hpack alone; it shares nothing with what it attacks.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field
from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEALTH = "/grpc.health.v1.Health/Check"
EMPTY_MESSAGE = bytes(5)
_CHUNK = 8192
_SECONDS = 15.0

Fields = Sequence[tuple[str, str]]


@define
class Ending:
    """What became of an attack, as its attacker saw it.

    Attributes:
        goaway: The code of the GOAWAY; None where none came.
        word: Its debug data.
        resets: The codes of RST_STREAM, each once.
        statuses: ``grpc-status`` (or ``:status`` where there is none) of the answers, each once.
        is_closed: The connection was closed.
    """

    goaway: int | None = None
    word: str = ""
    resets: set[int] = field(factory=set)
    statuses: set[str] = field(factory=set)
    is_closed: bool = False


@define(slots=False)
class Raw:
    """One connection; ``ending`` grows with what is read, past the first *skip* bytes."""

    sock: Any
    skip: int = 0
    ending: Ending = field(factory=Ending)
    encoder: Encoder = field(factory=Encoder)
    pongs: int = 0
    _decoder: Decoder = field(factory=Decoder)
    _data: bytearray = field(factory=bytearray)

    def send(self, *frames: Frame | bytes) -> bool:
        """Send what is taken; what came meanwhile is read.  False once the connection is over."""
        data = b"".join(each if isinstance(each, bytes) else each.serialize() for each in frames)
        for at in range(0, len(data), _CHUNK):
            if self.ending.is_closed:
                break
            try:
                self.sock.settimeout(_SECONDS)
                self.sock.sendall(data[at : at + _CHUNK])
            except OSError:
                self._read_rest()
            else:
                self._read(0.0)
        return not self.ending.is_closed

    def until_closed(self, seconds: float = _SECONDS) -> Ending:
        """Read to the end of the connection, or as long as is said."""
        end = time.monotonic() + seconds
        while not self.ending.is_closed and (left := end - time.monotonic()) > 0:
            self._read(left)
        return self.ending

    def until_quiet(self) -> Ending:
        """Read until a ping of ours is answered, or the end."""
        before = self.pongs
        self.send(PingFrame(0, b"areyouok"))
        end = time.monotonic() + _SECONDS
        while self.pongs == before and not self.ending.is_closed and time.monotonic() < end:
            self._read(end - time.monotonic())
        return self.ending

    def until_answered(self, count: int = 1) -> Ending:
        """Read until so many kinds of answers or resets came, or the end."""
        end = time.monotonic() + _SECONDS
        while (
            len(self.ending.statuses) + len(self.ending.resets) < count
            and not self.ending.is_closed
            and time.monotonic() < end
        ):
            self._read(end - time.monotonic())
        return self.ending

    def head(
        self,
        stream: int,
        path: str = HEALTH,
        *,
        end: bool = False,
        more: Fields = (),
        over: Fields | None = None,
    ) -> HeadersFrame:
        """A request's HEADERS; *over* replaces every field."""
        fields = [
            (":method", "POST"),
            (":scheme", "https"),
            (":path", path),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *more,
        ]
        flags = ["END_HEADERS", "END_STREAM"] if end else ["END_HEADERS"]
        block = self.encoder.encode(fields if over is None else list(over))
        return HeadersFrame(stream, block, flags=flags)

    def request(self, stream: int, path: str = HEALTH, **head: Any) -> bytes:
        """A whole unary call with an empty message."""
        return self.head(stream, path, **head).serialize() + whole(stream)

    def close(self) -> None:
        """Leave."""
        self.sock.close()

    def _read(self, seconds: float) -> None:
        try:
            self.sock.settimeout(seconds)
            data = self.sock.recv(65536)
        except (ssl.SSLWantReadError, TimeoutError, BlockingIOError):
            return
        except OSError:
            data = b""
        if not data:
            self.ending.is_closed = True
            return
        kept = data[self.skip :]
        self.skip -= len(data) - len(kept)
        self._data += kept
        self._parse()

    def _read_rest(self) -> None:
        with suppress(OSError):
            while not self.ending.is_closed:
                self._read(1.0)
        self.ending.is_closed = True

    def _parse(self) -> None:
        while len(self._data) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(bytes(self._data[:9])))
            if len(self._data) < 9 + length:
                return
            frame.parse_body(memoryview(bytes(self._data[9 : 9 + length])))
            del self._data[: 9 + length]
            self._heard(frame)

    def _heard(self, frame: Frame) -> None:
        if isinstance(frame, GoAwayFrame):
            self.ending.goaway = frame.error_code
            self.ending.word = frame.additional_data.decode("ascii")
        elif isinstance(frame, RstStreamFrame):
            self.ending.resets.add(frame.error_code)
        elif isinstance(frame, HeadersFrame):
            found = dict(self._decoder.decode(frame.data, raw=True))
            if "END_STREAM" in frame.flags:
                status = found.get(b"grpc-status") or found[b":status"]
                self.ending.statuses.add(status.decode("ascii"))
        elif isinstance(frame, PingFrame) and "ACK" in frame.flags:
            self.pongs += 1


def whole(stream: int, message: bytes = EMPTY_MESSAGE) -> bytes:
    """The DATA frame that ends a call's input."""
    return bytes(DataFrame(stream, message, flags=["END_STREAM"]).serialize())


def connected(address: str, source: str) -> socket.socket:
    """TCP, from a loopback address of its own: the gateway's log names it."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), _SECONDS, (source, 0))


def secured(
    address: str, source: str, pair: Sequence[str] = (), alpn: Iterable[str] = ("h2",)
) -> Any:
    """TLS with or without a certificate; the attacker does not care whom it attacks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols := list(alpn):
        context.set_alpn_protocols(protocols)
    if pair:
        context.load_cert_chain(pair[1], pair[0])
    return context.wrap_socket(connected(address, source), server_hostname="localhost")


def greeted(address: str, source: str, pair: Sequence[str] = (), **settings: int) -> Raw:
    """A connection past its preface; *settings* by their short names."""
    raw = Raw(secured(address, source, pair))
    codes = {getattr(SettingsFrame, name.upper()): value for name, value in settings.items()}
    raw.send(PREFACE, SettingsFrame(0, settings=codes))
    return raw
