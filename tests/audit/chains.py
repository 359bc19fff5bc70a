"""What tests of the verifier share: a log in memory, and what is said against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.verify import ChainFault, PersonalOf, Verified, follow, verified_ranges, verify
from svc.model.audit.ledger import ChainRow
from svc.model.audit.record import GENESIS, SignedHead
from tests.audit.logs import MemoryLog, heads_over, short_record, verify_head

ROWS = 100
SIZES = (1, 20, 33, ROWS)


class ChainCase(SynchronousTestCase):
    """A hundred records and four heads over them."""

    def setUp(self) -> None:
        self.memory = MemoryLog()
        self.memory.fill(ROWS, short_record)
        self.rows = self.memory.log
        self.heads = heads_over(self.rows, *SIZES)

    def check(
        self,
        rows: Sequence[ChainRow],
        heads: Iterable[SignedHead] | None = None,
        personal_of: PersonalOf | None = None,
    ) -> Verified:
        """Verify in batches of seven."""
        return verify(
            verified_ranges(
                (rows[at : at + 7] for at in range(0, len(rows), 7)),
                personal_of or self.memory.personal_of,
            ),
            self.heads if heads is None else heads,
            verify_head,
        )

    def assertFault(self, seq: int, kind: str, *args: object, **kwargs: object) -> None:
        """These rows and heads are refused at this record for this reason."""
        fault = self.assertRaises(ChainFault, self.check, *args, **kwargs)
        self.assertEqual((fault.seq, fault.kind), (seq, kind), str(fault))
        self.assertEqual(fault.exit_code, 6)

    def assertStep(self, kind: str, row: ChainRow, seq: int) -> None:
        """*row* is refused as the record *seq*."""
        last = self.rows[seq - 2].hash if seq > 1 else GENESIS
        fault = self.assertRaises(ChainFault, follow, row, seq, last)
        self.assertEqual((fault.seq, fault.kind), (seq, kind))
