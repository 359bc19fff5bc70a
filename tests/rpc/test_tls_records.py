"""Records in a stream of ciphertext, however it is split."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.rpc.tls_records import Records, is_one_of_data

RECORD = st.builds(
    lambda kind, body: bytes((kind, 3, 3)) + len(body).to_bytes(2, "big") + body,
    st.integers(20, 24),
    st.binary(min_size=1, max_size=40),
)
CUTS = st.lists(st.integers(1, 30), min_size=1)


class RecordsTests(SynchronousTestCase):
    @given(
        st.lists(RECORD, max_size=6), st.lists(st.integers(1, 30), min_size=1), st.integers(0, 9)
    )
    def test_any_split(self, records: list[bytes], cuts: list[int], lost: int) -> None:
        """Each record is counted once, with its last byte."""
        data = b"".join(records)
        data = data[: max(0, len(data) - lost)]
        ends = [len(b"".join(records[: at + 1])) for at in range(len(records))]
        counting, at, turn = Records(), 0, 0
        while at < len(data):
            piece = data[at : at + cuts[turn % len(cuts)]]
            before, at, turn = at, at + len(piece), turn + 1
            expected = sum(before < end <= at for end in ends)
            self.assertEqual(counting.ended_by(piece), expected)
            self.assertEqual(counting.is_between, at in ends)

    def test_no_record(self) -> None:
        """Once something was none, OpenSSL is to look at every piece at once."""
        for header in (b"GET /", bytes((23, 3, 3, 0, 0)), bytes((23, 3, 3, 255, 255))):
            counting = Records()
            self.assertEqual(counting.ended_by(header[:4]), 0)
            self.assertEqual(counting.ended_by(header[4:]), 1)
            self.assertEqual((counting.ended_by(b"x"), counting.is_between), (1, False))

    def test_one_of_data(self) -> None:
        """Nothing less, nothing more, and no other kind."""
        whole = bytes((23, 3, 3, 0, 2)) + b"ab"
        self.assertTrue(is_one_of_data(whole))
        for other in (b"", whole[:3], whole[:-1], whole + b"c", b"\x15" + whole[1:]):
            self.assertFalse(is_one_of_data(other))
