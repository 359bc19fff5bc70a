"""What an operator lets into the log: whatever it is, ``audit verify`` passes afterwards."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.origins import OriginCheck
from svc.errors import SvcError
from svc.model.audit.record import Actor
from svc.model.audit.replay import MAX_HOLES
from svc.model.audit.spool import SpoolRow, row_hash
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.house import House, refusal_of, value_of
from tests.authority.spools import Leader, Origin

OPERATOR = Actor("operator", "local:0")
EXAMPLES = 300 if os.environ.get("SVC_LONG") == "1" else 8
LAST = 2 * MAX_HOLES + 3
"""Every second row up to here is a hole more than the memory of a spool keeps: the first
one is given up."""

_rows = st.tuples(
    st.booleans(), st.sampled_from([2, 4, LAST - 2, LAST, LAST + 1, LAST + 2, LAST + 3])
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("inject"), st.lists(_rows, min_size=1, max_size=4)),
        st.tuples(st.just("send"), st.lists(_rows, min_size=1, max_size=4)),
        st.tuples(st.just("release"), st.integers(0, 5)),
        st.tuples(st.just("discard"), st.integers(0, 5)),
        st.tuples(st.just("announce"), st.sampled_from([4, LAST, LAST + 2])),
    ),
    min_size=2,
    max_size=12,
)


class Histories:
    """A spool of which one key signed two histories that part at row *fork*; most has come."""

    def __init__(self, leader: Leader, origin: Origin, fork: int) -> None:
        self.leader, self.origin = leader, origin
        origin.begin()
        self.spool_id = origin.spool_id
        self.true = [origin.first, *(origin.noted() for _ in range(LAST + 2))]
        origin.last, origin.tip = fork - 1, row_hash(self.true[fork - 2].canonical)
        self.false = [
            *self.true[: fork - 1],
            *(origin.noted("other") for _ in range(LAST + 4 - fork)),
        ]
        self.size = self.log_size()
        leader.inject(*self.true[:LAST:2])
        leader.drain()

    def log_size(self) -> int:
        """How many records there are."""
        size: int = value_of(
            self.leader.house.store.store.read("size", lambda tx: tx.audit.head())
        ).seq
        return size

    def row(self, is_true: bool, n: int) -> SpoolRow:
        """Row *n* of one history."""
        return (self.true if is_true else self.false)[n - 1]

    def admin(self, release: bool, at: int) -> bool:
        """Let a held row go, or throw it away; whether that was done."""
        rows = [row for row in self.leader.queue() if row.hold is not None]
        if not rows:
            return False
        row_id = rows[at % len(rows)].id
        try:
            if release:
                request = pb.ReleaseRowRequest(id=row_id, note="a test")
                value_of(self.leader.admin.release(request, OPERATOR))
            else:
                discard = pb.DiscardRowRequest(id=row_id, note="a test")
                value_of(self.leader.admin.discard(discard, OPERATOR))
        except SvcError as refused:
            assert refused.reason == "row_not_releasable", refused
            return False
        return True

    def check(self) -> int:
        """What ``audit verify`` counts of the records that came since; it raises ChainFault."""
        first = self.size + 1
        chain = value_of(
            self.leader.house.store.store.read("all", lambda tx: tx.audit.rows(first, 9999))
        )
        key = self.origin.key.public_key().public_bytes_raw()
        known = (self.origin.id, self.origin.maker.key_id)
        check = OriginCheck(lambda *asked: key if asked == known else None)
        check.check([chain], chain[-1].seq)
        return check.records


class ReleaseTests(SynchronousTestCase):
    """A leader, and a Proxy whose key somebody else has, too."""

    def setUp(self) -> None:
        self.house = House()
        self.leader = Leader(self.house)
        self.origin = Origin(self.house, "edge7")

    def empty(self) -> None:
        """The queue, for the next example."""
        ids = [row.id for row in self.leader.queue()]
        value_of(self.house.store.store.run("empty", lambda tx: tx.outbox.drop(ids)))

    def refusal(self, row: SpoolRow) -> SvcError:
        """Of letting that row go, which the leader holds."""
        self.leader.inject(row)
        self.leader.drain()
        held = self.leader.queue()[-1]
        self.assertIsNotNone(held.hold)
        request = pb.ReleaseRowRequest(id=held.id, note="why")
        return refusal_of(self.leader.admin.release(request, OPERATOR))

    @given(fork=st.sampled_from([2, LAST - 2, LAST, LAST + 1]), steps=_steps)
    @settings(max_examples=EXAMPLES)
    def test_whatever_is_released(self, fork: int, steps: list[tuple[str, object]]) -> None:
        """However rows come, are held, thrown away and let go: the log verifies."""
        spool = Histories(self.leader, self.origin, fork)
        for step, what in steps:
            if step == "announce":
                self.leader.inject(self.origin.begin(f"{spool.spool_id}:{what}"))
            elif isinstance(what, int):
                spool.admin(step == "release", what)
            elif isinstance(what, list):
                rows = [spool.row(*one) for one in what]
                if step == "inject":
                    self.leader.inject(*rows)
                else:
                    proxy = self.house.row(self.origin.holder)
                    value_of(self.leader.intake.take(proxy, spool.spool_id, rows))
            self.leader.drain()
        spool.check()
        self.empty()

    def test_a_row_of_a_hole_that_was_given_up(self) -> None:
        """It is let go where it fits the rows beside it in the log, before it and behind it."""
        spool = Histories(self.leader, self.origin, 2)
        for n in (2, LAST - 2):
            self.assertIn("row_not_releasable", self.refusal(spool.row(False, n)).reason)
        refused = self.refusal(spool.row(False, 2))
        self.assertIn("discard", refused.text)
        before = spool.check()
        self.leader.inject(spool.row(True, 2))
        self.leader.drain()
        self.assertTrue(spool.admin(True, -1))
        self.assertEqual(spool.check(), before + 1)
