"""Malformed requests and frames that come late: a stream ends, the connection goes on."""

from __future__ import annotations

from struct import pack
from typing import Any

from h2.errors import ErrorCodes
from hyperframe.frame import DataFrame, Frame, HeadersFrame, RstStreamFrame, WindowUpdateFrame
from twisted.trial.unittest import SynchronousTestCase

from svc.wire.connection import Connection
from svc.wire.errors import WireError
from svc.wire.events import CallOpened
from svc.wire.headers import NotGrpc, parse_request
from svc.wire.limits import WireLimits
from tests.wire.test_wire import HEAD, Caller, head

PROTOCOL = ErrorCodes.PROTOCOL_ERROR


class MalformedCase(SynchronousTestCase):
    """A stock caller that sends what it likes, with a good call beside it."""

    def setUp(self) -> None:
        self.caller = Caller()
        self.beside = self.caller.request()
        self.answers: list[Frame] = []

    def raw(self, *frames: Any) -> None:
        """Send frames past the caller's own machine, and keep the frames that come back."""
        server = self.caller.server
        data = b"".join(one if isinstance(one, bytes) else one.serialize() for one in frames)
        self.caller.events += server.receive(data, self.caller.now)
        written = memoryview(b"".join(server.pump(1 << 30)))
        while written:
            frame, size = Frame.parse_frame_header(written[:9])
            frame.parse_body(written[9 : 9 + size])
            self.answers.append(frame)
            written = written[9 + size :]

    def headers(self, stream_id: int, fields: Any, *, end: bool = False) -> HeadersFrame:
        """A HEADERS frame with fields as they are; the compression's state goes on."""
        flags = ["END_HEADERS", *(["END_STREAM"] if end else [])]
        return HeadersFrame(stream_id, self.caller.h2.encoder.encode(fields), flags=flags)

    def resets(self) -> list[tuple[int, ErrorCodes]]:
        """The streams that were reset, and by which code."""
        ends = [one for one in self.answers if isinstance(one, RstStreamFrame)]
        return [(one.stream_id, ErrorCodes(one.error_code)) for one in ends]

    def given_back(self) -> int:
        """How much of the connection's window was given back."""
        updates = [one for one in self.answers if isinstance(one, WindowUpdateFrame)]
        return sum(one.window_increment for one in updates if one.stream_id == 0)

    def goes_on(self) -> None:
        """The call beside is served, and another one begins."""
        before = len(self.caller.opened())
        self.raw(DataFrame(self.beside, b"\0\0\0\0\0"))
        self.assertEqual(self.caller.opened()[0].take(), b"")
        self.raw(self.headers(1001, HEAD))
        self.assertEqual(len(self.caller.opened()), before + 1)


class RequestTests(MalformedCase):
    """Heads and bodies."""

    def refused(self, *frames: Any) -> None:
        self.raw(*frames)
        self.assertEqual(self.resets(), [(3, PROTOCOL)])
        self.assertEqual(len(self.caller.opened()), 1)
        self.goes_on()

    def test_fields(self) -> None:
        """A name, value or pseudo-header that may not be ends its own stream."""
        for more in (
            [(b"X-Upper", b"1")],
            [(b"x", b"a\r\nb")],
            [(b"x", b"a\0b")],
            [(b"connection", b"close")],
            [(b"te", b"gzip")],
            [(b":path", b"/a.B/C")],
            [(b":unknown", b"1")],
            [(b"host", b"elsewhere")],
        ):
            with self.subTest(more=more):
                self.setUp()
                self.refused(self.headers(3, [*HEAD, *more]))

    def test_authority(self) -> None:
        """An empty authority, or one with the name of a user, is none (RFC 9113 8.3.1)."""
        for value in (b"", b"ada@gate.example", b"ada:secret@gate.example"):
            with self.subTest(value=value):
                self.setUp()
                self.refused(self.headers(3, head(**{":authority": value})))

    def test_lengths(self) -> None:
        """A content-length that is no number, is two numbers, or is not what comes."""
        for values, body, end in (
            ([b"x"], b"", False),
            ([b"-5"], b"", False),
            ([b"+5"], b"", False),
            ([b"5, 5"], b"", False),
            ([b"5", b"6"], b"", False),
            ([b"5"], b"", True),
            ([b"5"], b"\0\0\0\0\0x", False),
        ):
            with self.subTest(values=values, body=body):
                self.setUp()
                fields = [*HEAD, *((b"content-length", value) for value in values)]
                frames: list[Any] = [self.headers(3, fields, end=end)]
                if body:
                    self.raw(*frames)
                    self.assertEqual(len(self.caller.opened()), 2)
                    self.raw(DataFrame(3, body))
                    self.assertEqual(self.resets(), [(3, PROTOCOL)])
                    continue
                self.refused(*frames)

    def test_short_body(self) -> None:
        """A body that ends before its content-length ends the call, and gives its window back."""
        self.raw(self.headers(3, [*HEAD, (b"content-length", b"7")]))
        self.raw(DataFrame(3, b"\0\0\0\0\0", flags=["END_STREAM"]))
        self.assertEqual(self.resets(), [(3, PROTOCOL)])
        for number in range(5, 405, 2):
            self.caller.now += 1
            self.raw(self.headers(number, [*HEAD, (b"content-length", b"10")]))
            self.raw(DataFrame(number, bytes(16_000)))
        self.assertGreater(self.given_back(), 200 * 16_000 - WireLimits().connection_window)
        self.goes_on()

    def test_trailers(self) -> None:
        """Trailers with a pseudo-header, or that end nothing, end the call."""
        for fields, end in (([(b":path", b"/a.B/C")], True), ([(b"x", b"1")], False)):
            with self.subTest(end=end):
                self.setUp()
                self.raw(self.headers(3, HEAD), self.headers(3, fields, end=end))
                self.assertEqual(self.resets(), [(3, PROTOCOL)])
                self.goes_on()

    def test_again_and_again(self) -> None:
        """Whoever sends nothing else is cut off, as by any other flood."""
        with self.assertRaises(WireError) as caught:
            for number in range(1, 400):
                self.raw(self.headers(2 * number + 1, [*HEAD, (b"X", b"1")]))
        self.assertEqual(caught.exception.reason, "reset_flood")

    def test_answers(self) -> None:
        """A server's malformed answer ends its call, and no other."""
        client = Connection(WireLimits(), is_client=True)
        server = Caller.stock_server()
        streams = [
            client.open("/a.B/C", scheme="https", authority="x", timeout=None, metadata=())
            for _ in range(2)
        ]

        def turn() -> None:
            for _ in range(3):
                server.receive_data(b"".join(client.pump(1 << 30)))
                client.receive(server.data_to_send(), 0.0)

        turn()
        server.send_headers(1, [(":status", "200"), ("X-Upper", "1")])
        server.send_headers(3, [(":status", "200"), ("grpc-status", "0")], end_stream=True)
        turn()
        self.assertEqual([one.is_over for one in streams], [True, True])
        ends = [None if one.status is None else one.status.code.name for one in streams]
        self.assertEqual(ends, ["INTERNAL", "OK"])


class LateTests(MalformedCase):
    """Frames that come when nobody waits for them."""

    def reset_by_us(self) -> None:
        self.raw(self.headers(3, [*HEAD, (b"X", b"1")]))
        self.assertEqual(self.resets(), [(3, PROTOCOL)])

    def test_data(self) -> None:
        """DATA behind our reset is thrown away without a word, and its window given back."""
        self.reset_by_us()
        for _ in range(200):
            self.raw(DataFrame(3, bytes(16_000)))
        self.assertEqual(len(self.resets()), 1)
        self.assertGreater(self.given_back(), 200 * 16_000 - WireLimits().connection_window)
        self.goes_on()

    def test_heads(self) -> None:
        """So are trailers, whose fields still count for the compression."""
        self.reset_by_us()
        self.raw(self.headers(3, [(b"x-new", b"a value that is kept in the table")], end=True))
        self.assertEqual(len(self.resets()), 1)
        self.goes_on()

    def test_window(self) -> None:
        """The reserved bit of a WINDOW_UPDATE means nothing (RFC 9113 6.9)."""
        for stream_id in (0, self.beside):
            payload = pack("!L", 0x8000_0000 | 1000)
            self.raw(pack("!L", len(payload))[1:] + b"\x08\0" + pack("!L", stream_id) + payload)
        server: Any = self.caller.server
        machine = server._machine
        self.assertEqual(machine.outbound_flow_control_window, 65_535 + 1000)
        self.goes_on()


class ContentTypeTests(SynchronousTestCase):
    """What counts as gRPC."""

    def test_content_types(self) -> None:
        """Messages are protobuf; of another coding nothing here could be read."""
        for value in (b"", b"+proto", b";charset=utf-8", b"+proto; charset=utf-8"):
            parse_request(head(**{"content-type": b"application/grpc" + value}))
        for value in (b"+json", b"+thrift", b"+", b"-web", b"-web+proto", b"x", b"+protobuf"):
            refused = self.assertRaises(
                NotGrpc, parse_request, head(**{"content-type": b"application/grpc" + value})
            )
            self.assertEqual(refused.http_status, 415, value)

    def test_opened(self) -> None:
        """It is answered with 415 and nothing else."""
        caller = Caller()
        caller.request(head(**{"content-type": b"application/grpc+json"}), end=True)
        [answer] = [one for one in caller.seen if type(one).__name__ == "ResponseReceived"]
        self.assertEqual(dict(answer.headers)[b":status"], b"415")
        self.assertEqual([one for one in caller.events if isinstance(one, CallOpened)], [])
