"""The sans-IO wire: headers, framing, flow control, floods, arbitrary bytes."""

from __future__ import annotations

from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Fault, Malformed, SvcError
from svc.wire.connection import Connection
from svc.wire.errors import WireError
from svc.wire.events import CallOpened, GoingAway
from svc.wire.framing import Inbox, prefix
from svc.wire.headers import (
    NotGrpc,
    decode_binary,
    decode_timeout,
    encode_binary,
    encode_timeout,
    parse_request,
    request_headers,
)
from svc.wire.limits import KIB, MIB, WireLimits
from svc.wire.status import Code, Status, parse_trailers, trailers
from tests.support.examples import examples

LAST_STREAM = (1 << 31) - 1
HEAD = [
    (b":method", b"POST"),
    (b":scheme", b"https"),
    (b":path", b"/a.B/C"),
    (b":authority", b"x"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
]


def head(**changes: Any) -> Any:
    fields = dict(HEAD)
    fields.update({name.encode(): value for name, value in changes.items()})
    return list(fields.items())


class HeaderTests(SynchronousTestCase):
    @settings(deadline=None)
    @given(st.binary())
    def test_binary_round_trip(self, value: Any) -> None:
        """A binary value survives, with its padding and without."""
        encoded = encode_binary(value)
        self.assertEqual(decode_binary(encoded), value)
        self.assertEqual(decode_binary(encoded + b"=" * (-len(encoded) % 4)), value)

    @settings(deadline=None)
    @given(st.floats(min_value=1e-9, max_value=3e11))
    @example(100_000.999)
    def test_timeout_round_trip(self, seconds: Any) -> None:
        """A timeout loses less than one part in 100,000 (eight digits of whole seconds)."""
        decoded = decode_timeout(encode_timeout(seconds))
        self.assertLessEqual(abs(decoded - seconds), max(seconds * 1e-5, 1e-9))

    def test_timeouts_refused(self) -> None:
        """Broken timeouts are refused, and zero is zero."""
        for raw in (b"", b"1", b"x", b"1x", b"-1S", b"123456789S", b"1 S", b"1S\n"):
            with self.assertRaises(Malformed):
                decode_timeout(raw)
        self.assertEqual(decode_timeout(b"0n"), 0)
        self.assertEqual(decode_timeout(b"99999999H"), 99999999 * 3600)

    def test_paths(self) -> None:
        """Only /package.Service/Method is a method; anything else is none."""
        self.assertEqual(parse_request(HEAD).method, "/a.B/C")
        for path in (b"a.B/C", b"//a.B/C", b"/a.B/C/", b"/a.B%2fC", b"/a.B", b"*", b"/a..B/C"):
            changed = [(name, path if name == b":path" else value) for name, value in HEAD]
            self.assertEqual(parse_request(changed).method, "", path)

    def test_encoding(self) -> None:
        """How messages are compressed is taken as a word, and as no more than that."""
        for raw, word in ((b"gzip", "gzip"), (b"g\xfc", "an unknown encoding"), (b"", "")):
            self.assertEqual(parse_request(head(**{"grpc-encoding": raw})).encoding, word)

    def test_without_te(self) -> None:
        """A caller without ``te`` is served, as by most gRPC servers."""
        fields = [(name, value) for name, value in HEAD if name != b"te"]
        self.assertEqual(parse_request(fields).method, "/a.B/C")

    def test_not_grpc(self) -> None:
        """What is not gRPC gets an HTTP status."""
        for fields, status in (
            (head(**{":scheme": b"ftp"}), 400),
            (head(**{":method": b"GET"}), 405),
            (head(**{"content-type": b"text/plain"}), 415),
            (head(**{"content-type": b"application/grpc-web"}), 415),
        ):
            with self.assertRaises(NotGrpc) as caught:
                parse_request(fields)
            self.assertEqual(caught.exception.http_status, status)

    def test_metadata(self) -> None:
        """Own metadata is what the caller set, HTTP and gRPC fields left out."""
        fields = request_headers(
            "/a.B/C",
            scheme="https",
            authority="x",
            timeout=1.5,
            metadata=[("k", "v"), ("k", "w"), ("b-bin", b"\0"), ("traceparent", "00-1-2-01")],
        )
        parsed = parse_request(fields)
        self.assertEqual(parsed.timeout, 1.5)
        self.assertEqual(parsed.metadata, {"k": "v,w", "b-bin": b"\0", "traceparent": "00-1-2-01"})
        for name, value in (("K", "v"), ("k", b"v"), ("k-bin", "v"), ("k", "a\nb"), ("grpc-x", "")):
            with self.assertRaises(Malformed):
                request_headers(
                    "/a.B/C", scheme="https", authority="x", timeout=None, metadata=[(name, value)]
                )

    @settings(deadline=None)
    @given(st.sampled_from(Code), st.text(max_size=100), st.binary(max_size=50))
    def test_status_round_trip(self, code: Any, message: Any, details: Any) -> None:
        """Code, message and details survive; the trailers are plain ASCII."""
        message = message.encode("utf-8", "replace").decode("utf-8")
        fields = dict(trailers(Status(code, message, details)))
        self.assertEqual(parse_trailers(fields), Status(code, message, details))
        raw = fields.get(b"grpc-message", b"")
        self.assertTrue(all(0x20 <= byte < 0x7F for byte in raw))

    @settings(deadline=None)
    @given(st.binary(max_size=30), st.binary(max_size=30), st.binary(max_size=30))
    def test_any_trailers(self, status: Any, message: Any, details: Any) -> None:
        """Whatever a server sends as status is some status."""
        parse_trailers(
            {b"grpc-status": status, b"grpc-message": message, b"grpc-status-details-bin": details}
        )


class InboxTests(SynchronousTestCase):
    @settings(deadline=None)
    @given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(1, 20), min_size=1))
    def test_any_split(self, messages: Any, sizes: Any) -> None:
        """Messages come out as they went in, however their bytes are cut."""
        data = b"".join(prefix(len(message)) + message for message in messages)
        inbox, out, at, turn = Inbox(100), [], 0, 0
        while at < len(data):
            size = sizes[turn % len(sizes)]
            inbox.add(data[at : at + size])
            at, turn = at + size, turn + 1
            while (message := inbox.take()) is not None:
                out.append(bytes(message))
        self.assertEqual(out, messages)
        self.assertFalse(inbox.is_partial)

    @settings(deadline=None)
    @given(
        st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=4),
        st.integers(1, 20),
        st.integers(0, 60),
    )
    def test_peeked_at(self, messages: list[bytes], size: int, most: int) -> None:
        """A whole message that is not too long is shown, and stays, framing and all."""
        data = b"".join(prefix(len(message)) + message for message in messages)
        inbox = Inbox(100)
        for at in range(0, len(data), size):
            inbox.add(data[at : at + size])
            is_there = at + size >= 5 + len(messages[0]) and len(messages[0]) <= most
            self.assertEqual(inbox.peek(most), messages[0] if is_there else b"")
        self.assertEqual(b"".join(inbox.take_raw()), data)

    def test_refused(self) -> None:
        """Too long and compressed messages are refused before they are whole, again and again."""
        for data, encoding, fault in (
            (b"\0\xff\xff\xff\xff", "", Fault.EXHAUSTED),
            (b"\1\0\0\0\1x", "gzip", Fault.UNIMPLEMENTED),
            (b"\1\0\0\0\1x", "", Fault.INTERNAL),
            (b"\1\0\0\0\1x", "identity", Fault.INTERNAL),
            (b"\2\0\0\0\1x", "gzip", Fault.INTERNAL),
        ):
            inbox = Inbox(100)
            inbox.encoding = encoding
            inbox.add(data)
            self.assertTrue(inbox.is_whole)
            self.assertEqual(inbox.peek(100), b"")
            for _ in range(2):
                with self.assertRaises(SvcError) as caught:
                    inbox.take()
                self.assertEqual(caught.exception.fault, fault)


class Caller:
    """A bare h2 client against our server connection."""

    def __init__(self, limits: Any = None) -> None:
        self.limits = limits or WireLimits()
        self.server = Connection(self.limits, is_client=False)
        self.h2 = H2Connection(H2Configuration(client_side=True, validate_outbound_headers=False))
        self.h2.initiate_connection()
        self.now = 0.0
        self.events: list[Any] = []
        self.seen: list[Any] = []
        self.turn()

    @staticmethod
    def stock_server() -> H2Connection:
        """A bare h2 server."""
        server = H2Connection(H2Configuration(client_side=False, validate_outbound_headers=False))
        server.config.normalize_outbound_headers = False
        server.initiate_connection()
        return server

    def turn(self) -> None:
        for _ in range(4):
            data = self.h2.data_to_send()
            if data:
                self.events += self.server.receive(data, self.now)
            parts = self.server.pump(1 << 30)
            if parts:
                self.seen += self.h2.receive_data(b"".join(parts))

    def request(self, fields: Any = HEAD, end: Any = False) -> Any:
        stream_id = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, fields, end_stream=end)
        self.turn()
        return stream_id

    def pour(self, stream_id: Any, size: Any) -> Any:
        """Send up to *size* bytes as the window allows; how many went."""
        sent = 0
        while sent < size:
            room = min(
                self.h2.local_flow_control_window(stream_id),
                self.h2.max_outbound_frame_size,
                size - sent,
            )
            if room <= 0:
                break
            self.h2.send_data(stream_id, b"\0" * room)
            sent += room
            self.turn()
        return sent

    def opened(self) -> Any:
        return [event.stream for event in self.events if isinstance(event, CallOpened)]

    def refused(self) -> Any:
        return [event.error_code for event in self.seen if type(event).__name__ == "StreamReset"]


class FlowTests(SynchronousTestCase):
    def test_settings(self) -> None:
        """What we advertise is what we mean."""
        remote = Caller().h2.remote_settings
        self.assertEqual(remote[SettingCodes.MAX_CONCURRENT_STREAMS], 1000)
        self.assertEqual(remote[SettingCodes.INITIAL_WINDOW_SIZE], 64 * KIB)
        self.assertEqual(remote[SettingCodes.MAX_FRAME_SIZE], 256 * KIB)

    def test_stalled_reader(self) -> None:
        """A stream nobody reads takes 256 KiB, 32 of them leave the others their windows."""
        caller = Caller()
        sent = [caller.pour(caller.request(), 8 * MIB) for _ in range(80)]
        self.assertEqual(set(sent), {256 * KIB})
        self.assertGreater(caller.h2.outbound_flow_control_window, 8 * MIB)

    def test_window_grows_with_its_reader(self) -> None:
        """A reader that keeps up has a window of 1 MiB, and no more."""
        caller = Caller()
        stream_id = caller.request()
        [stream] = caller.opened()
        for _ in range(80):
            caller.pour(stream_id, 128 * KIB)
            stream.credit(sum(len(chunk) for chunk in stream.take_raw()))
            caller.turn()
        self.assertEqual(stream.window, MIB)
        self.assertEqual(caller.pour(stream_id, 8 * MIB) <= MIB, True)

    def test_small_pieces_are_put_together(self) -> None:
        """Bytes that come one by one are not kept one by one."""
        inbox = Inbox(100_000)
        for _ in range(20_000):
            inbox.add(b"x")
        self.assertEqual(inbox.held, 20_000)
        self.assertLess(len(inbox.take_raw()), 20)

    def test_frame_in_any_pieces(self) -> None:
        """A long DATA frame, however cut and followed by whatever, arrives whole."""
        for size in (9, 100, 16_384, 100_000):
            caller = Caller()
            caller.h2.max_outbound_frame_size = 200_000
            first, second = caller.request(), caller.request()
            streams = caller.opened()
            caller.h2.send_data(first, bytes(range(250)) * 160)
            caller.h2.send_data(second, b"s" * 30_000, pad_length=7)
            caller.h2.send_data(first, b"end", end_stream=True)
            data = caller.h2.data_to_send()
            for at in range(0, len(data), size):
                caller.server.receive(data[at : at + size], 0)
            self.assertEqual(b"".join(streams[0].take_raw()), bytes(range(250)) * 160 + b"end")
            self.assertEqual(b"".join(streams[1].take_raw()), b"s" * 30_000)
            self.assertTrue(streams[0].input_ended)

    def test_crowded(self) -> None:
        """Once the windows add up to the bound, further streams stay at 64 KiB."""
        caller = Caller(WireLimits(crowded=MIB))
        sent = [caller.pour(caller.request(), MIB) for _ in range(8)]
        self.assertEqual(sent[0], 256 * KIB)
        self.assertEqual(sent[-1], 64 * KIB)

    def test_stream_limit(self) -> None:
        """Past the limit one stream is refused and the others live."""
        caller = Caller(WireLimits(max_streams=2))
        caller.h2.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 1000
        caller.h2.remote_settings.acknowledge()
        for _ in range(5):
            caller.request()
        self.assertEqual(len(caller.opened()), 2)
        self.assertEqual([int(code) for code in caller.refused()], [7, 7, 7])
        caller.opened()[0].finish(Status(Code.OK))
        caller.turn()
        caller.request()
        self.assertEqual(len(caller.opened()), 3)

    def test_drain_notice(self) -> None:
        """After our GOAWAY open streams go on."""
        client = Connection(WireLimits(), is_client=True)
        server = Connection(WireLimits(), is_client=False)
        stream = client.open("/a.B/C", scheme="http", authority="x", timeout=None, metadata=())
        server.receive(b"".join(client.pump(MIB)), 0)
        server.go_away()
        events = client.receive(b"".join(server.pump(MIB)), 0)
        self.assertIn(GoingAway(LAST_STREAM, 0), events)
        self.assertFalse(stream.is_over)
        stream.send_message(b"still")
        self.assertTrue(server.receive(b"".join(client.pump(MIB)), 0))


class FloodTests(SynchronousTestCase):
    def assert_flood(self, nuisance: Any, reason: str) -> None:
        caller = Caller(WireLimits(nuisances=50, resets=50))
        with self.assertRaises(WireError) as caught:
            for _ in range(60):
                nuisance(caller)
                caller.turn()
        self.assertEqual(caught.exception.reason, reason)
        caller = Caller(WireLimits(nuisances=50, resets=50))
        for _ in range(60):
            caller.now += 1
            nuisance(caller)
            caller.turn()

    def test_resets(self) -> None:
        """Streams begun and reset in a row end the connection."""

        def reset(caller: Any) -> None:
            caller.h2.reset_stream(caller.request())

        self.assert_flood(reset, "reset_flood")

    def test_pings(self) -> None:
        """So do pings, also of a caller who may ping as often as it likes."""
        caller = Caller(WireLimits(nuisances=50, least_ping_secs=0))
        with self.assertRaises(WireError) as caught:
            for _ in range(60):
                caller.h2.ping(b"12345678")
                caller.turn()
        self.assertEqual(caught.exception.reason, "ping_flood")

    def test_settings(self) -> None:
        """So do settings."""
        change = {SettingCodes.ENABLE_PUSH: 0}
        self.assert_flood(lambda caller: caller.h2.update_settings(change), "settings_flood")

    def test_empty_data(self) -> None:
        """So does empty DATA."""
        streams: dict[object, int] = {}

        def empty(caller: Any) -> None:
            if caller not in streams:
                streams[caller] = caller.request()
            caller.h2.send_data(streams[caller], b"")

        self.assert_flood(empty, "empty_data_flood")

    def test_answers_never_read(self) -> None:
        """A peer that asks and does not read is ended by what is held for it."""
        server = Connection(WireLimits(held_control=1000), is_client=False)
        client = H2Connection()
        client.initiate_connection()
        server.receive(client.data_to_send(), 0)
        with self.assertRaises(WireError):
            for _ in range(200):
                client.ping(b"12345678")
                server.receive(client.data_to_send(), 0)
                server.check_held()


class AnyBytesTests(SynchronousTestCase):
    """Whatever comes, only the declared exception leaves."""

    def feed(self, data: Any, sizes: Any, *, is_client: Any, begun: Any = b"") -> None:
        connection = Connection(WireLimits(), is_client=is_client)
        at = turn = 0
        data = begun + data
        try:
            while at < len(data):
                size = sizes[turn % len(sizes)]
                for event in connection.receive(data[at : at + size], 0.0):
                    if isinstance(event, CallOpened):
                        event.stream.finish(Status(Code.OK))
                at, turn = at + size, turn + 1
                connection.pump(MIB)
        except WireError:
            connection.pump(MIB)

    @settings(deadline=None, max_examples=examples(200))
    @given(st.binary(max_size=200), st.lists(st.integers(1, 50), min_size=1), st.booleans())
    def test_any_bytes(self, data: Any, sizes: Any, is_client: Any) -> None:
        """Arbitrary bytes, arbitrarily split."""
        self.feed(data, sizes, is_client=is_client)

    @settings(deadline=None, max_examples=examples(400))
    @given(
        st.lists(
            st.tuples(
                st.integers(0, 11), st.integers(0, 255), st.integers(0, 7), st.binary(max_size=40)
            ),
            max_size=12,
        ),
        st.lists(st.integers(1, 50), min_size=1),
        st.booleans(),
    )
    def test_any_frames(self, frames: Any, sizes: Any, is_client: Any) -> None:
        """Well-formed frames of any type, flags and body, after a good beginning."""
        caller = H2Connection(H2Configuration(client_side=not is_client))
        caller.initiate_connection()
        data = b"".join(
            len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body
            for kind, flags, stream, body in frames
        )
        self.feed(data, sizes, is_client=is_client, begun=caller.data_to_send())

    @settings(deadline=None, max_examples=examples(200))
    @given(st.integers(0, 400), st.integers(0, 255), st.integers(1, 60))
    def test_a_changed_byte(self, at: Any, value: Any, size: Any) -> None:
        """A real conversation with one byte changed."""
        caller = H2Connection(H2Configuration(client_side=True))
        caller.initiate_connection()
        for stream_id in (1, 3, 5):
            caller.send_headers(stream_id, [(n.decode(), v.decode()) for n, v in HEAD])
            caller.send_data(stream_id, prefix(20) + b"x" * 20, end_stream=stream_id != 3)
        caller.reset_stream(3)
        data = bytearray(caller.data_to_send())
        data[at % len(data)] = value
        self.feed(bytes(data), [size], is_client=False)
