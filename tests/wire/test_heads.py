"""Header blocks that come again are what hpack makes of them, and what h2 finds in them."""

from __future__ import annotations

from hpack import Decoder, Encoder, OversizedHeaderListError
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.wire.connection import Connection
from svc.wire.events import CallOpened
from svc.wire.heads import Fields, HeadDecoder, HeadEncoder
from svc.wire.limits import WireLimits

Pair = tuple[bytes, bytes]
PAIRS = st.tuples(
    st.sampled_from([b":path", b"te", b"grpc-timeout", b"x-a", b"content-length"]),
    st.sampled_from([b"", b"trailers", b"1S", b"v" * 40, b"w" * 300, b"long" * 1200]),
)
LISTS = st.lists(PAIRS, max_size=5)
FEW = st.lists(LISTS, min_size=1, max_size=4)
SIZES = st.sampled_from([0, 40, 200, 1000, 4096])


class CoderTests(SynchronousTestCase):
    @given(FEW, st.lists(st.one_of(st.integers(0, 3), SIZES.map(lambda size: -size)), max_size=30))
    def test_as_hpack(self, lists: list[list[Pair]], steps: list[int]) -> None:
        """Whatever comes again, and whatever its table has become, blocks and lists are hpack's."""
        theirs, ours = Encoder(), HeadEncoder()
        reader, other = HeadDecoder(), Decoder()
        for step in steps:
            if step < 0:
                # hpack forgets to announce a size that is set twice, so its own ends disagree then.
                if theirs.header_table_size != -step:
                    theirs.header_table_size = ours.header_table_size = -step
                continue
            fields = lists[step % len(lists)]
            block = ours.encode(fields)
            self.assertEqual(theirs.encode(fields), block)
            self.assertEqual(list(other.decode(block, raw=True)), list(reader.decode(block, True)))

    def test_remembered(self) -> None:
        """From the third time on, a list is not read again; a new field of another makes it so."""
        encoder, decoder = HeadEncoder(), HeadDecoder()
        fields = [(b"x-a", b"1"), (b"te", b"trailers")]
        read = [decoder.decode(encoder.encode(fields), True) for _ in range(3)]
        self.assertIs(read[1], read[2])
        decoder.decode(encoder.encode([(b"x-b", b"2")]), True)
        again = decoder.decode(encoder.encode(fields), True)
        self.assertIsNot(read[2], again)
        self.assertEqual(fields, again)

    def test_limit_holds(self) -> None:
        """A list that is remembered is refused once it is longer than is taken."""
        encoder, decoder = HeadEncoder(), HeadDecoder()
        fields = [(b"x-a", b"1")]
        blocks = [encoder.encode(fields) for _ in range(3)]
        for block in blocks:
            decoder.decode(block, True)
        decoder.max_header_list_size = 10
        self.assertRaises(OversizedHeaderListError, decoder.decode, blocks[-1], True)

    def test_bounded(self) -> None:
        """No more than a few lists are remembered, and no long one."""
        encoder, decoder = HeadEncoder(), HeadDecoder()
        for number in range(100):
            fields = [(b":status", b"200")] * (number + 1)
            decoder.decode(encoder.encode(fields), True)
        for known in (encoder._known, decoder._known):
            self.assertLessEqual(len(known), 8)
        self.assertFalse([block for block in decoder._known if len(block) > 64])


class CallTests(SynchronousTestCase):
    def test_heads_of_calls(self) -> None:
        """Calls that begin alike are given one head."""
        client = Connection(WireLimits(), is_client=True)
        server = Connection(WireLimits(), is_client=False)
        for _ in range(2):
            server.receive(b"".join(bytes(part) for part in client.pump(1 << 16)), 0.0)
            client.receive(b"".join(bytes(part) for part in server.pump(1 << 16)), 0.0)
        heads = []
        for _ in range(4):
            client.open("/a.B/C", scheme="https", authority="x", timeout=1.0, metadata=())
            sent = b"".join(bytes(part) for part in client.pump(1 << 16))
            heads += [
                event.head for event in server.receive(sent, 0.0) if isinstance(event, CallOpened)
            ]
        self.assertEqual(4, len(heads))
        self.assertEqual(heads[0], heads[3])
        self.assertIs(heads[2], heads[3])

    def test_counted(self) -> None:
        """A list's size is HTTP/2's, and a length is seen where it is named."""
        fields = Fields([(b"content-length", b"5"), (b"te", b"trailers")])
        self.assertEqual(14 + 1 + 32 + 2 + 8 + 32, fields.size)
        self.assertTrue(fields.names_length)
        self.assertFalse(Fields([(b"te", b"trailers")]).names_length)
