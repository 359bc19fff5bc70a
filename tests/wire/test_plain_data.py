"""DATA past h2's machine: the same in every respect as through it."""

from __future__ import annotations

from typing import Any

from hyperframe.frame import DataFrame
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.wire.connection import Connection
from svc.wire.errors import WireError
from svc.wire.framing import prefix
from svc.wire.machine import Machine
from tests.support.examples import examples
from tests.wire.test_any import ACTIONS, FRAMES, LIMITS, STATES, Side, called


class Through(Machine):
    """Hands every frame to h2."""

    def take_data(self) -> tuple[int, bytes] | None:
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
    st.sampled_from((1, 1, 1, 3, 5)),
    st.one_of(
        st.binary(min_size=1, max_size=40),
        st.integers(0, 3000).map(lambda size: prefix(size) + bytes(size)),
        st.integers(8000, 30_000).map(bytes),
    ),
    st.sampled_from(([], [], [], [], ["END_STREAM"])),
)


class PlainDataTests(SynchronousTestCase):
    @settings(deadline=None, max_examples=examples(150))
    @given(
        st.booleans(),
        st.sampled_from(STATES),
        st.lists(DATA | DATA | DATA | FRAMES | ACTIONS, max_size=14),
        st.lists(st.sampled_from((1, 7, 9, 64, 1000, 1 << 20)), min_size=1, max_size=4),
    )
    def test_same_as_through_h2(
        self, is_client: bool, state: Any, steps: list[Any], sizes: list[int]
    ) -> None:
        """The same events, answers, windows, states, counts, errors, however the bytes are cut."""
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
        self.assertEqual(*seen)

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

    def test_a_window_is_a_window(self) -> None:
        """A frame past either window is refused as h2 refuses it."""
        side = Watched(False)
        called(side)
        wire: Connection = side.wire
        wire._machine.streams[1]._inbound_window_manager.current_window_size = 10
        side.feed(DataFrame(1, bytes(11)).serialize())
        self.assertEqual((side.is_over, side.seen[-2][0]), (True, "flow_control"))
        self.assertGreater(LIMITS.first_window, 11)
