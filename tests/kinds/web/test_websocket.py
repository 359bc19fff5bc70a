"""Frames of a WebSocket: where they end, and how one is closed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.kinds.web.websocket import FrameScan, closing_frame


def frame(size: int, is_masked: bool) -> bytes:
    """A frame with a payload of this size."""
    mask = 0x80 if is_masked else 0
    if size < 126:
        head = bytes((0x82, mask | size))
    elif size < 1 << 16:
        head = bytes((0x82, mask | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x82, mask | 127)) + size.to_bytes(8, "big")
    return head + (b"mask" if is_masked else b"") + b"x" * size


class FrameTests(SynchronousTestCase):
    @given(
        st.lists(
            st.tuples(st.sampled_from([0, 1, 125, 126, 300, 65536]), st.booleans()), max_size=4
        ),
        st.lists(st.integers(1, 70_000), max_size=8),
    )
    def test_any_pieces(self, frames: list[tuple[int, bool]], sizes: list[int]) -> None:
        """It is known at every byte whether one frame has ended and the next not begun."""
        whole, ends = b"", {0}
        for size, is_masked in frames:
            whole += frame(size, is_masked)
            ends.add(len(whole))
        scan, at = FrameScan(), 0
        for size in (*sizes, len(whole)):
            scan.take(whole[at : at + size])
            at = min(len(whole), at + size)
            self.assertEqual(scan.is_between, at in ends)

    def test_too_long(self) -> None:
        """A length with its highest bit set is none."""
        self.assertRaises(Malformed, FrameScan().take, b"\x82\x7f" + b"\xff" * 8)

    def test_closing(self) -> None:
        """Code and reason, in a frame that a control frame may be."""
        self.assertEqual(closing_frame(1008, "no"), b"\x88\x04\x03\xf0no")
        long = closing_frame(1008, "\u20ac" * 99)
        self.assertEqual((long[1], len(long)), (2 + 123, 2 + 2 + 123))
        long[4:].decode("utf-8")
