"""What stands in for the containers of h2 and hpack behaves as they do."""

from __future__ import annotations

from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import InvalidSettingsValueError
from h2.settings import SettingCodes, Settings
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.wire.heads import HeadDecoder
from svc.wire.lean import ClosedStreams, Entries, LeanSettings
from svc.wire.limits import WireLimits
from svc.wire.machine import Machine

CODES = st.sampled_from([*map(int, SettingCodes), 0x77])
VALUES = st.sampled_from([0, 1, 2, 100, 4096, 16_384, 65_535, 2**31 - 1, 2**31, 2**32 - 1])
STEPS = st.lists(st.one_of(st.tuples(CODES, VALUES), st.none()), max_size=20)
PAIRS = st.tuples(
    st.sampled_from([b":path", b"te", b"grpc-timeout", b"x-a", b"x-b"]),
    st.sampled_from([b"", b"trailers", b"1S", b"v" * 40, b"w" * 300, b"long" * 1200]),
)


def refusal(side: Settings, code: int, value: int) -> int | None:
    """With what a received value is refused; None where it is taken."""
    try:
        side.validate_received_setting(code, value)
    except InvalidSettingsValueError as refused:
        return refused.error_code
    return None


class SettingsTests(SynchronousTestCase):
    @given(st.booleans(), STEPS)
    def test_as_h2(self, client: bool, steps: list[tuple[int, int] | None]) -> None:
        """Whatever a peer proposes and has acknowledged, every value is what h2 says it is."""
        theirs, ours = Settings(client=client), LeanSettings(client=client)
        for step in steps:
            if step is None:
                changed, same = theirs.acknowledge(), ours.acknowledge()
                self.assertEqual(
                    {one: (each.original_value, each.new_value) for one, each in changed.items()},
                    {one: (each.original_value, each.new_value) for one, each in same.items()},
                )
                continue
            received = refusal(theirs, *step)
            self.assertEqual(received, refusal(ours, *step))
            if received is None:  # h2 proposes nothing that it did not let pass
                theirs[step[0]] = ours[step[0]] = step[1]
            for code in (*SettingCodes, 0x77):
                self.assertEqual(theirs.get(code), ours.get(code))
            self.assertEqual(theirs.max_concurrent_streams, ours.max_concurrent_streams)

    def test_held_once(self) -> None:
        """Those with the same values hold one dict, and what one changes is no other's."""
        first, second = LeanSettings(client=True), LeanSettings(client=True)
        self.assertIs(first._now, second._now)
        for side in (first, second):
            side.update({4: 100, 5: 20_000})
            side.acknowledge()
        self.assertIs(first._now, second._now)
        first[4] = 7
        first.acknowledge()
        del first[5]
        self.assertEqual((first.initial_window_size, first.get(5)), (7, None))
        self.assertEqual((second.initial_window_size, second.max_frame_size), (100, 20_000))
        self.assertEqual(LeanSettings(client=True).initial_window_size, 65_535)

    def test_read_only(self) -> None:
        """What many hold cannot be written to by one of them."""
        for side in (LeanSettings(client=True), LeanSettings(client=False)):
            side[4] = 100
            side.acknowledge()
            shared: Any = side._now
            with self.assertRaises(TypeError):
                shared[4] = 7
            self.assertEqual(side.initial_window_size, 100)

    def test_bad_beginning(self) -> None:
        """A value of our own that may not be is refused, as h2 refuses it."""
        bad = {SettingCodes.MAX_FRAME_SIZE: 1}
        for kind in (Settings, LeanSettings):
            with self.assertRaises(InvalidSettingsValueError):
                kind(client=True, initial_values=bad)


class TableTests(SynchronousTestCase):
    @given(st.lists(st.lists(PAIRS, max_size=8), max_size=12), st.integers(0, 4096))
    def test_as_hpack(self, heads: list[list[tuple[bytes, bytes]]], size: int) -> None:
        """Every block is encoded to hpack's bytes, and read back, while entries come and go."""
        theirs, ours, reader = Encoder(), Encoder(), Decoder()
        for coder in (ours, reader):
            coder.header_table.dynamic_entries = Entries()  # type: ignore[assignment]
        for turn, head in enumerate(heads):
            if turn == len(heads) // 2:
                theirs.header_table_size = ours.header_table_size = size
            block = ours.encode(head)
            self.assertEqual(theirs.encode(head), block)
            self.assertEqual([tuple(one) for one in reader.decode(block, raw=True)], head)

    def test_entries_of_many(self) -> None:
        """Two connections hold one object for the same short entry of a field that is no secret.

        Of a field that may be one, and of a long entry, each holds an object of its own, equal as
        they are: what a peer sent does not outlive its connection then.
        """
        head = [
            (b":path", b"/a.B/C" * 3),
            (b"user-agent", b"a" * 246),
            (b"user-agent", b"a" * 247),
            (b"authorization", b"token" * 3),
        ]
        tables = []
        for _ in range(2):
            decoder = HeadDecoder()
            decoder.decode(Encoder().encode(head), raw=True)
            tables.append(list(decoder.header_table.dynamic_entries)[::-1])
        first, second = tables
        self.assertEqual([first, second], [head, head])
        path, short, long, secret = zip(first, second, strict=True)
        for one, other in (path, short):
            self.assertIs(one, other)
        for one, other in (long, secret):
            self.assertIsNot(one[1], other[1])


class ClosedStreamsTests(SynchronousTestCase):
    @given(st.lists(st.integers(1, 60), unique=True), st.integers(8, 32))
    def test_the_latest(self, ids: list[int], most: int) -> None:
        """It holds no more than it may, and the latest of them: seven eighths at least."""
        closed = ClosedStreams(most)
        for at, one in enumerate(ids):
            closed[one] = at
        self.assertLessEqual(len(closed), most)
        self.assertEqual(closed, {one: ids.index(one) for one in closed})
        self.assertLessEqual(set(ids[-(most - most // 8) :]), set(closed))


class DispatchTests(SynchronousTestCase):
    def test_every_frame(self) -> None:
        """Each frame that h2 takes is taken by the same method, ours where we have changed it."""
        machine = Machine(WireLimits(), is_client=False)
        plain = H2Connection(H2Configuration(client_side=False))
        for kind, method in plain._frame_dispatch_table.items():
            found = machine._frame_dispatch_table[kind]
            self.assertEqual(found, getattr(machine, method.__name__))
        with self.assertRaises(KeyError):
            machine._frame_dispatch_table[object]  # type: ignore[index]
