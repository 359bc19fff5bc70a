"""Whatever comes, in whatever state: the declared exception or none, and nothing grows.

Frames are made with hyperframe, good and bad, or by hand where hyperframe
would not write them; between them our own side acts as its owner may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field
from hpack import Encoder
from hyperframe.frame import (
    AltSvcFrame,
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.wire.connection import Connection
from svc.wire.errors import WireError
from svc.wire.events import CallOpened
from svc.wire.floods import Nuisance
from svc.wire.framing import Inbox, prefix
from svc.wire.headers import NotGrpc, parse_request
from svc.wire.limits import KIB, WireLimits
from svc.wire.status import OK
from tests.support.examples import examples

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LIMITS = WireLimits(
    max_streams=3,
    max_frame=32 * KIB,
    max_message=8 * KIB,
    run_ahead=16 * KIB,
    nuisances=12,
    resets=6,
    held_heads=2 * KIB,
    send_queue=4 * KIB,
    max_header_list=4 * KIB,
    turn_work=40,
)
HEAD = {
    ":method": "POST",
    ":scheme": "https",
    ":path": "/a.B/C",
    ":authority": "x",
    "te": "trailers",
    "content-type": "application/grpc",
}
ANSWER = {":status": "200", "content-type": "application/grpc"}


@define
class Side:
    """Our connection, its bytes' sender, and an owner that acts on what it is told."""

    is_client: bool
    wire: Connection = field(init=False)
    encoder: Encoder = field(factory=Encoder)
    now: float = 0.0
    fed: int = 0
    read: int = 0
    is_over: bool = False
    opened: list[Any] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.wire = Connection(LIMITS, is_client=self.is_client)

    def feed(self, data: bytes) -> None:
        """As a transport hands over what it read, and what it had read already."""
        if self.is_over:
            return
        self.fed += len(data)
        self.read = len(data)
        try:
            events = self.wire.receive(data, self.now)
            self.opened += [event.stream for event in events if isinstance(event, CallOpened)]
            while self.wire.has_unread:
                self.check()
                self.wire.hold(b"")
                events = self.wire.receive(b"", self.now)
                self.opened += [event.stream for event in events if isinstance(event, CallOpened)]
        except WireError as ended:
            self.is_over = True
            assert ended.reason
        self.wire.pump(1 << 16)
        self.wire.take_events()
        self.check()

    def act(self, action: str, which: int) -> None:
        """What an owner may do at any time."""
        streams = [*self.wire.streams.values()]
        stream = streams[which % len(streams)] if streams else None
        try:
            if action == "open":
                if not self.is_client:
                    return
                self.wire.open("/a.B/C", scheme="https", authority="x", timeout=None, metadata=())
            elif action == "ping":
                self.wire.ping(b"12345678")
            elif action == "wait":
                self.now += 11
            elif action == "leave":
                self.wire.go_away()
            elif stream is not None:
                _ON_STREAM[action](self, stream)
        except SvcError as refused:
            assert refused.reason
        self.wire.pump(1 << 16)
        self.wire.take_events()
        self.check()

    def check(self) -> None:
        """Every container is within what the limits say."""
        wire, machine = self.wire, self.wire._machine
        reader = machine.reader
        assert len(wire.streams) <= LIMITS.max_streams or self.is_client
        assert set(machine.streams) <= set(wire.streams) or self.is_over
        assert set(wire.blocked) | set(wire._dirty) <= set(wire.streams)
        assert not set(wire.blocked) & set(wire._dirty)
        assert len(machine._closed_streams) <= 1024
        assert len(machine.remote_settings) <= 8
        assert len(reader._headers_buffer) <= 65
        assert sum(len(frame.data) for frame in reader._headers_buffer) <= 5 * KIB
        # A frame that is not whole, and the last read.
        assert len(reader._data) <= LIMITS.max_frame + 9 + self.read
        assert sum(map(len, reader._parts)) <= LIMITS.max_frame
        assert machine.decoder.header_table_size <= 4096
        assert machine.encoder.header_table_size <= 4096
        assert wire._heads == sum(stream.head for stream in wire.streams.values())
        assert wire._heads <= LIMITS.held_heads
        assert wire.room.windows == sum(stream.window for stream in wire.streams.values())
        assert wire.room.ahead <= LIMITS.run_ahead
        assert len(wire._floods._counts) <= len(Nuisance)
        held = sum(stream.inbox.held for stream in wire.streams.values())
        assert held <= self.fed and held <= LIMITS.run_ahead + 4 * LIMITS.full_window
        # Each answer is to at least as many bytes.
        assert machine.held_control <= 4 * self.fed + 200


def _send(side: Side, stream: Any) -> None:
    stream.send_message(b"m" * 3000)


def _end(side: Side, stream: Any) -> None:
    stream.half_close() if side.is_client else stream.finish(OK)


_ON_STREAM: dict[str, Callable[[Side, Any], object]] = {
    "send": _send,
    "end": _end,
    "reset": lambda side, stream: side.wire.reset(stream),
    "take": lambda side, stream: stream.take(),
    "raw": lambda side, stream: stream.credit(sum(len(each) for each in stream.take_raw())),
    "forget": lambda side, stream: stream.forget_queued(),
}


def begun(side: Side) -> None:
    """The peer has spoken HTTP/2."""
    side.feed((b"" if side.is_client else PREFACE) + SettingsFrame(0).serialize())


def called(side: Side, *flags: str) -> None:
    """One call is open."""
    begun(side)
    if side.is_client:
        side.act("open", 0)
    else:
        side.feed(head(side, 1, HEAD, flags))


def answered(side: Side) -> None:
    """Our half is over, the peer's is not, where that can be."""
    called(side)
    if side.is_client:
        side.act("end", 0)
    else:
        side.act("send", 0)


def reset_here(side: Side) -> None:
    """We have reset the call."""
    called(side)
    side.act("reset", 0)


def reset_there(side: Side) -> None:
    """The peer has."""
    called(side)
    side.feed(RstStreamFrame(1, 8).serialize())


def over(side: Side) -> None:
    """The call has ended well."""
    called(side, "END_STREAM")
    if side.is_client:
        side.feed(head(side, 1, ANSWER | {"grpc-status": "0"}, ["END_STREAM"]))
    else:
        side.act("end", 0)


def leaving(side: Side) -> None:
    """Both have said GOAWAY."""
    called(side)
    side.feed(GoAwayFrame(0, 1).serialize())
    side.act("leave", 0)


def amid_head(side: Side) -> None:
    """A header block has begun."""
    called(side)
    side.feed(HeadersFrame(3, b"\x82").serialize())


def amid_data(side: Side) -> None:
    """A long DATA frame has begun."""
    called(side)
    side.feed(DataFrame(1, bytes(20_000)).serialize()[:5000])


def blocked(side: Side) -> None:
    """What we queued waits for a window."""
    called(side)
    side.feed(SettingsFrame(0, settings={4: 0}).serialize())
    side.act("send", 0)
    side.act("end", 0)


STATES: tuple[Callable[[Side], None], ...] = (
    lambda side: None,
    begun,
    called,
    lambda side: called(side, "END_STREAM"),
    answered,
    reset_here,
    reset_there,
    over,
    leaving,
    amid_head,
    amid_data,
    blocked,
)


def head(side: Side, stream: int, fields: dict[str, str], flags: Iterable[str] = ()) -> bytes:
    """HEADERS with a good block."""
    block = side.encoder.encode([*fields.items()])
    return bytes(HeadersFrame(stream, block, flags=["END_HEADERS", *flags]).serialize())


_ids = st.sampled_from((0, 1, 2, 3, 5, 7, 2**31 - 1))
_calls = st.sampled_from((1, 2, 3, 5, 7, 101))
_bodies = st.binary(max_size=40) | st.integers(0, 34_000).map(bytes)
_blocks = st.binary(max_size=60) | st.sampled_from((b"\x82", b"\x20" * 300, b"\xbe" * 400))
_flags = st.sampled_from(([], ["END_STREAM"], ["END_HEADERS"], ["END_HEADERS", "END_STREAM"]))
_numbers = st.sampled_from((1, 100, 65_535, 2**31 - 1))


def _good(fields: dict[str, str], **changed: str) -> Any:
    return st.tuples(_calls, st.sampled_from(((), ("END_STREAM",)))).map(
        lambda at: lambda side: head(side, at[0], fields | changed, at[1])
    )


def _bytes(strategy: Any) -> Any:
    return strategy.map(lambda frame: lambda side: bytes(frame.serialize()))


FRAMES = st.one_of(
    _good(HEAD),
    _good(HEAD, x="y" * 1500),
    _good(HEAD, **{"grpc-timeout": "1x"}),
    _good(ANSWER),
    _good(ANSWER, **{"grpc-status": "0"}),
    _good({":status": "103"}),
    _bytes(st.builds(HeadersFrame, _calls, _blocks, flags=_flags)),
    _bytes(
        st.builds(
            lambda i, b, d: HeadersFrame(i, b, depends_on=d, flags=["PRIORITY", "END_HEADERS"]),
            _calls,
            _blocks,
            _ids,
        )
    ),
    _bytes(
        st.builds(
            ContinuationFrame,
            _calls,
            _blocks,
            flags=_flags.map(lambda flags: [each for each in flags if each == "END_HEADERS"]),
        )
    ),
    _bytes(
        st.builds(
            lambda i, b, f: DataFrame(i, b, flags=f),
            _calls,
            _bodies,
            st.sampled_from(([], ["END_STREAM"])),
        )
    ),
    _bytes(
        st.builds(
            lambda i, b, n: DataFrame(i, b, pad_length=n, flags=["PADDED"]),
            _calls,
            st.binary(max_size=20),
            st.integers(0, 255),
        )
    ),
    _bytes(st.builds(RstStreamFrame, _calls, st.integers(0, 20))),
    _bytes(st.builds(WindowUpdateFrame, _ids, _numbers)),
    _bytes(
        st.builds(
            lambda s: SettingsFrame(0, settings=s),
            st.dictionaries(
                st.integers(0, 12) | st.integers(0, 0xFFFF),
                st.sampled_from((0, 1, 16_384, 2**32 - 1)),
                max_size=4,
            ),
        )
    ),
    st.integers(0x10, 0xFF00).map(
        lambda first: (
            lambda side: SettingsFrame(
                0, settings={first + more: 1 for more in range(20)}
            ).serialize()
        )
    ),
    _bytes(st.just(SettingsFrame(0, flags=["ACK"]))),
    _bytes(st.builds(lambda f: PingFrame(0, b"12345678", flags=f), st.sampled_from(([], ["ACK"])))),
    _bytes(st.builds(GoAwayFrame, st.just(0), _ids, st.integers(0, 20), st.binary(max_size=20))),
    _bytes(st.builds(lambda i, d: PriorityFrame(i, depends_on=d), _calls, _ids)),
    _bytes(
        st.builds(
            lambda i, p, b: PushPromiseFrame(i, p, b, flags=["END_HEADERS"]),
            _calls,
            st.sampled_from((2, 4)),
            _blocks,
        )
    ),
    _bytes(st.builds(AltSvcFrame, _ids, st.binary(max_size=9), st.binary(max_size=9))),
    # What hyperframe would not write: any type, flags, length and reserved bit.
    st.tuples(
        st.integers(0, 12),
        st.integers(0, 255),
        st.integers(0, 2**32 - 1) | _ids,
        st.binary(max_size=30),
        st.integers(-2, 70_000) | st.just(0),
    ).map(lambda parts: lambda side: _by_hand(*parts)),
)
ACTIONS = st.tuples(
    st.sampled_from(("open", "ping", "wait", "leave", *_ON_STREAM)), st.integers(0, 3)
)


def _by_hand(kind: int, flags: int, stream: int, body: bytes, off: int) -> bytes:
    """A frame whose length may lie by *off*."""
    length = min(max(0, len(body) + off), 2**24 - 1)
    return length.to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


class AnyFrameTests(SynchronousTestCase):
    @settings(deadline=None, max_examples=examples(300))
    @given(
        st.booleans(),
        st.sampled_from(STATES),
        st.lists(FRAMES | ACTIONS, max_size=12),
        st.lists(st.sampled_from((1, 7, 9, 64, 1000, 1 << 20)), min_size=1, max_size=4),
    )
    def test_any_frame_in_any_state(
        self, is_client: bool, state: Any, steps: list[Any], sizes: list[int]
    ) -> None:
        """Frames in any state, however their bytes are cut, and our own acts between them."""
        side = Side(is_client)
        state(side)
        turn = 0
        for step in steps:
            if isinstance(step, tuple):
                side.act(*step)
                continue
            data, at = step(side), 0
            while at < len(data):
                size = sizes[turn % len(sizes)]
                side.feed(data[at : at + size])
                at, turn = at + size, turn + 1

    @settings(deadline=None, max_examples=40)
    @given(st.booleans(), st.sampled_from(STATES), FRAMES, st.integers(20, 60))
    def test_any_frame_again_and_again(
        self, is_client: bool, state: Any, step: Any, count: int
    ) -> None:
        """One frame many times over makes nothing grow."""
        side = Side(is_client)
        state(side)
        for _ in range(count):
            side.feed(step(side))

    @settings(deadline=None, max_examples=examples(100))
    @given(st.booleans(), st.sampled_from(STATES), st.binary(max_size=300), st.integers(1, 50))
    def test_any_bytes_in_any_state(
        self, is_client: bool, state: Any, data: bytes, size: int
    ) -> None:
        """Bytes that are no frames."""
        side = Side(is_client)
        state(side)
        for at in range(0, len(data), size):
            side.feed(data[at : at + size])


class AnyPartTests(SynchronousTestCase):
    """The rooms that a frame's content goes to."""

    @settings(deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from((b":method", b":path", b"grpc-timeout", b"content-type", b"te"))
                | st.binary(max_size=12)
                | st.just(b"x-bin"),
                st.sampled_from((b"POST", b"/a.B/C", b"application/grpc")) | st.binary(max_size=20),
            ),
            max_size=12,
        )
    )
    def test_any_head(self, fields: Any) -> None:
        """Any header fields are a call, not gRPC, or malformed."""
        try:
            head = parse_request(fields)
        except (NotGrpc, SvcError):
            return
        self.assertTrue(head.method == "" or head.method.startswith("/"))
        size = sum(len(name) + len(value) for name, value in fields)
        kept = sum(len(name) + len(value) for name, value in head.metadata.items())
        self.assertLessEqual(kept, size + len(fields))

    @settings(deadline=None)
    @given(
        st.lists(st.binary(max_size=3000) | st.integers(0, 200).map(prefix), max_size=12), st.data()
    )
    def test_any_messages(self, pieces: list[bytes], data: Any) -> None:
        """Any bytes are messages, a refusal, or wait for more; what is held is what came."""
        inbox = Inbox(2000)
        for piece in pieces:
            before = inbox.held
            inbox.add(piece)
            self.assertEqual(inbox.held, before + len(piece))
            try:
                if data.draw(st.booleans()):
                    message = inbox.take()
                    self.assertLessEqual(len(message or b""), 2000)
                elif data.draw(st.booleans()):
                    inbox.take_raw()
                    self.assertEqual(inbox.held, 0)
            except SvcError as refused:
                self.assertIn(refused.reason, ("compressed", "message_too_long"))
                return
