"""The memory of a spool: exact, of fixed size, and bound to what its rows say of each other."""

from __future__ import annotations

from hashlib import sha256

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.ledger import GENESIS
from svc.model.audit.replay import (
    GAP_SECS,
    MAX_HOLES,
    Hole,
    RowStanding,
    SpoolMemory,
    accept,
    announce,
    beside,
    due,
    ranges,
)

ROWS = 24
numbers = st.integers(1, ROWS)
deliveries = st.lists(st.tuples(numbers, st.sampled_from(["true", "prev", "hash"])), max_size=60)


def hash_of(n: int) -> bytes:
    """The row *n* of the one true history."""
    return sha256(b"%d" % n).digest() if n else GENESIS


def arrive(memory: SpoolMemory, n: int, at: float = 0.0, most: int | None = None) -> SpoolMemory:
    """The memory after the true row *n*, which is new to it."""
    assert memory.standing(n, hash_of(n - 1), hash_of(n)) is RowStanding.NEW
    return accept(memory, n, hash_of(n - 1), hash_of(n), at, most).memory


def after(*rows: int) -> SpoolMemory:
    """The memory after these rows, in that order."""
    memory = SpoolMemory()
    for n in rows:
        memory = arrive(memory, n)
    return memory


class OracleTests(SynchronousTestCase):
    """The memory beside a set of all that was accepted."""

    @given(deliveries=deliveries)
    def test_exact(self, deliveries: list[tuple[int, str]]) -> None:
        """It says of each row what a memory of every single row would say."""
        memory, accepted = SpoolMemory(), set[int]()
        for n, sort in deliveries:
            prev = b"another" if sort == "prev" else hash_of(n - 1)
            row = b"another" if sort == "hash" else hash_of(n)
            standing = memory.standing(n, prev, row)
            self.assertIs(standing, self.expected(accepted, n, sort))
            if standing is RowStanding.NEW and sort == "true":
                memory = accept(memory, n, prev, row, 0.0, None).memory
                accepted.add(n)
        high = max(accepted, default=0)
        missing = [n for n in range(1, high) if n not in accepted]
        self.assertEqual(memory.high, high)
        self.assertEqual([(hole.first, hole.last) for hole in memory.holes], ranges(missing))
        self.assertEqual(memory.whole, min(missing, default=high + 1) - 1)
        for n in range(ROWS + 2):
            last = n
            while last + 1 in accepted:
                last += 1
            self.assertEqual(memory.through(n), last)

    @staticmethod
    def expected(accepted: set[int], n: int, sort: str) -> RowStanding:
        """What the set says."""
        if n in accepted:
            return RowStanding.REPLAYED
        if sort == "prev" and (n == 1 or n - 1 in accepted):
            return RowStanding.BROKEN
        if sort == "hash" and n + 1 in accepted:
            return RowStanding.BROKEN
        return RowStanding.NEW

    @given(order=st.permutations(range(1, ROWS + 1)), most=st.integers(1, 4))
    def test_bounded(self, order: list[int], most: int) -> None:
        """Whatever comes, so many holes are kept, and no row is accepted twice."""
        memory, accepted = SpoolMemory(), set[int]()
        given_up: list[Hole] = []
        for n in (*order, *order):
            standing = memory.standing(n, hash_of(n - 1), hash_of(n))
            if standing is RowStanding.NEW:
                self.assertNotIn(n, accepted)
                result = accept(memory, n, hash_of(n - 1), hash_of(n), float(n), most)
                memory = result.memory
                accepted.add(n)
                given_up += [result.given_up] if result.given_up is not None else []
            else:
                lost = any(hole.first <= n <= hole.last for hole in given_up)
                self.assertTrue(n in accepted or lost)
            self.assertLessEqual(len(memory.holes), most)
            self.assertTrue(set(range(1, memory.whole + 1)) <= accepted)


class MemoryTests(SynchronousTestCase):
    """What else it remembers."""

    def test_a_hole_is_due_once(self) -> None:
        """A hole that stays ten minutes is told once; each part of it stays told."""
        memory = arrive(after(1), 9, at=100.0)
        self.assertEqual(due(memory, 99.9 + GAP_SECS), (memory, ()))
        memory, (hole,) = due(memory, 100.0 + GAP_SECS)
        self.assertEqual((hole.first, hole.last, hole.count), (2, 8, 7))
        self.assertEqual(due(memory, 1e9), (memory, ()))
        late = accept(memory, 5, hash_of(4), hash_of(5), 1e6)
        self.assertTrue(late.filled)
        self.assertEqual([hole.is_recorded for hole in late.memory.holes], [True, True])
        self.assertFalse(accept(late.memory, 10, hash_of(9), hash_of(10), 1e6).filled)

    def test_what_is_announced_is_awaited(self) -> None:
        """Rows that the origin says it still has are missing until they come."""
        memory = announce(after(1, 2), 5, 7.0).memory
        self.assertEqual((memory.whole, memory.high), (2, 5))
        self.assertIs(memory.standing(3, b"another", hash_of(3)), RowStanding.BROKEN)
        for n in (5, 3, 4):
            memory = arrive(memory, n)
        self.assertEqual(memory, after(1, 2, 3, 4, 5))
        self.assertEqual(announce(memory, 4, 9.0).memory, memory)
        unknown = announce(SpoolMemory(), 3, 7.0).memory
        self.assertEqual([(hole.first, hole.last) for hole in unknown.holes], [(1, 3)])
        for last in range(4, 4 + 2 * MAX_HOLES):
            unknown = announce(unknown, last, 7.0).memory
        self.assertLessEqual(len(unknown.holes), MAX_HOLES)

    def test_rows_beside_what_is_announced(self) -> None:
        """Whichever of two rows comes first, the other one must fit it, announced or not."""
        announced = announce(after(1), 5, 7.0).memory
        behind = arrive(announced, 6)
        self.assertIs(behind.standing(5, hash_of(4), b"another"), RowStanding.BROKEN)
        further = arrive(announced, 8)
        self.assertIs(arrive(further, 5).standing(6, b"another", hash_of(6)), RowStanding.BROKEN)
        self.assertIs(arrive(further, 6).standing(5, hash_of(4), b"another"), RowStanding.BROKEN)
        late = beside(further, 5, hash_of(4), hash_of(5))
        self.assertIs(late.standing(6, b"another", hash_of(6)), RowStanding.BROKEN)
        top = beside(announced, 5, hash_of(4), hash_of(5))
        self.assertIs(top.standing(6, b"another", hash_of(6)), RowStanding.BROKEN)

    def test_the_end(self) -> None:
        """Nothing follows the row that closed a spool; what is missing before it may come."""
        memory = evolve(after(1, 3), closed=3)
        self.assertIs(memory.standing(4, hash_of(3), hash_of(4)), RowStanding.BROKEN)
        self.assertIs(memory.standing(2, hash_of(1), hash_of(2)), RowStanding.NEW)

    def test_the_oldest_hole_is_given_up(self) -> None:
        """Past the limit the oldest hole counts as settled, and nothing past it as whole."""
        memory = SpoolMemory()
        for at, n in enumerate((2, 4, 6)):
            memory = arrive(memory, n, at=float(at))
        memory = arrive(memory, 7)
        result = accept(memory, 9, hash_of(8), hash_of(9), 9.0, most=3)
        assert result.given_up is not None
        self.assertEqual((result.given_up.first, result.given_up.last), (1, 1))
        self.assertIs(result.memory.standing(1, GENESIS, hash_of(1)), RowStanding.REPLAYED)
        self.assertEqual(result.memory.whole, 0)

    def test_ranges(self) -> None:
        """Numbers in any order as ranges."""
        self.assertEqual(ranges([5, 1, 2, 9, 3, 5]), [(1, 3), (5, 5), (9, 9)])
        self.assertEqual(ranges([]), [])
