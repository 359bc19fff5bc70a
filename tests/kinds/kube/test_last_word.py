"""Where frames of SPDY end, however they are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.kube.last_word import SpdyScan


class SpdyScanTests(SynchronousTestCase):
    @given(st.lists(st.binary(max_size=300)), st.lists(st.integers(1, 40)))
    def test_any_pieces(self, bodies: list[bytes], sizes: list[int]) -> None:
        """It stands between two frames exactly where one has ended."""
        data, ends = b"", {0}
        for n, body in enumerate(bodies):
            data += n.to_bytes(4, "big") + b"\0" + len(body).to_bytes(3, "big") + body
            ends.add(len(data))
        scan, at = SpdyScan(), 0
        for size in [*sizes, len(data)]:
            scan.take(data[at : at + size])
            at = min(len(data), at + size)
            self.assertEqual(scan.is_between, at in ends)
