"""Bodies: they end at the byte where a target says that they end, however they arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.kinds.web.body import BodyScan
from svc.kinds.web.head import Body
from tests.kinds.web.inputs import BAD_CHUNKS

CHUNKED = Body(length=None, is_chunked=True)


def taken(scan: BodyScan, data: bytes, cuts: list[int]) -> int:
    """How many bytes it takes, given them in pieces that end at these places."""
    total, at = 0, 0
    for end in (*sorted(cut % (len(data) + 1) for cut in cuts), len(data)):
        piece = data[at:end]
        count = scan.take(piece)
        total += count
        if count < len(piece):
            return total
        at = end
    return total


class BodyTests(SynchronousTestCase):
    @given(
        st.lists(st.binary(min_size=1, max_size=40), max_size=6),
        st.binary(max_size=20),
        st.lists(st.integers(0, 10_000), max_size=8),
    )
    def test_chunks(self, chunks: list[bytes], after: bytes, cuts: list[int]) -> None:
        """A body in chunks is taken whole and nothing after it, in any pieces."""
        body = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(each), each) for each in chunks) + b"0\r\n\r\n"
        scan = BodyScan(CHUNKED)
        self.assertEqual(taken(scan, body + after, cuts), len(body))
        self.assertTrue(scan.is_over)
        self.assertEqual(scan.take(after), 0)

    @given(st.binary(max_size=60), st.binary(max_size=9), st.lists(st.integers(0, 99), max_size=5))
    def test_counted(self, body: bytes, after: bytes, cuts: list[int]) -> None:
        """A counted body is taken to its last byte."""
        scan = BodyScan(Body(length=len(body)))
        self.assertEqual(taken(scan, body + after, cuts), len(body))
        self.assertTrue(scan.is_over)

    def test_to_the_end(self) -> None:
        """Without a length, all that comes belongs to it."""
        scan = BodyScan(Body(length=None))
        self.assertEqual((scan.take(b"abc"), scan.is_over), (3, False))

    def test_malformed(self) -> None:
        """Chunks that two programs could count differently are no body, in one piece or in many."""
        for what, body in BAD_CHUNKS.items():
            self.assertRaises(Malformed, BodyScan(CHUNKED).take, body)
            scan = BodyScan(CHUNKED)
            with self.assertRaises(Malformed, msg=what):
                for at in range(len(body)):
                    scan.take(body[at : at + 1])

    def test_trailers(self) -> None:
        """Those of a target pass, up to a number."""
        body = b"0\r\nA: 1\r\nB: 2\r\n\r\n"
        scan = BodyScan(CHUNKED, most_trailers=2)
        self.assertEqual((scan.take(body), scan.is_over), (len(body), True))
        self.assertRaises(Malformed, BodyScan(CHUNKED, most_trailers=1).take, body)

    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        """Whatever comes is taken, left or refused."""
        try:
            self.assertLessEqual(BodyScan(CHUNKED, 2).take(data), len(data))
        except Malformed:
            pass
