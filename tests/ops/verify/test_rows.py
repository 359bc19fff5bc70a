"""A log that several processes check is judged as one process would."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from itertools import chain
from multiprocessing import active_children
from pathlib import Path

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import TestCase

from svc.audit.log.record import Sealer
from svc.audit.log.verify import ChainFault, Verified, VerifiedRange, verified_ranges, verify
from svc.errors import AuditBroken
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.record import chain_hash
from svc.ops.store import StorePlace
from svc.ops.verify.rows import batches, checked_in_parallel, personal_of
from svc.plugins.store_sqlite import store_sqlite
from tests.audit.logs import FACTS, MemoryLog, heads_over, record, verify_head
from tests.store.places import real_needs

ROWS = 60
TURN = 7

CHANGES = (
    "UPDATE audit_log SET canonical = replace(canonical, 'connect', 'convect')",
    "UPDATE audit_log SET prev_hash = randomblob(32)",
    "UPDATE audit_log SET hash = zeroblob(32)",
    "UPDATE audit_log SET seq = seq + 100",
    "DELETE FROM audit_log",
    "UPDATE personal_values SET value = '\"other\"'",
    "UPDATE audit_log SET canonical = CAST(x'7b2261223a22ff227d' AS TEXT)",
)
MORE_CHANGES = (
    *CHANGES,
    "UPDATE audit_log SET canonical = canonical || ' '",
    "UPDATE audit_log SET signature = zeroblob(64)",
    "UPDATE audit_log SET hash = 'no bytes'",
    "UPDATE audit_log SET canonical = '{}'",
    "UPDATE audit_log SET canonical = 'null'",
    "UPDATE personal_values SET salt = zeroblob(16)",
    "UPDATE personal_values SET salt = zeroblob(15)",
    "UPDATE personal_values SET path = 'details.else.where'",
    "UPDATE personal_values SET value = value || ' '",
)


class ParallelTests(TestCase):
    """Three processes by turns of seven records, over a store in a file."""

    async def setUp(self) -> None:  # type: ignore[override]
        self.file = Path(self.mktemp()).absolute()
        url = f"sqlite://{self.file}"
        store_sqlite.migrate(url, "test", lambda: 0.0, lambda: 0.0)
        memory = MemoryLog()
        sealer = Sealer(memory.entropy, FACTS)
        store: IStore = store_sqlite.open(url, evolve(real_needs(), chain_hash=chain_hash))

        def fill(tx: ITransaction) -> None:
            for n in range(1, ROWS + 1):
                sealed = sealer.seal(record(n))
                tx.audit.append(sealed.canonical, sealed.personal)

        await store.run("fill", fill)
        rows = await store.read("rows", lambda tx: tx.audit.rows(1, ROWS))
        await store.close()
        self.heads = heads_over(list(rows), 1, TURN, TURN + 1, 33, ROWS)
        self.place = StorePlace(store_sqlite, url)

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

    def change(self, statement: str, *values: object) -> None:
        with sqlite3.connect(self.file) as store:
            store.execute("PRAGMA foreign_keys = OFF")
            store.execute(statement, values)
        store.close()

    def test_whole(self) -> None:
        """What one process verifies three verify, and none of them is left."""
        self.assertEqual(self.in_three(), self.in_one())
        self.assertEqual(self.in_three().records, ROWS)
        self.assertEqual(active_children(), [])

    def test_changed(self) -> None:
        """Whatever is changed at the border of a turn or inside, both name it alike."""
        for seq in (1, TURN, TURN + 1, 30, ROWS):
            for change in CHANGES:
                kept = self.file.read_bytes()
                self.change(f"{change} WHERE seq = ?", seq)
                one = self.assertRaises(AuditBroken, self.in_one)
                three = self.assertRaises(AuditBroken, self.in_three)
                self.assertEqual(three.text, one.text, (change, seq))
                self.file.write_bytes(kept)
        self.assertEqual(self.in_three(), self.in_one())

    @settings(max_examples=12, deadline=None)
    @given(
        changes=st.lists(
            st.tuples(st.sampled_from(MORE_CHANGES), st.integers(1, ROWS)), min_size=1, max_size=3
        ),
        turn=st.integers(1, ROWS + 1),
        jobs=st.integers(1, 3),
    )
    def test_any_change(self, changes: list[tuple[str, int]], turn: int, jobs: int) -> None:
        """Whatever is changed and wherever turns begin, several name it as one does."""
        kept = self.file.read_bytes()
        try:
            for change, seq in changes:
                with contextlib.suppress(sqlite3.IntegrityError):
                    self.change(f"{change} WHERE seq = ?", seq)
            self.assertEqual(
                said(lambda: self.in_three(turn, jobs)), said(self.in_one), (changes, turn, jobs)
            )
        finally:
            self.file.write_bytes(kept)

    def test_stopped(self) -> None:
        """The work of processes that hang is done by the one that waits for them."""
        with checked_in_parallel(self.place, ROWS, 3, TURN, patience=0.1) as checked:
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
