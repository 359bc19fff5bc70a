"""What a peer that has shown nothing yet can make us hold, in bytes, calls and time."""

from __future__ import annotations

from struct import pack
from typing import Any

from h2.connection import H2Connection
from h2.exceptions import TooManyStreamsError
from h2.settings import SettingCodes
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.interfaces.rpc import RpcService, unary
from svc.proto.gate.v1 import health_pb2
from svc.rpc.server.server import RpcServerFactory
from svc.wire.connection import Connection
from svc.wire.errors import WireError
from svc.wire.framing import prefix
from svc.wire.limits import KIB, MIB, WireLimits, anonymous
from tests.rpc.memory import Pair
from tests.support.nothing import nothing

HEAD = [
    (":method", "POST"),
    (":scheme", "https"),
    (":path", "/a.B/C"),
    (":authority", "x"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


class Attacker:
    """An HTTP/2 client that minds no limit but flow control, against our sans-IO server."""

    def __init__(self, limits: WireLimits | None = None) -> None:
        self.server = Connection(limits or WireLimits(max_streams=4096), is_client=False)
        self.taken: dict[int, int] = {}
        self.h2 = H2Connection()
        self.h2.initiate_connection()
        self.turn()

    def turn(self) -> list[Any]:
        events = self.server.receive(self.h2.data_to_send(), 0)
        answer = b"".join(bytes(part) for part in self.server.pump(MIB))
        if answer:
            self.h2.receive_data(answer)
        return events

    def ask(self) -> int:
        stream = self.h2.get_next_available_stream_id()
        try:
            self.h2.send_headers(stream, HEAD)
        except TooManyStreamsError:
            return stream  # told so by our settings; the next test leaves them unread
        self.turn()
        return stream

    def promise(self, stream: int, size: int) -> int:
        """Announce a message of *size* and send all of it but the end; how much was taken."""
        return size - len(self.more(stream, prefix(size) + bytes(size - 1)))

    def more(self, stream: int, left: bytes) -> bytes:
        """Send what the window allows; what is left of it."""
        while left:
            if stream not in self.server.streams:
                break
            room = min(self.h2.local_flow_control_window(stream), 16 * KIB, len(left))
            if room <= 0:
                break
            self.h2.send_data(stream, left[:room])
            left = left[room:]
            self.turn()
            wire = self.server.streams.get(stream)
            if wire is not None and (message := wire.take()) is not None:
                self.taken[stream] = len(message)
            self.turn()
        return left

    @property
    def held(self) -> int:
        return sum(stream.inbox.held for stream in self.server.streams.values())


class FrameTests(SynchronousTestCase):
    def test_announced_frame_is_not_waited_for(self) -> None:
        """A frame longer than we take is refused by its head, not after its 16 MiB came."""
        attacker = Attacker()
        for kind in (0, 1, 4, 200):
            with self.assertRaises(WireError):
                Attacker().server.receive(b"\xff\xff\xff" + bytes((kind, 0)) + pack("!L", 1), 0)
        self.assertEqual(attacker.held, 0)

    def test_long_head_is_refused(self) -> None:
        """Heads in many frames are refused at 64 KiB, not at the 16 MiB of 64 long frames."""
        attacker = Attacker()
        sent = 0
        with self.assertRaises(WireError):
            for at in range(64):
                kind = 1 if at == 0 else 9
                frame = (16 * KIB).to_bytes(3, "big") + bytes((kind, 0)) + pack("!L", 1)
                sent += 16 * KIB
                attacker.server.receive(frame + bytes(16 * KIB), 0)
        self.assertLessEqual(sent, 96 * KIB)

    def test_peer_cannot_grow_our_header_table(self) -> None:
        """A peer that offers a table of 2 GiB for our headers makes us keep 4 KiB of them."""
        attacker = Attacker()
        attacker.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 2**31 - 1})
        attacker.turn()
        self.assertLessEqual(attacker.server._machine.encoder.header_table_size, 4096)


class MessageTests(SynchronousTestCase):
    def test_half_messages(self) -> None:
        """Calls that each bring a long message but its last byte cannot fill the memory."""
        attacker = Attacker(WireLimits(max_streams=4096, run_ahead=8 * MIB))
        for _ in range(40):
            attacker.promise(attacker.ask(), MIB)
        # What is not set aside for a whole message waits in its stream's first window.
        self.assertLess(attacker.held, 8 * MIB + 40 * 256 * KIB)

    def test_long_messages_take_turns(self) -> None:
        """Calls whose messages find no room wait for it; none of them is refused."""
        attacker = Attacker(WireLimits(max_streams=4096, run_ahead=2 * MIB))
        message = prefix(MIB) + bytes(MIB)
        left = dict.fromkeys([attacker.ask() for _ in range(12)], message)
        for _ in range(12):
            left = {stream: attacker.more(stream, each) for stream, each in left.items()}
            for stream in [each for each, rest in left.items() if not rest]:
                self.assertEqual(attacker.taken.pop(stream), MIB)
                del left[stream]
            self.assertLess(attacker.held, 2 * MIB + 12 * 256 * KIB)
        self.assertEqual((left, attacker.server.room.ahead), ({}, 0))

    def test_half_messages_of_one(self) -> None:
        """One long message is still taken whole."""
        attacker = Attacker(WireLimits(run_ahead=8 * MIB))
        self.assertEqual(attacker.promise(attacker.ask(), 4 * MIB), 4 * MIB)

    def test_room_comes_back(self) -> None:
        """What ran ahead and was read or dropped no longer counts."""
        attacker = Attacker(WireLimits(run_ahead=2 * MIB))
        for _ in range(8):
            stream = attacker.ask()
            self.assertEqual(attacker.promise(stream, MIB), MIB)
            attacker.h2.reset_stream(stream)
            attacker.turn()
        for _ in range(8):
            stream = attacker.ask()
            self.assertEqual(attacker.promise(stream, MIB), MIB)
            attacker.h2.send_data(stream, b"\0")
            attacker.turn()
            message = attacker.server.streams[stream].take()
            self.assertEqual(len(message or b""), MIB)

    def test_without_certificate(self) -> None:
        """Who showed no certificate has few calls, each with a short message."""
        limits = anonymous(WireLimits(max_streams=4096))
        attacker = Attacker(limits)
        for _ in range(100):
            attacker.ask()
        self.assertLessEqual(len(attacker.server.streams), 32)
        self.assertLessEqual(limits.max_message * limits.max_streams, 9 * MIB)

    def test_limits_hold_from_the_first_byte(self) -> None:
        """Calls sent together with the greeting are bound as well."""
        pair = Pair([], anonymous=anonymous(WireLimits()))
        self.assertEqual(pair.server.wire.limits.max_streams, 32)
        server = RpcServerFactory(
            [], Clock(), plaintext=True, anonymous=anonymous(WireLimits()), admit=nothing
        )
        protocol = server.buildProtocol(None)
        assert protocol is not None
        greeting = H2Connection()
        greeting.initiate_connection()
        for _ in range(100):
            greeting.send_headers(greeting.get_next_available_stream_id(), HEAD)
        protocol.makeConnection(StringTransport())
        self.addCleanup(protocol.connectionLost)
        protocol.dataReceived(greeting.data_to_send())
        self.assertLessEqual(len(protocol.wire.streams), 32)


class TimeTests(SynchronousTestCase):
    def setUp(self) -> None:
        async def answer(request: Any, call: Any) -> health_pb2.HealthCheckResponse:
            return health_pb2.HealthCheckResponse()

        service = RpcService("a.B", {"C": unary(health_pb2.HealthCheckRequest, answer)})
        self.pair = Pair([service], anonymous=anonymous(WireLimits()))

    def test_call_without_message(self) -> None:
        """A call whose first message never comes is ended, whatever deadline it names."""
        stream = self.pair.channel.stream("/a.B/C", timeout=10_000_000)
        self.pair.turn()
        self.assertEqual(len(self.pair.server.wire.streams), 1)
        self.pair.clock.advance(WireLimits().stalled_secs + 1)
        self.pair.turn()
        self.assertEqual(len(self.pair.server.wire.streams), 0)
        self.assertEqual(stream.outcome.reason if stream.outcome else "", "deadline_exceeded")

    def test_idle_connection(self) -> None:
        """A connection without certificate that calls nothing is closed."""
        for _ in range(3):
            self.pair.clock.advance(WireLimits().idle_secs)
            self.pair.turn()
        self.assertNotEqual(self.pair.server.end_reason, None)

    def test_used_connection(self) -> None:
        """One that calls now and then stays, and so does one with a call open."""
        request = health_pb2.HealthCheckRequest()
        for _ in range(4):
            self.pair.clock.advance(WireLimits().idle_secs - 1)
            got = self.pair.settle(
                self.pair.channel.unary(
                    "/a.B/C", request, health_pb2.HealthCheckResponse, timeout=5
                )
            )
            self.assertEqual(len(got), 1)
        self.assertIs(self.pair.server.end_reason, None)
