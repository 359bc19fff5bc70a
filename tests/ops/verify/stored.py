"""A log of sixty records in a file, that tests read by turns of seven and change."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import evolve
from hypothesis import strategies as st
from twisted.trial.unittest import TestCase

from svc.audit.log.record import Sealer
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.record import chain_hash
from svc.ops.store import StorePlace
from svc.plugins.store_sqlite import store_sqlite
from tests.audit.logs import FACTS, MemoryLog, heads_over, record
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
SOME_CHANGES = st.lists(
    st.tuples(st.sampled_from(MORE_CHANGES), st.integers(1, ROWS)), min_size=1, max_size=3
)
"""Statements, each with the number of the record that it changes."""


class StoredLogTests(TestCase):
    """What each test has: the file, the store in it, and heads over its records."""

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

    def change(self, statement: str, *values: object) -> None:
        # Closed also where the change is refused: else the file is written over under its log.
        with contextlib.closing(sqlite3.connect(self.file)) as store, store:
            store.execute("PRAGMA foreign_keys = OFF")
            store.execute(statement, values)

    @contextlib.contextmanager
    def changed(self, changes: Iterable[tuple[str, int]]) -> Iterator[None]:
        """The file with some of SOME_CHANGES; then as it was."""
        kept = self.file.read_bytes()
        try:
            for change, seq in changes:
                with contextlib.suppress(sqlite3.IntegrityError):
                    self.change(f"{change} WHERE seq = ?", seq)
            yield
        finally:
            self.file.write_bytes(kept)
