"""Notes of one turn, as a Proxy's side of a gated session sends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.protocol import Protocol
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.session.edits import Edit, StreamEdits
from svc.model.session.frames import FrameChecker, FrameTagger
from svc.model.session.gated import MAX_NOTED, GatedReceiver, GateNote
from svc.model.session.ranges import RangeDecision, RequestChain
from svc.proto.gate.v1.stream_pb2 import StreamDecision, StreamFrame, StreamNote
from svc.rpc.call import MessageEnd
from svc.rpc.frames import note_part, parse_gated, tagged_head
from svc.rpc.gated import PassingStream

KEY, SESSION = bytes(range(32)), "a" * 32
PIECES = st.lists(st.integers(1, 9), min_size=1, max_size=12)
NUMBERS = st.sampled_from((0, 1, 127, 128, 70_000, 2**34, 2**35, 2**63)) | st.integers(0, 2**32)
DECISIONS = st.builds(
    RangeDecision,
    n=NUMBERS,
    offset=NUMBERS,
    size=st.integers(0, 2**32 - 1),
    allowed=st.booleans(),
)
PARTS = (
    b"\x08\x05",
    b"\x08\x80\x00",
    b"\x08\x80",
    b"\x12\x08\x08\x01\x10\x02\x18\x03\x20\x01",
    b"\x12\x06\x08\x01\x10\x02\x18\x03",
    b"\x12\x04\x10\x02\x18\x03",
    b"\x12\x04\x18\x03\x10\x02",
    b"\x12\x04\x20\x01\x18\x03",
    b"\x12\x04\x18\x03\x20\x02",
    b"\x12\x04\x18\x03\x20\x00",
    b"\x12\x04\x18\x03\x28\x01",
    b"\x12\x07\x18\xff\xff\xff\xff\x7f\x20\x01",
    b"\x12\x03\x08\x01\x10",
    b"\x12\x02\x08\x81",
    b"\x12\x00",
    b"\x12",
    b"\x28\x07",
)
"""Of notes: whole and cut fields, in and out of their usual form."""


def generated(note: GateNote) -> StreamNote:
    """A note as the generated module holds it."""
    return StreamNote(
        pass_to=note.pass_to,
        decisions=[
            StreamDecision(n=one.n, offset=one.offset, size=one.size, allowed=one.allowed)
            for one in note.decisions
        ],
    )


class Held:
    """A call that keeps what is written to it, and begins a turn's writing when it is told."""

    method = "/test.Echo/Pass"
    outcome = None
    is_full = has_ended = False

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._before: list[Callable[[], object]] = []

    def before_writing(self, call: Callable[[], object]) -> None:
        self._before.append(call)

    def write(self, parts: list[bytes], size: int) -> None:
        self.sent.append(b"".join(parts))

    def listen(self, listener: object) -> None:
        """Nothing comes."""

    def turn(self) -> None:
        before, self._before = self._before, []
        for call in before:
            call()


class NoteTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.held = Held()
        self.stream = PassingStream(cast(MessageEnd, self.held))

    def frame(self, tagger: FrameTagger, data: bytes) -> bytes:
        tag, body = tagger.data(data)
        return tagged_head(body) + tag + body

    def heard(self, messages: list[bytes]) -> tuple[list[bytes], bytes]:
        """What the other end passes on, message by message, and the head of its chain."""
        chain = RequestChain(SESSION)
        receiver = GatedReceiver(FrameChecker(KEY), StreamEdits({}), chain)
        passed = []
        for message in messages:
            note, frame = parse_gated(message)
            if note is not None:
                receiver.note(note)
            if frame is not None:
                receiver.frame(frame)
            passed.append(receiver.released())
        return passed, chain.head

    def test_a_full_call_holds_back(self) -> None:
        """What reads the other side is told when this one is full, and when it has room again."""
        source = StringTransport()
        self.stream.start(Protocol())
        self.stream.registerProducer(source, True)
        for say in (
            lambda frame: self.stream.pass_on(frame),
            lambda frame: self.stream.note(GateNote(9), frame),
        ):
            self.held.is_full = True
            say(self.frame(FrameTagger(KEY), b"much"))
            self.held.turn()
            self.assertEqual(source.producerState, "paused")
            self.held.is_full = False
            self.stream.drained()
            self.assertEqual(source.producerState, "producing")

    @given(PIECES, st.data())
    def test_as_one(self, sizes: list[int], data: st.DataObject) -> None:
        """However a turn's notes are cut, the same bytes pass and the same chain is made."""
        whole = bytes(range(sum(sizes)))
        heads = []
        for turns in (data.draw(st.lists(st.booleans(), min_size=len(sizes))), [True] * len(sizes)):
            self.setUp()
            message: bytes | None = self.frame(FrameTagger(KEY), whole)
            passed = 0
            for n, (size, ends_turn) in enumerate(zip(sizes, turns, strict=False), 1):
                decision = RangeDecision(n=n, offset=passed, size=size, allowed=True)
                passed += size
                self.stream.note(GateNote(passed, (decision,)), message)
                message = None
                if ends_turn:
                    self.held.turn()
            self.held.turn()
            came, head = self.heard(self.held.sent)
            self.assertEqual(b"".join(came), whole)
            heads.append(head)
        self.assertEqual(heads[0], heads[1])

    @given(st.integers(1, 2**64 - 1), st.booleans())
    def test_the_usual_note(self, pass_to: int, closes: bool) -> None:
        """It is written and read by hand, in the very bytes of the generated module."""
        note = GateNote(pass_to, closes=closes)
        said = StreamFrame(note=StreamNote(pass_to=pass_to, closes=closes)).SerializeToString()
        self.assertEqual(note_part(note), said)
        self.assertEqual(parse_gated(said), (note, None))

    @given(st.integers(1, 2**64 - 1), st.lists(DECISIONS, max_size=4))
    def test_decisions(self, pass_to: int, decisions: list[RangeDecision]) -> None:
        """A note of decisions is written and read as the generated module does."""
        note = GateNote(pass_to, tuple(decisions))
        said = StreamFrame(note=generated(note)).SerializeToString()
        self.assertEqual(note_part(note), said)
        self.assertEqual(parse_gated(said), (note, None))

    @given(st.lists(st.sampled_from(PARTS), max_size=6).map(b"".join))
    def test_another_writer(self, said: bytes) -> None:
        """Fields that are left out, repeated, unknown or in another order mean what they do there.

        What the generated module cannot read is no note here either.
        """
        self.reads_as_generated(said)

    def test_lengths_that_lie(self) -> None:
        """A note cut anywhere, or a decision that says it is longer, is judged there alone."""
        decided = b"\x12\x08\x08\x01\x10\x02\x18\x03\x20\x01"
        whole = b"\x08\x06" + 2 * decided
        for size in range(len(whole)):
            self.reads_as_generated(whole[:size])
        for at in (3, 3 + len(decided)):
            for length in range(128):
                self.reads_as_generated(whole[:at] + bytes((length,)) + whole[at + 1 :])

    def reads_as_generated(self, said: bytes) -> None:
        """A note means what the generated module takes it for, or is none there either."""
        message = b"\x4a" + bytes((len(said),)) + said
        try:
            read = StreamNote.FromString(said)
        except DecodeError:
            self.assertRaises(Malformed, parse_gated, message)
            return
        decisions = tuple(
            RangeDecision(n=one.n, offset=one.offset, size=one.size, allowed=one.allowed)
            for one in read.decisions
        )
        note = GateNote(read.pass_to, decisions, closes=read.closes)
        self.assertEqual(parse_gated(message), (note, None))

    def test_half_a_note(self) -> None:
        """One that is cut short within its number is none."""
        for said in (b"\x4a\x01\x08", b"\x4a\x02\x08\x80"):
            refusal = self.assertRaises(Malformed, parse_gated, said)
            self.assertIn("is not a StreamNote", refusal.text)

    def test_one_turn(self) -> None:
        """Four messages that came in one frame go on in one, so their target has them at once."""
        frame = self.frame(FrameTagger(KEY), b"BindDescExecSync")
        self.stream.note(GateNote(4, (RangeDecision(1, 0, 4, allowed=True),)), frame)
        for to in (8, 12, 16):
            self.stream.note(GateNote(to))
        self.assertEqual(self.held.sent, [])
        self.held.turn()
        self.assertEqual(self.heard(self.held.sent)[0], [b"BindDescExecSync"])

    def test_order(self) -> None:
        """A frame, an insertion and the last note each keep their place behind what was said."""
        tagger = FrameTagger(KEY)
        first, second = self.frame(tagger, b"one"), self.frame(tagger, b"two")
        self.stream.note(GateNote(2), first)
        self.stream.note(GateNote(3))
        self.stream.pass_on(second)
        self.stream.note(GateNote(3, edits=(Edit(3, 0, "said"),)))
        self.stream.note(GateNote(6))
        self.stream.note(GateNote(closes=True))
        self.held.turn()
        notes = [parse_gated(one)[0] for one in self.held.sent]
        self.assertEqual(
            notes,
            [GateNote(3), None, GateNote(6, edits=(Edit(3, 0, "said"),)), GateNote(closes=True)],
        )

    def test_not_too_many(self) -> None:
        """No note says more than its receiver takes."""
        for n in range(MAX_NOTED + 5):
            self.stream.note(GateNote(n + 1, (RangeDecision(n + 1, n, 1, allowed=True),)))
        self.held.turn()
        notes = [parse_gated(one)[0] for one in self.held.sent]
        self.assertEqual([len(one.decisions) for one in notes if one], [MAX_NOTED, 5])

    def test_at_once(self) -> None:
        """Who ends the call in this turn has it said before."""
        self.stream.note(GateNote(3, edits=(Edit(3, 0, "said"),)))
        self.assertEqual(self.held.sent, [])
        for _ in range(2):
            self.stream.say()
            self.held.turn()
        notes = [parse_gated(one)[0] for one in self.held.sent]
        self.assertEqual(notes, [GateNote(3, edits=(Edit(3, 0, "said"),))])

    def test_close(self) -> None:
        """What waits for its turn is said before the stream's end."""
        self.stream.start(Protocol())
        self.stream.note(GateNote(3))
        self.stream.loseWriteConnection()
        self.assertEqual([parse_gated(one)[0] for one in self.held.sent], [GateNote(3)])
