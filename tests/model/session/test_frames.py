"""Frames that only an end can make, and what their receiver does before it believes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.session.edits import Edit, StreamEdits
from svc.model.session.frames import (
    MAX_FRAME_DATA,
    FrameChecker,
    FrameMarks,
    FrameTagger,
    TaggedKind,
    read_tagged,
)
from svc.model.session.gated import GatedReceiver, GateNote
from svc.model.session.halves import new_half
from svc.model.session.ranges import MAX_RANGE, RangeDecision, RequestChain

KEY = bytes(range(32))


def frames(*pieces: bytes) -> list[bytes]:
    """Frames of data as bytes."""
    tagger = FrameTagger(KEY)
    return [b"".join(tagger.data(piece)) for piece in pieces]


class FrameTests(SynchronousTestCase):
    def refused(self, checker: FrameChecker, frame: bytes) -> str:
        return str(self.assertRaises(Malformed, checker.verify, read_tagged(frame)).reason)

    @given(st.lists(st.binary(min_size=1, max_size=40), max_size=8))
    def test_as_sent(self, pieces: list[bytes]) -> None:
        """What one end tags the other verifies, with heartbeats between."""
        tagger, checker, heard = FrameTagger(KEY), FrameChecker(KEY), b""
        for piece in pieces:
            for made in (tagger.data(piece), tagger.urgent(TaggedKind.HEARTBEAT)):
                frame = read_tagged(memoryview(b"".join(made)))
                checker.verify(frame)
                heard += frame.data
        checker.verify(read_tagged(b"".join(tagger.eof())))
        self.assertEqual((heard, checker.has_ended), (b"".join(pieces), True))

    def test_every_bit(self) -> None:
        """No bit of a frame can be turned."""
        (frame,) = frames(b"GET a\r\n")
        for at in range(len(frame) * 8):
            turned = bytearray(frame)
            turned[at // 8] ^= 1 << at % 8
            with self.assertRaises(Malformed) as caught:
                FrameChecker(KEY).verify(read_tagged(bytes(turned)))
            self.assertIn(caught.exception.reason, {"frame_altered", "frame_untagged"})

    def test_another_key(self) -> None:
        """Of the other direction, or of another session."""
        (frame,) = frames(b"x")
        self.assertEqual(self.refused(FrameChecker(bytes(32)), frame), "frame_altered")

    def test_order(self) -> None:
        """Repeated, left out, exchanged, or after the end: each is the same fault."""
        one, two, three = frames(b"one", b"two", b"three")
        for sent in ((one, one), (one, three), (two,), (one, two, one)):
            checker = FrameChecker(KEY)
            for frame in sent[:-1]:
                checker.verify(read_tagged(frame))
            self.assertEqual(self.refused(checker, sent[-1]), "frame_order")
        tagger, checker = FrameTagger(KEY), FrameChecker(KEY)
        checker.verify(read_tagged(b"".join(tagger.eof())))
        self.assertEqual(self.refused(checker, b"".join(tagger.data(b"x"))), "frame_order")

    def test_urgent_order(self) -> None:
        """A cancel cannot be repeated, nor a heartbeat kept for later."""
        tagger = FrameTagger(KEY)
        cancel = b"".join(tagger.urgent(TaggedKind.CANCEL))
        beat = b"".join(tagger.urgent(TaggedKind.HEARTBEAT))
        checker = FrameChecker(KEY)
        checker.verify(read_tagged(cancel))
        self.assertEqual(self.refused(checker, cancel), "frame_order")
        self.assertEqual(self.refused(FrameChecker(KEY), beat), "frame_order")

    def test_no_frames(self) -> None:
        """Too short, too long, of no kind, or empty data."""
        (frame,) = frames(b"x")
        for data in (b"", frame[:32], frame + bytes(MAX_FRAME_DATA), frame[:33]):
            self.assertEqual(
                self.assertRaises(Malformed, read_tagged, data).reason, "frame_untagged"
            )

    def test_keys(self) -> None:
        """Both ends have the same keys, which change with anything that either of them signed."""
        one, other = new_half(), new_half()
        keys = one.agree(other.public, b"request", b"answer")
        self.assertEqual(keys, other.agree(one.public, b"request", b"answer"))
        self.assertNotEqual(keys.requests, keys.answers)
        self.assertNotIn(keys.requests.hex(), repr(keys))
        for said in ((b"other", b"answer"), (b"request", b"other")):
            self.assertNotEqual(keys.requests, one.agree(other.public, *said).requests)
        self.assertRaises(Malformed, one.agree, bytes(32), b"request", b"answer")


class ReceiverTests(SynchronousTestCase):
    """What a Proxy says of frames, at the end that gets them."""

    def setUp(self) -> None:
        self.chain = RequestChain("1" * 32)
        edits = StreamEdits({"deny": lambda came, values: b"NO"})
        self.receiver = GatedReceiver(FrameChecker(KEY), edits, self.chain)
        self.tagger = FrameTagger(KEY)

    def data(self, data: bytes) -> bytes:
        self.receiver.frame(read_tagged(b"".join(self.tagger.data(data))))
        return self.receiver.released()

    def note(self, note: GateNote) -> bytes:
        self.receiver.note(note)
        return self.receiver.released()

    def refused(self, *notes: GateNote) -> str:
        def said() -> None:
            for note in notes:
                self.note(note)

        return str(self.assertRaises(Malformed, said).reason)

    def test_bytes_wait_until_they_are_passed(self) -> None:
        """By the offset that the Proxy said, also where it said so before they came."""
        self.assertEqual(self.data(b"onetwo"), b"")
        self.assertEqual(self.note(GateNote(pass_to=3)), b"one")
        self.assertEqual(self.note(GateNote(pass_to=2)), b"")
        self.assertEqual(self.note(GateNote(pass_to=9)), b"two")
        self.assertEqual(self.data(b"three"), b"thr")
        self.assertRaises(Malformed, self.receiver.end)

    def test_more_than_is_held(self) -> None:
        """A Proxy that sends and does not pass fills nobody's memory."""
        for _ in range(2):
            self.data(bytes(MAX_FRAME_DATA))
        self.assertEqual(self.assertRaises(Malformed, self.data, b"x").reason, "decision_refused")

    def test_denied(self) -> None:
        """What was denied passes only as the edits that replace all of it make it."""
        self.data(b"DROP;GET")
        denied = RangeDecision(1, 0, 5, allowed=False)
        said = self.note(GateNote(5, (denied,), (Edit(0, 5, "deny"),)))
        self.assertEqual((said, self.chain.count), (b"NO", 1))
        denied = RangeDecision(2, 5, 3, allowed=False)
        self.assertEqual(self.refused(GateNote(8, (denied,))), "decision_refused")

    def test_denied_in_part(self) -> None:
        """An edit of some of its bytes is not enough."""
        for edits in ((Edit(0, 3, "deny"),), (Edit(1, 4, "deny"),)):
            self.setUp()
            self.data(b"DROP;GET")
            note = GateNote(5, (RangeDecision(1, 0, 5, allowed=False),), edits)
            self.assertEqual(self.refused(note), "decision_refused")

    def test_numbers_and_ranges(self) -> None:
        """Without gaps, about bytes that have not passed, and not far ahead."""
        for decisions in (
            (RangeDecision(2, 0, 1, allowed=True),),
            (RangeDecision(1, 0, 1, allowed=True), RangeDecision(1, 0, 1, allowed=True)),
            (RangeDecision(1, 0, MAX_RANGE + 1, allowed=True),),
            (RangeDecision(1, 1 << 40, 1, allowed=True),),
        ):
            self.setUp()
            self.assertEqual(self.refused(GateNote(0, decisions)), "decision_refused")
        self.setUp()
        self.data(b"one")
        late = RangeDecision(1, 0, 3, allowed=True)
        self.assertEqual(self.refused(GateNote(3), GateNote(3, (late,))), "decision_refused")

    def test_about_answers(self) -> None:
        """No request is in them."""
        self.receiver.chain = None
        note = GateNote(0, (RangeDecision(1, 0, 0, allowed=True),))
        self.assertEqual(self.refused(note), "decision_refused")

    @given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
    def test_the_same_digest(self, sizes: list[int], data: st.DataObject) -> None:
        """However the frames are cut, Proxy and Connector have one digest for a range."""
        self.setUp()
        marks, total = FrameMarks(), sum(sizes)
        for size in sizes:
            frame = read_tagged(b"".join(self.tagger.data(bytes(size))))
            marks.add(frame)
            self.receiver.frame(frame)
        offset = data.draw(st.integers(0, total - 1))
        size = data.draw(st.integers(1, total - offset))
        self.assertEqual(marks.digest(offset, size), self.chain.marks.digest(offset, size))
        self.note(GateNote(total, (RangeDecision(1, offset, size, allowed=True),)))
        self.assertEqual(self.chain.count, 1)
