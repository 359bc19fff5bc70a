"""Plain frames past h2's machine: the same in every respect as through it."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from hyperframe.frame import DataFrame, PingFrame, RstStreamFrame
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.wire.connection import Connection
from svc.wire.errors import WireError
from svc.wire.floods import Nuisance
from svc.wire.framing import prefix
from svc.wire.machine import Machine
from tests.support.examples import examples
from tests.wire.test_any import (
    ACTIONS,
    ANSWER,
    FRAMES,
    HEAD,
    LIMITS,
    STATES,
    Side,
    begun,
    called,
    head,
)

TRAILERS = {"grpc-status": "0"}


class Through(Machine):
    """Hands every frame to h2."""

    def take_plain(self) -> None:
        return None


class Watched(Side):
    """A side of which everything that can be seen from outside is kept."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.seen: list[Any] = []

    def feed(self, data: bytes) -> None:
        if self.is_over:
            return
        self.fed += len(data)
        self.read = len(data)
        try:
            events = self.wire.receive(data, self.now)
            self.see(events)
            while self.wire.has_unread:
                self.see(self.wire.receive(b"", self.now))
        except WireError as ended:
            self.is_over = True
            self.seen.append((ended.reason, str(ended.details)))
        self.see(())

    def see(self, events: Any) -> None:
        wire, machine = self.wire, self.wire._machine
        sent = b"".join(bytes(part) for part in wire.pump(1 << 20))
        self.seen.append(
            (
                [_named(one) for one in events],
                [type(one).__name__ for one in wire.take_events()],
                sent,
                wire.taken,
                machine._inbound_flow_control_window_manager.current_window_size,
                machine.outbound_flow_control_window,
                [
                    (
                        one.stream_id,
                        one._inbound_window_manager.current_window_size,
                        one.outbound_flow_control_window,
                        one.state_machine.state,
                    )
                    for one in machine.streams.values()
                ],
                [(one.id, one.inbox.held, one.input_ended) for one in wire.streams.values()],
                dict(wire._floods._counts),
            )
        )


def _named(event: Any) -> tuple[str, int]:
    return type(event).__name__, getattr(getattr(event, "stream", None), "id", 0)


def through(side: Watched) -> Watched:
    """The same, with a machine that hands everything to h2."""
    side.wire._machine.__class__ = Through
    return side


DATA = st.builds(
    lambda stream, body, flags: lambda side: DataFrame(stream, body, flags=flags).serialize(),
    st.sampled_from((1, 1, 1, 3, 5, 7)),
    st.one_of(
        st.just(b""),
        st.binary(min_size=1, max_size=40),
        st.integers(0, 3000).map(lambda size: prefix(size) + bytes(size)),
        st.integers(8000, 30_000).map(bytes),
    ),
    st.sampled_from(([], [], [], [], ["END_STREAM"])),
)


def _steps(is_client: bool) -> list[Any]:
    """What may come next, and what we may do, most of it in its place."""
    fields = (ANSWER, TRAILERS, {":status": "103"}) if is_client else (HEAD, TRAILERS)
    ends: tuple[list[str], ...] = [], ["END_STREAM"]
    frames = [
        partial(head, stream=stream, fields=one, flags=flags)
        for stream in ((5,) if is_client else (5, 6))
        for one in fields
        for flags in ends
    ]
    return [*frames, partial(_data, flags=ends[1]), ("open" if is_client else "send", 0)]


def _data(_side: Side, flags: list[str]) -> bytes:
    return bytes(DataFrame(5, prefix(1) + b"a", flags=flags).serialize())


_PIECES = st.lists(st.sampled_from((1, 7, 9, 64, 1000, 1 << 20)), min_size=1, max_size=4)


def called_twice(side: Watched) -> None:
    """Two calls are over: what they began and ended with is known."""
    begun(side)
    for stream in (1, 3):
        if side.is_client:
            side.act("open", 0)
            side.feed(head(side, stream, {":status": "103"}) + head(side, stream, ANSWER))
            side.feed(head(side, stream, TRAILERS, ["END_STREAM"]))
        else:
            side.feed(head(side, stream, HEAD))
            side.act("reset", 0)


def seen_of(is_client: bool, state: Any, steps: list[Any], sizes: list[int]) -> list[list[Any]]:
    """What is seen of a side, and of one that hands all to h2, however the bytes are cut."""
    seen = []
    for side in (Watched(is_client), through(Watched(is_client))):
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
        seen.append(side.seen)
    return seen


class PlainFrameTests(SynchronousTestCase):
    @settings(deadline=None, max_examples=examples(150))
    @given(
        st.booleans(),
        st.sampled_from(STATES),
        st.lists(DATA | DATA | DATA | FRAMES | ACTIONS, max_size=14),
        _PIECES,
    )
    def test_same_as_through_h2(
        self, is_client: bool, state: Any, steps: list[Any], sizes: list[int]
    ) -> None:
        """The same events, answers, windows, states, counts, errors, however the bytes are cut."""
        self.assertEqual(*seen_of(is_client, state, steps, sizes))

    def test_known_heads(self) -> None:
        """Likewise of lists of fields that came before, in any order of three."""
        for is_client in (False, True):
            for steps in product(_steps(is_client), repeat=3):
                self.assertEqual(*seen_of(is_client, called_twice, [*steps], [1 << 20]))

    def test_calls_past_h2(self) -> None:
        """A call like others before is no matter of h2's, from its first frame to its last."""
        for is_client in (False, True):
            side = Watched(is_client)
            called_twice(side)
            self.patch(side.wire._machine, "take_frame", lambda: self.fail("h2 was asked"))
            side.act("open", 0)
            frames = [head(side, 5, ANSWER if is_client else HEAD), DataFrame(5, b"a").serialize()]
            last = DataFrame(5, b"b", flags=["END_STREAM"]).serialize()
            frames.append(head(side, 5, TRAILERS, ["END_STREAM"]) if is_client else last)
            side.feed(b"".join(frames))
            ended = [["Readable", "Finished"], ["CallOpened", "Readable"]]
            names = [name for name, _ in side.seen[-2][0]]
            self.assertEqual(ended[not is_client], names)

    def test_late_resets_past_h2(self) -> None:
        """A reset behind an answer is no matter of h2's; another one is a nuisance."""
        side = Watched(True)
        called_twice(side)
        self.patch(side.wire._machine, "take_frame", lambda: self.fail("h2 was asked"))
        for count in (0, 1):
            side.feed(RstStreamFrame(3, 0).serialize())
            self.assertEqual(side.wire._floods._counts.get(Nuisance.CLOSED_STREAM, 0), count)

    def test_pings_past_h2(self) -> None:
        """A ping, which is all that an idle tunnel has to say, is answered without h2."""
        for is_client in (False, True):
            side = Watched(is_client)
            called(side)
            self.patch(side.wire._machine, "take_frame", lambda: self.fail("h2 was asked"))
            side.feed(PingFrame(0, b"12345678").serialize())
            answer = PingFrame(0, b"12345678", flags=["ACK"]).serialize()
            self.assertEqual(answer, side.seen[-2][2])
            side.feed(answer)
            self.assertEqual([("Ponged", 0)], side.seen[-2][0])

    def test_past_h2(self) -> None:
        """A message on an open stream is not given to h2 at all."""
        side = Watched(False)
        called(side)
        given: list[Any] = []
        self.patch(side.wire._machine, "take_frame", lambda: given.append(1))
        side.feed(DataFrame(1, prefix(3) + b"abc").serialize())
        [stream] = side.wire.streams.values()
        self.assertEqual(stream.take(), b"abc")
        self.assertEqual(given, [])

    def test_last_message(self) -> None:
        """A caller's last message ends its half; one that has no more to say says only that."""
        for messages in ([b"abc"], []):
            side = Watched(True)
            called(side)
            [stream] = side.wire.streams.values()
            for message in messages:
                stream.send_message(message)
            stream.half_close()
            sent = b"".join(bytes(part) for part in side.wire.pump(1 << 20))
            body = b"".join(prefix(len(one)) + one for one in messages)
            frame = DataFrame(1, body, flags=["END_STREAM"])
            self.assertEqual(frame.serialize(), sent)
            self.assertFalse(side.wire.has_work)

    def test_reset_behind_an_answer(self) -> None:
        """A caller resets a call that its server answered whole, unless the server has done so."""
        for behind in (b"", RstStreamFrame(1, 0).serialize(), RstStreamFrame(3, 0).serialize()):
            side = Watched(True)
            called(side)
            side.act("open", 0)
            whole = head(side, 1, ANSWER | TRAILERS, ["END_STREAM"])
            side.feed(whole + behind)
            sent = b"".join(seen[2] for seen in side.seen[-3:])
            is_ours = behind != RstStreamFrame(1, 0).serialize()
            self.assertEqual(RstStreamFrame(1, 0).serialize() * is_ours, sent)
            late = side.wire._floods._counts
            self.assertNotIn(Nuisance.CLOSED_STREAM, late)
            side.feed(RstStreamFrame(1, 0).serialize())
            self.assertEqual(is_ours, Nuisance.CLOSED_STREAM not in late)
            self.assertFalse(side.is_over)

    def test_a_window_is_a_window(self) -> None:
        """A frame past either window is refused as h2 refuses it."""
        side = Watched(False)
        called(side)
        wire: Connection = side.wire
        wire._machine.streams[1]._inbound_window_manager.current_window_size = 10
        side.feed(DataFrame(1, bytes(11)).serialize())
        self.assertEqual((side.is_over, side.seen[-2][0]), (True, "flow_control"))
        self.assertGreater(LIMITS.first_window, 11)
