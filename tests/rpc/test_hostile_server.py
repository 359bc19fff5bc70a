"""A hostile server against our channel: what it may send, and how long it may leave us waiting."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Any

from hpack import Encoder
from hyperframe.frame import (
    AltSvcFrame,
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.proto.gate.v1 import health_pb2
from svc.rpc.client.channel import ClientConnection, RpcChannel
from svc.wire.limits import WireLimits

MANY = 2000
CALM, PROTOCOL, FLOW, SIZE = 11, 1, 3, 6
LARGEST = 2**31 - 1
PATH = "/a.B/C"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Transport(StringTransport):
    """Keeps what is written; a lost connection is told as a reactor tells it."""

    disconnected = False

    def loseConnection(self) -> None:
        self.disconnected = True

    def abortConnection(self) -> None:
        self.disconnected = True


class Server:
    """Frames by hand, to a client of ours with one call open."""

    def __init__(self, greets: bool = True, limits: WireLimits | None = None) -> None:
        self.clock = Clock()
        self.told: list[str] = []
        self.encoder = Encoder()
        self.client = ClientConnection(
            self.clock,
            limits or WireLimits(),
            plaintext=True,
            keepalive=None,
            on_problem=lambda what, detail: self.told.append(what),
        )
        self.client.ready.addErrback(lambda refused: None)
        self.transport = Transport()
        self.client.makeConnection(self.transport)
        self.outcome: list[Any] = []
        if greets:
            self.send(SettingsFrame(0))
            channel = RpcChannel(self.client, authority="x")
            asked = channel.unary(
                PATH, health_pb2.HealthCheckRequest(), health_pb2.HealthCheckResponse, timeout=60
            )
            Deferred.fromCoroutine(asked).addBoth(self.outcome.append)
            self.turn()

    def send(self, *frames: Frame | bytes) -> None:
        """As one read of the transport; what is left for later turns is worked off."""
        data = b"".join(each if isinstance(each, bytes) else each.serialize() for each in frames)
        for at in range(0, len(data), 65_536):
            if self.transport.disconnected:
                break
            self.client.dataReceived(data[at : at + 65_536])
            self.turn()

    def turn(self) -> None:
        for _ in range(60):
            self.clock.advance(0)

    def head(self, *flags: str, **fields: str) -> HeadersFrame:
        named = {":status": "200", "content-type": "application/grpc"}
        named |= {name.replace("_", "-"): value for name, value in fields.items()}
        return self.block([*named.items()], *flags)

    def block(self, fields: list[tuple[str, str]], *flags: str) -> HeadersFrame:
        return HeadersFrame(1, self.encoder.encode(fields), flags=["END_HEADERS", *flags])

    @property
    def goaway(self) -> tuple[int, str] | None:
        """Code and debug data of the last GOAWAY that we wrote."""
        data, found = self.transport.value()[len(PREFACE) :], None
        while data:
            frame, length = Frame.parse_frame_header(memoryview(data[:9]))
            frame.parse_body(memoryview(data[9 : 9 + length]))
            if isinstance(frame, GoAwayFrame):
                found = (frame.error_code, frame.additional_data.decode())
            data = data[9 + length :]
        return found


def flood(frame: Frame | bytes) -> Callable[[Server], None]:
    data = frame if isinstance(frame, bytes) else bytes(frame.serialize())
    return lambda server: server.send(data * MANY)


def answer_head_then(*frames: Frame | bytes) -> Callable[[Server], None]:
    return lambda server: server.send(server.head(), *frames)


def informational(server: Server) -> None:
    for _ in range(MANY):
        server.send(server.block([(":status", "103")]))


def closed_then(frame: Frame) -> Callable[[Server], None]:
    def attack(server: Server) -> None:
        server.send(RstStreamFrame(1, 8))
        server.send(frame.serialize() * MANY)

    return attack


FLOODS: dict[str, tuple[Callable[[Server], None], int, str]] = {
    "PING": (flood(PingFrame(0, b"12345678")), CALM, "ping_flood"),
    "PING answers": (
        flood(PingFrame(0, b"12345678", flags=["ACK"])),
        CALM,
        "acknowledgement_flood",
    ),
    "SETTINGS": (flood(SettingsFrame(0)), CALM, "settings_flood"),
    "empty DATA": (
        answer_head_then(DataFrame(1, b"").serialize() * MANY),
        CALM,
        "empty_data_flood",
    ),
    "PRIORITY": (flood(PriorityFrame(1)), CALM, "priority_flood"),
    "WINDOW_UPDATE": (flood(WindowUpdateFrame(0, 1)), CALM, "window_update_flood"),
    "unknown frames": (flood(b"\0\0\0\x0c\0\0\0\0\0"), CALM, "unknown_frame_flood"),
    "ALTSVC": (flood(AltSvcFrame(0, b"a", b"b")), CALM, "unknown_frame_flood"),
    "GOAWAY": (flood(GoAwayFrame(0, LARGEST)), CALM, "goaway_flood"),
    "heads without answer": (informational, CALM, "informational_flood"),
    "DATA of a closed call": (closed_then(DataFrame(1, b"x")), CALM, "closed_stream_flood"),
    "RST_STREAM of a closed call": (closed_then(RstStreamFrame(1)), CALM, "closed_stream_flood"),
    "empty CONTINUATION": (
        lambda server: server.send(
            HeadersFrame(1, b""), ContinuationFrame(1, b"").serialize() * MANY
        ),
        CALM,
        "continuation_flood",
    ),
    "long header list": (
        lambda server: server.send(server.head(x="y" * 20_000)),
        CALM,
        "header_list_too_long",
    ),
}

WRONGS: dict[str, tuple[Callable[[Server], None], int, str]] = {
    "PUSH_PROMISE": (
        lambda server: server.send(b"\0\0\x05\x05\x04\0\0\0\x01" + pack("!L", 2) + b"\x82"),
        PROTOCOL,
        "protocol_error",
    ),
    "DATA of no call": (lambda server: server.send(DataFrame(7, b"x")), PROTOCOL, "protocol_error"),
    "DATA before HEADERS": (
        lambda server: server.send(DataFrame(1, b"x")),
        PROTOCOL,
        "protocol_error",
    ),
    "HEADERS of no call": (
        lambda server: server.send(HeadersFrame(2, server.head().data, flags=["END_HEADERS"])),
        PROTOCOL,
        "protocol_error",
    ),
    "increment of zero": (
        lambda server: server.send(b"\0\0\x04\x08\0\0\0\0\0" + bytes(4)),
        PROTOCOL,
        "protocol_error",
    ),
    "overflown window": (
        lambda server: server.send(WindowUpdateFrame(0, LARGEST)),
        FLOW,
        "flow_control",
    ),
    "frames of no length": (
        lambda server: server.send(SettingsFrame(0, settings={5: 0})),
        PROTOCOL,
        "protocol_error",
    ),
    "long DATA": (
        lambda server: server.send(b"\xff\xff\xff\0\0\0\0\0\x01"),
        SIZE,
        "frame_too_long",
    ),
    "HTTP/1.1": (
        lambda server: server.send(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9),
        SIZE,
        "frame_too_long",
    ),
}

ANSWERS: dict[str, tuple[Callable[[Server], None], str]] = {
    "reset at once": (lambda server: server.send(RstStreamFrame(1, 7)), "unprocessed"),
    "reset after its head": (answer_head_then(RstStreamFrame(1, 8)), "cancelled"),
    "reset amid its message": (
        answer_head_then(DataFrame(1, b"\0\0\0\0\x09abc"), RstStreamFrame(1, 2)),
        "internal",
    ),
    "message of 4 GiB": (
        answer_head_then(DataFrame(1, b"\0\xff\xff\xff\xffabc")),
        "message_too_long",
    ),
    "compressed": (answer_head_then(DataFrame(1, b"\1\0\0\0\x01x")), "compressed"),
    "message cut short": (
        lambda server: server.send(
            server.head(),
            DataFrame(1, b"\0\0\0\0\x09abc"),
            server.block([("grpc-status", "0")], "END_STREAM"),
        ),
        "truncated",
    ),
    "two messages": (answer_head_then(DataFrame(1, bytes(10))), "not_one_answer"),
    "no status": (answer_head_then(DataFrame(1, b"", flags=["END_STREAM"])), "unknown"),
    "window overflown": (lambda server: server.send(WindowUpdateFrame(1, LARGEST)), "internal"),
    "takes no calls": (
        lambda server: server.send(GoAwayFrame(0, 0), SettingsFrame(0, settings={3: 0})),
        "unprocessed",
    ),
    "goes away": (lambda server: server.send(GoAwayFrame(0, 0)), "unprocessed"),
}


class HostileServerTests(SynchronousTestCase):
    maxDiff = None

    def ended(self, attack: Callable[[Server], None]) -> tuple[Any, ...]:
        server = Server()
        attack(server)
        server.client.connectionLost(Failure(ConnectionError()))
        code, word = server.goaway or (None, "")
        self.assertIsInstance(server.outcome[0].value, SvcError)
        self.assertEqual(server.clock.getDelayedCalls(), [])
        return code, word, set(server.told), server.transport.disconnected

    def test_floods(self) -> None:
        """A server's floods end the connection, and the call on it, with the fitting word."""
        told = {name: self.ended(attack) for name, (attack, _, _) in FLOODS.items()}
        self.assertEqual(
            told, {name: (code, word, {word}, True) for name, (_, code, word) in FLOODS.items()}
        )

    def test_wrongs(self) -> None:
        """What no server may send ends the connection."""
        told = {name: self.ended(attack) for name, (attack, _, _) in WRONGS.items()}
        self.assertEqual(
            told, {name: (code, word, {word}, True) for name, (_, code, word) in WRONGS.items()}
        )

    def test_answers(self) -> None:
        """A wrong answer fails its call, with a reason that says how."""
        told = {}
        for name, (attack, _) in ANSWERS.items():
            server = Server()
            attack(server)
            told[name] = server.outcome[0].value.reason if server.outcome else None
            self.assertEqual(server.told, [], name)
        self.assertEqual(told, {name: reason for name, (_, reason) in ANSWERS.items()})

    def test_never_greets(self) -> None:
        """A server that speaks no HTTP/2 in time is left."""
        server = Server(greets=False)
        server.clock.advance(11)
        self.assertEqual(server.told, ["handshake_timeout"])
        self.assertTrue(server.transport.disconnected)

    def test_answers_before_its_settings(self) -> None:
        """So is one that begins with something else than settings."""
        server = Server(greets=False)
        server.send(PingFrame(0, b"12345678"))
        self.assertEqual(server.told, ["no_settings"])

    def test_header_block_without_end(self) -> None:
        """A header block that does not end, however slowly it grows, ends the connection."""
        server = Server(limits=WireLimits(stalled_secs=5))
        server.send(HeadersFrame(1, b"\x88"))
        for _ in range(6):
            server.clock.advance(1)
            server.send(ContinuationFrame(1, b"\x88"))
        self.assertEqual(server.told, ["header_block_timeout"])
        self.assertEqual(server.goaway, (CALM, "header_block_timeout"))

    def test_no_window(self) -> None:
        """A request that a server never takes is given up before its deadline."""
        server = Server(limits=WireLimits(stalled_secs=5))
        server.send(SettingsFrame(0, settings={4: 0}))
        stream = RpcChannel(server.client, authority="x").stream(PATH, timeout=None)
        stream.write([b"x" * 100], 100)
        stream.end()
        server.turn()
        for _ in range(3):
            server.clock.advance(5)
        self.assertIn("answer_not_taken", server.told)
        self.assertEqual(stream.outcome.reason if stream.outcome else "", "deadline_exceeded")

    def test_reads_nothing(self) -> None:
        """A server that reads nothing for long is left, whatever it sends."""
        server = Server(limits=WireLimits(stalled_secs=5))
        server.client.pauseProducing()
        for _ in range(4):
            server.send(PingFrame(0, b"12345678"))
            server.clock.advance(5)
        self.assertEqual(server.told, ["not_reading"])
        self.assertTrue(server.transport.disconnected)

    def test_asks_and_reads_nothing(self) -> None:
        """One that asks much meanwhile is left at once."""
        server = Server(limits=WireLimits(nuisances=100_000))
        server.client.pauseProducing()
        flood(PingFrame(0, b"12345678"))(server)
        flood(PingFrame(0, b"12345678"))(server)
        self.assertEqual(server.told, ["unread_answers"])
