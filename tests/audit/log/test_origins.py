"""Records that others wrote, as an outsider verifies them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.origins import OriginCheck
from svc.audit.log.verify import ChainFault
from svc.model.audit.ledger import ChainRow
from svc.model.audit.spool import SpoolRow
from tests.authority.house import House, value_of
from tests.authority.spools import Leader, Origin


class OriginCheckTests(SynchronousTestCase):
    """The log of a leader that drained a spool."""

    def setUp(self) -> None:
        house = House()
        leader, self.origin = Leader(house), Origin(house, "edge7")
        rows = [self.origin.first, *(self.origin.noted() for _ in range(4))]
        leader.inject(*rows[:2], *rows[3:], rows[2])
        leader.drain()
        self.rows: Sequence[ChainRow] = value_of(
            house.store.store.read("all", lambda tx: tx.audit.rows(1, 999))
        )
        self.first = next(at for at, row in enumerate(self.rows) if row.signature)

    def check(self, rows: Sequence[ChainRow], keyed: bool = True) -> int:
        """How many records of others are good."""
        key = self.origin.key.public_key().public_bytes_raw()
        known = (self.origin.id, self.origin.maker.key_id)
        check = OriginCheck(lambda *asked: key if asked == known and keyed else None)
        check.check([rows], rows[-1].seq)
        return check.records

    def fault(self, at: int, row: ChainRow, keyed: bool = True) -> str:
        """What is said of the log with another row in that place."""
        at += self.first
        rows = [*self.rows[:at], row, *self.rows[at + 1 :]]
        found = self.assertRaises(ChainFault, self.check, rows, keyed)
        self.assertEqual((found.seq, found.kind), (rows[at].seq, "origin"))
        return str(found.what)

    def test_good(self) -> None:
        """Rows in any order of arrival are good; rows past the end asked for are not looked at."""
        self.assertEqual(self.check(self.rows), 5)
        OriginCheck(lambda *asked: None).check([self.rows], self.first)

    def test_faults(self) -> None:
        """A signature changed, gone or too many, a stranger's key, a row twice: each is named."""
        good = self.rows[self.first + 1]
        self.assertIn("signature", self.fault(1, evolve(good, signature=b"")))
        self.assertIn("signature", self.fault(1, evolve(good, signature=bytes(64))))
        other = Origin(House(), "edge8").signed(SpoolRow(good.canonical), good.canonical)
        self.assertIn("signature", self.fault(1, evolve(good, signature=other.signature)))
        for bit in (0, 255, 511):
            raw = bytearray(good.signature)
            raw[bit // 8] ^= 1 << bit % 8
            self.assertIn("signature", self.fault(1, evolve(good, signature=bytes(raw))))
        changed = good.canonical.replace(b'"db1"', b'"db2"', 1)
        self.assertIn("signature", self.fault(1, evolve(good, canonical=changed)))
        self.assertIn("key", self.fault(0, self.rows[self.first], keyed=False))
        plain = evolve(self.rows[0], seq=good.seq, signature=good.signature)
        self.assertIn("place", self.fault(1, plain))
        last = self.rows[-1]
        again = evolve(self.rows[-2], seq=last.seq)
        self.assertIn("twice", self.fault(len(self.rows) - 1 - self.first, again))
