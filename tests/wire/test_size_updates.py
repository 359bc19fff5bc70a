"""Changes of the header table's size: two may stand before a block."""

from __future__ import annotations

from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.wire.reader import SizeUpdates, check_size_updates

SIZES = st.integers(0, 4096)


class SizeUpdateTests(SynchronousTestCase):
    @given(st.lists(SIZES, max_size=6))
    def test_as_hpack_writes_them(self, sizes: list[int]) -> None:
        """What hpack writes and reads back is counted right, however long its numbers are."""
        encoder = Encoder()
        updates = b""
        for size in sizes:
            encoder.header_table_size = 4096 if size != 4096 else 0
            encoder.encode([("a", "b")])
            encoder.header_table_size = size
            block = encoder.encode([])
            Decoder().decode(block)
            updates += block
        whole = updates + Encoder().encode([("a", "b")])
        count = sum(1 for size in sizes)
        if count > 2:
            with self.assertRaises(SizeUpdates):
                check_size_updates(whole)
        else:
            check_size_updates(whole)

    @given(st.binary(max_size=40))
    def test_any_block(self, block: bytes) -> None:
        """Any bytes are let through or refused."""
        try:
            check_size_updates(block)
        except SizeUpdates:
            self.assertGreaterEqual(len(block), 3)
