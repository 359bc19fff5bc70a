"""Whoever leads goes on from its own last write, whatever became of those before, or not at all."""

from __future__ import annotations

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.writer_position import ForeignRecord, WriterPosition
from svc.model.audit.ledger import ChainHead, ChainRow

DONE, KEPT, UNDONE = "done", "kept", "undone"
"""What became of a transaction: durable, durable without our hearing of it, or undone."""


@define
class Story:
    """A log, what this Authority does with it, and what somebody else puts behind it."""

    own: WriterPosition = field(factory=WriterPosition)
    log: list[ChainRow] = field(factory=list)
    made: int = 0

    @property
    def end(self) -> ChainHead:
        """Of the log."""
        return ChainHead() if not self.log else ChainHead(self.log[-1].seq, self.log[-1].hash)

    def rows(self, from_seq: int, limit: int) -> list[ChainRow]:
        """As a store gives them."""
        return [row for row in self.log if row.seq >= from_seq][:limit]

    def more(self, count: int) -> None:
        """So many records more, each unlike every other."""
        for _ in range(count):
            self.made += 1
            link = self.made.to_bytes(32, "big")
            self.log.append(
                ChainRow(seq=len(self.log) + 1, prev_hash=self.end.hash, hash=link, canonical=b"{}")
            )

    def write(self, count: int, outcome: str) -> None:
        """One transaction of ours; what became of it, and whether we heard."""
        before, length = self.end, len(self.log)
        self.own.require(before, self.rows)
        self.more(count)
        self.own.left(before, self.end)
        if outcome == DONE:
            self.own.committed(self.end)
        elif outcome != KEPT:
            del self.log[length:]


class OwnEndTests(SynchronousTestCase):
    """One Authority's end of the log."""

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from([DONE, KEPT, UNDONE]))),
        st.integers(0, 3),
    )
    def test_ours(self, story: list[tuple[int, str]], foreign: int) -> None:
        """No outcome of our own writes refuses the next; the first record of others is named."""
        told = Story()
        told.more(2)
        told.own.take_over(told.end)
        for count, outcome in story:
            told.write(count, outcome)
            self.assertTrue(told.own.is_ours(told.end))
        ours = told.end
        told.more(foreign)
        if not foreign:
            told.own.require(told.end, told.rows)
            return
        refused = self.assertRaises(ForeignRecord, told.own.require, told.end, told.rows)
        self.assertEqual(refused.reason, "audit_foreign_record")
        self.assertIn(f"record {ours.seq + 1} was not written by this Authority", refused.text)
        self.assertFalse(told.own.is_ours(told.end))

    def test_small(self) -> None:
        """What is remembered stays small, however often commits fail."""
        told = Story()
        told.own.take_over(told.end)
        for _ in range(50):
            told.write(1, UNDONE)
        self.assertEqual(len(told.own._unsure), 1)
        told.write(1, DONE)
        self.assertEqual(len(told.own._unsure), 0)

    def test_several_in_one_commit(self) -> None:
        """Writes that share a commit follow each other, and all are undone with it."""
        told = Story()
        told.own.take_over(told.end)
        told.write(1, DONE)
        told.write(2, KEPT)
        told.write(1, KEPT)
        del told.log[1:]  # the commit failed, and the same is tried again
        told.write(2, KEPT)
        told.write(1, KEPT)
        told.own.committed(told.end)
        told.write(1, DONE)
        self.assertEqual(told.own.known, told.end)

    def test_one_that_was_undone_is_not_there(self) -> None:
        """A record in the place of one of ours that was undone is somebody else's."""
        told = Story()
        told.own.take_over(told.end)
        told.write(1, UNDONE)
        told.more(1)
        self.assertRaises(ForeignRecord, told.own.require, told.end, told.rows)

    def test_before_it_leads(self) -> None:
        """Nothing is refused or signed before the log was taken over; then all that is there."""
        told = Story()
        told.more(3)
        told.own.require(told.end, told.rows)
        self.assertIsNone(told.own.to_sign)
        told.own.take_over(told.end)
        self.assertEqual(told.own.to_sign, told.end)
