"""Rows of a real node, put into the audit queue of a store by SQL."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import define, field
from cryptography.hazmat.primitives.asymmetric import ed25519

from svc.audit.log.record import Sealer
from svc.audit.spool.rows import RowMaker
from svc.model.audit.events import REFUSALS_SUMMARY
from svc.model.audit.ledger import GENESIS
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.spool import SpoolPlace, SpoolRow, row_digest, row_hash
from svc.model.ids import event_id, random_id
from svc.pki.identity_store import IdentityStore
from tests.support.postgres import connected

_COLUMNS = "id, origin, spool_id, n, record, personal, key_id, signature, digest, size, queued_at"


@define
class Spool:
    """A spool of a node, made with the key that it enrolled."""

    origin: str
    key: ed25519.Ed25519PrivateKey
    spool_id: str = field(factory=lambda: random_id(os.urandom))
    rows: list[SpoolRow] = field(factory=list)
    _tip: bytes = GENESIS

    @classmethod
    def of_node(cls, node_id: str, state: Path) -> Spool:
        """Of the node whose state directory this is."""
        return cls(node_id, IdentityStore(state).audit_key())

    def fill(self, count: int) -> list[SpoolRow]:
        """A whole spool of so many rows, its announcement and end included."""
        maker = RowMaker(
            origin=self.origin,
            key=self.key,
            sealer=Sealer(os.urandom),
            now=time.time,
            entropy=os.urandom,
        )
        self._add(maker, maker.opening(self.spool_id, ()))
        actor = Actor("node", self.origin)
        for number in range(count - 2):
            at = time.time()
            self._add(
                maker,
                AuditRecord(
                    event_id=event_id(at, os.urandom),
                    time=at,
                    event=REFUSALS_SUMMARY,
                    actor=actor,
                    origin=self.origin,
                    reason="opens",
                    details={"count": number + 1, "proxy_id": self.origin},
                ),
            )
        self._add(maker, maker.closing(self.spool_id, count))
        return self.rows

    def _add(self, maker: RowMaker, record: AuditRecord) -> None:
        place = SpoolPlace(self.spool_id, len(self.rows) + 1, self._tip)
        row = maker.row(record, place)
        self.rows.append(row)
        self._tip = row_hash(row.canonical)

    def queue(self, rows: Sequence[SpoolRow], store: Path | str) -> None:
        """Put *rows* into the queue of a store: a file, or a database by its URL."""
        first = self.rows.index(rows[0]) + 1 if rows[0] in self.rows else 1
        values = [
            (
                self.origin,
                self.spool_id,
                first + at,
                row.canonical,
                b"",
                row.key_id.encode(),
                row.signature,
                row_digest(row),
                len(row.canonical),
                time.time(),
            )
            for at, row in enumerate(rows)
        ]
        if isinstance(store, Path):
            with closing(sqlite3.connect(store, timeout=10)) as connection, connection:
                _insert(connection, values, "?")
        else:
            with connected(store) as cursor:
                _insert(cursor, values, "%s")


def _insert(database: Any, values: Sequence[tuple[Any, ...]], mark: str) -> None:
    database.execute(f"UPDATE revisions SET value = value + {len(values)} WHERE name = 'outbox'")
    # A number is used once: others, a Proxy's among them, may have had rows there that are gone.
    database.executemany(
        f"INSERT INTO outbox ({_COLUMNS}) VALUES"
        " ((SELECT value FROM revisions WHERE name = 'outbox') - "
        f"{', '.join([mark] * 11)})",
        [(len(values) - 1 - at, *row) for at, row in enumerate(values)],
    )
