"""A log that several processes check is judged as one process would."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from itertools import chain
from multiprocessing import active_children

from hypothesis import given, settings
from hypothesis import strategies as st

from svc.audit.log.verify import ChainFault, Verified, VerifiedRange, verified_ranges, verify
from svc.errors import AuditBroken
from svc.interfaces.store import ITransaction
from svc.ops.verify.rows import batches, checked_in_parallel, checked_rows, personal_of
from tests.audit.logs import verify_head
from tests.ops.verify.stored import CHANGES, ROWS, SOME_CHANGES, TURN, StoredLogTests

IS_LONG = os.environ.get("SVC_LONG") == "1"


class ParallelTests(StoredLogTests):
    """Three processes by turns of seven records, over a store in a file."""

    def in_one(self) -> Verified:
        def look(tx: ITransaction) -> Verified:
            return verify(
                verified_ranges(batches(tx.audit), personal_of(tx.audit)), self.heads, verify_head
            )

        return self.place.look("verify", look)

    def in_three(self, turn: int = TURN, jobs: int = 3) -> Verified:
        size = self.place.look("end", lambda tx: tx.audit.head().seq)
        with checked_in_parallel(self.place, size, jobs, turn) as checked:
            return verify(checked, self.heads, verify_head)

    def at_once(self) -> Verified:
        def look(tx: ITransaction) -> Verified:
            return verify(checked_rows(tx), self.heads, verify_head)

        return self.place.look("verify", look)

    def test_whole(self) -> None:
        """What one process verifies three verify, and none of them is left."""
        self.assertEqual(self.at_once(), self.in_one())
        self.assertEqual(self.in_three(), self.in_one())
        self.assertEqual(self.in_three().records, ROWS)
        self.assertEqual(active_children(), [])

    def test_changed(self) -> None:
        """Whatever is changed at the border of a turn or inside, both name it alike."""
        for seq in (1, TURN, TURN + 1, 30, ROWS) if IS_LONG else (TURN, TURN + 1):
            for change in CHANGES:
                kept = self.file.read_bytes()
                self.change(f"{change} WHERE seq = ?", seq)
                one = self.assertRaises(AuditBroken, self.in_one)
                three = self.assertRaises(AuditBroken, self.in_three)
                at_once = self.assertRaises(AuditBroken, self.at_once)
                self.assertEqual(three.text, one.text, (change, seq))
                self.assertEqual(at_once.text, one.text, (change, seq))
                self.file.write_bytes(kept)
        self.assertEqual(self.in_three(), self.in_one())

    @settings(max_examples=12, deadline=None)
    @given(changes=SOME_CHANGES, turn=st.integers(1, ROWS + 1), jobs=st.integers(1, 3))
    def test_any_change(self, changes: list[tuple[str, int]], turn: int, jobs: int) -> None:
        """Whatever is changed and wherever turns begin, several name it as one does."""
        with self.changed(changes):
            one, where = said(self.in_one), (changes, turn, jobs)
            self.assertEqual(said(lambda: self.in_three(turn, jobs)), one, where)
            self.assertEqual(said(self.at_once), one, where)

    def test_stopped(self) -> None:
        """The work of processes that hang is done by the one that waits for them."""
        with checked_in_parallel(self.place, ROWS, 3, TURN, timeout=0.1) as checked:
            one = next(checked)
            for worker in active_children():
                assert worker.pid is not None
                os.kill(worker.pid, signal.SIGSTOP)
            rest = chain([one], checked)
            self.assertEqual(verify(rest, self.heads, verify_head), self.in_one())
            for worker in active_children():
                assert worker.pid is not None
                os.kill(worker.pid, signal.SIGCONT)
        self.assertEqual(active_children(), [])

    def test_killed(self) -> None:
        """The work of a process that is killed is done by the one that waits for it."""
        with checked_in_parallel(self.place, ROWS, 3, TURN) as checked:
            self.assertEqual(verify(self.killing(checked), self.heads, verify_head), self.in_one())

    def killing(self, checked: Iterator[VerifiedRange]) -> Iterator[VerifiedRange]:
        yield next(checked)
        for worker in active_children():
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
        yield from checked

    def test_given_up(self) -> None:
        """At the first fault everything ends, though no turn after it was taken."""
        self.change("DELETE FROM audit_log WHERE seq = 2")
        self.assertRaises(ChainFault, self.in_three)
        self.assertEqual(active_children(), [])


def said(call: Callable[[], Verified]) -> Verified | tuple[str, object, object, int]:
    """What verifying found; of a fault its text, record, kind and exit status."""
    try:
        return call()
    except AuditBroken as broken:
        return broken.text, broken.seq, broken.kind, broken.exit_code
