"""What a Proxy may not make of a person's requests by what it leaves out, or does not decide."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.session.edits import Edit, StreamEdits
from svc.model.session.frames import FrameChecker, FrameTagger, read_tagged
from svc.model.session.gated import GatedReceiver, GateNote
from svc.model.session.ranges import (
    MAX_PENDING,
    RangeDecision,
    Request,
    RequestChain,
    RequestReader,
)

KEY = bytes(32)
LINES = b"one\ntwo\n#hi\nsix\n"
"""Of four bytes each; what begins with ``#`` needs no decision."""


class Lines:
    """A kind whose messages are lines."""

    def __init__(self) -> None:
        self.at = 0
        self.start = -1

    def feed(self, data: bytes, is_denied: Callable[[int], bool]) -> list[Request]:
        """See RequestReader; a decision is about five bytes of a line, or all of it."""
        found = []
        for byte in data:
            if self.start < 0:
                self.start, self.needs = self.at, byte != ord("#")
                found.append((self.start, self.needs, 0))
            self.at += 1
            if byte == ord("\n"):
                found.append((self.start, self.needs, min(self.at, self.start + 5)))
                self.start = -1
        return found


def allowed(n: int, offset: int, size: int = 4) -> RangeDecision:
    """A request that may pass."""
    return RangeDecision(n, offset, size, allowed=True)


def denied(n: int, offset: int, size: int = 4) -> RangeDecision:
    """One that may not."""
    return RangeDecision(n, offset, size, allowed=False)


def drop(offset: int, size: int) -> Edit:
    """An edit that removes."""
    return Edit(offset, size, "drop")


class RangeTests(SynchronousTestCase):
    def received(
        self, *notes: GateNote, data: bytes = LINES, reader: RequestReader | None = None
    ) -> bytes:
        edits = {"drop": lambda came, values: b"", "no": lambda came, values: b"NO\n"}
        chain = RequestChain("1" * 32, reader)
        receiver = GatedReceiver(FrameChecker(KEY), StreamEdits(edits), chain)
        receiver.frame(read_tagged(b"".join(FrameTagger(KEY).data(data))))
        heard = b""
        for note in notes:
            receiver.note(note)
            heard += receiver.released()
        return heard

    def refused(
        self, *notes: GateNote, data: bytes = LINES, reader: RequestReader | None = None
    ) -> str:
        def doing() -> None:
            self.received(*notes, data=data, reader=reader)

        return str(self.assertRaises(Malformed, doing).reason)

    def test_leaves_out_a_part_of_what_was_allowed(self) -> None:
        """No other request can be made of a person's by an edit of its bytes."""
        for edit in (drop(1, 2), drop(2, 2), drop(0, 1)):
            for reader in (None, Lines()):
                note = GateNote(8, (allowed(1, 0), allowed(2, 4)), (edit,))
                self.assertEqual(self.refused(note, reader=reader), "decision_refused")

    def test_replaces_what_was_not_denied(self) -> None:
        """Something takes the place of one denied request alone, and nothing is added."""
        for edit in (Edit(0, 4, "no"), Edit(4, 8, "no")):
            for reader in (None, Lines()):
                note = GateNote(16, (allowed(1, 0), denied(2, 4)), (edit,))
                self.assertEqual(self.refused(note, reader=reader), "decision_refused")
        self.assertEqual(self.refused(GateNote(0, (), (Edit(0, 0, "no"),))), "edit_refused")

    def test_leaves_out_whole_requests(self) -> None:
        """One that no denial is about, alone or after a denied one: nothing passes after it."""
        for first in ((allowed(1, 0), drop(4, 4)), (denied(1, 0), drop(0, 8))):
            for reader in (None, Lines()):
                notes = GateNote(8, first[:1], first[1:]), GateNote(16, (allowed(2, 12),))
                self.assertEqual(self.refused(*notes, reader=reader), "decision_refused")
        note = GateNote(8, (allowed(1, 0),), (drop(4, 4),))
        self.assertEqual(self.received(note, reader=Lines()), b"one\n")

    def test_a_denied_request_is_whole(self) -> None:
        """Its range may be its beginning; its rest is removed, and can be nobody's request."""
        data = b"one one\ntwo\n"
        note = GateNote(12, (denied(1, 0, 5), allowed(2, 8)), (Edit(0, 5, "no"), drop(5, 3)))
        self.assertEqual(self.received(note, data=data, reader=Lines()), b"NO\ntwo\n")
        for edits in ((Edit(0, 5, "no"),), (Edit(0, 5, "no"), drop(5, 1))):
            note = GateNote(8, (denied(1, 0, 5),), edits)
            self.assertEqual(self.refused(note, data=data, reader=Lines()), "decision_refused")

    def test_ranges_are_of_one_request(self) -> None:
        """Not amid one, and not over the beginning of another."""
        for decisions, edits in (
            ((allowed(1, 0, 8),), ()),
            ((allowed(1, 0), allowed(2, 5, 3)), ()),
            ((denied(1, 0, 8),), (drop(0, 8),)),
            ((allowed(1, 0, 2), denied(2, 2, 2)), (drop(2, 2),)),
        ):
            note = GateNote(12, decisions, edits)
            reason = self.refused(note, reader=Lines())
            self.assertIn(reason, {"decision_refused", "decision_missing"})

    def test_a_part_of_a_request(self) -> None:
        """A range reaches the end of what the kind decides of a message, allowed or denied."""
        for data in (LINES, b"one one\ntwo\n"):
            end = data.index(b"\n") + 1
            for size in (1, min(end, 5) - 1):
                note = GateNote(end, (allowed(1, 0, size),))
                self.assertEqual(self.refused(note, data=data, reader=Lines()), "decision_refused")
                edits = Edit(0, size, "no"), drop(size, end - size)
                note = GateNote(end, (denied(1, 0, size),), edits)
                self.assertEqual(self.refused(note, data=data, reader=Lines()), "decision_refused")
            note = GateNote(end, (allowed(1, 0, min(end, 5)),))
            self.assertEqual(self.received(note, data=data, reader=Lines()), data[:end])

    def test_a_request_that_comes_in_pieces(self) -> None:
        """That a range is too short shows with the end of what is decided, which does not pass."""
        notes = GateNote(2, (allowed(1, 0, 2),)), GateNote(3)
        self.assertEqual(self.received(*notes, reader=Lines()), b"one")
        self.assertEqual(self.refused(*notes, GateNote(4), reader=Lines()), "decision_refused")

    def test_no_decision(self) -> None:
        """A request that needs one does not pass without it."""
        reason = self.refused(GateNote(4), reader=Lines())
        self.assertEqual(reason, "decision_missing")
        reason = self.refused(GateNote(16, (allowed(1, 0), allowed(2, 4))), reader=Lines())
        self.assertEqual(reason, "decision_missing")
        note = GateNote(16, (allowed(1, 0), allowed(2, 4), allowed(3, 12)))
        self.assertEqual(self.received(note, reader=Lines()), LINES)

    def test_no_bytes(self) -> None:
        """A decision about nothing lets no request pass: its record would name no frame."""
        note = GateNote(4, (allowed(1, 0, 0),))
        self.assertEqual(self.refused(note, reader=Lines()), "decision_refused")

    def test_bounded(self) -> None:
        """Ranges do not overlap, and are not held without end."""
        for again in (denied(2, 3), allowed(2, 0)):
            self.assertEqual(self.refused(GateNote(0, (allowed(1, 0), again))), "decision_refused")
        chain = RequestChain("1" * 32)
        for n in range(1, MAX_PENDING + 1):
            chain.announce(denied(n, n, 1), 9999)
            chain.settle(9999)
        last = denied(MAX_PENDING + 1, MAX_PENDING + 1, 1)
        self.assertRaises(Malformed, chain.announce, last, 9999)
