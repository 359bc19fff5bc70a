"""Records which migrations were applied, whoever applied them.

An Authority that migrates a store may die before it leads, and an operator may migrate it by hand.
So the leader compares the ledger of the store with the records in the log, and records what is in
none.  The log is what counts: a fact of the store only says where such a record is, and is held
against the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define
from twisted.logger import Logger

from svc.authority.state.recorder import Recorder, node
from svc.errors import Malformed
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.model.audit.events import STORE_MIGRATE
from svc.model.audit.ledger import ChainRow
from svc.model.canonical import decode
from svc.model.store.migration import AppliedMigration

MAX_RECORDS = 10_000
_PAGE = 1000
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,64}")
_MARK = f'"event":"{STORE_MIGRATE.name}"'.encode()

_log = Logger(namespace="svc_authority")


@define
class MigrationRecords:
    """See the module.

    Attributes:
        store: Is read.
    """

    store: IReadOnlyStore
    recorder: Recorder

    async def earlier(self) -> tuple[int, ...]:
        """The records of a build that did not yet say where they are, as numbers of the log.

        Reads the whole log, once in the life of a store; of one that such a build began.

        Raises:
            StoreUnavailable: the store cannot be asked.
        """

        def begin(tx: ITransaction) -> int:
            return 0 if _places(tx) else tx.audit.head().seq

        last, found, first = await self.store.read("migrations on record", begin), list[int](), 1
        if last:
            _log.info("looking for records of migrations in the log of an earlier build")
        while first <= last:
            rows = await self._page(first)
            found.extend(row.seq for row in rows if _MARK in row.canonical and _named(row))
            first += _PAGE
        return tuple(found)

    async def _page(self, first: int) -> Sequence[ChainRow]:
        return await self.store.read("migrations on record", lambda tx: tx.audit.rows(first, _PAGE))

    def write(self, tx: ITransaction, earlier: Iterable[int]) -> None:
        """Record what was applied and is in no record: one for each build that applied some.

        Args:
            tx: A transaction of the leader.
            earlier: See :meth:`earlier`.
        """
        places = _places(tx)
        for seq in earlier:
            _add_place(tx, places, seq)
        recorded = {name for seq in places for row in tx.audit.rows(seq, 1) for name in _named(row)}
        for version, names in _by_version(tx.schema.applied(), recorded).items():
            row = self.recorder.append(
                tx,
                STORE_MIGRATE,
                node(self.recorder.origin),
                details={"migrations": list(names), "version": version},
            )
            _add_place(tx, places, row.seq)


def _by_version(applied: Iterable[AppliedMigration], recorded: set[str]) -> dict[str, list[str]]:
    """What is not recorded, by the version of the build that applied it, in order."""
    found: dict[str, list[str]] = {}
    for one in applied:
        if one.id not in recorded:
            # The ledger is signed by nobody: what it says of a version is text of anybody.
            version = one.binary_version if _VERSION.fullmatch(one.binary_version) else "unknown"
            found.setdefault(version, []).append(one.id)
    return found


def _places(tx: ITransaction) -> list[int]:
    """Where records of migrations are said to be, in the order in which that was noted."""
    places = list[int]()
    while len(places) < MAX_RECORDS:
        seq = tx.schema.fact(_name(len(places)))
        if seq is None:
            break
        places.append(int(seq) if seq.isascii() and seq.isdecimal() and len(seq) < 19 else 0)
    return places


def _add_place(tx: ITransaction, places: list[int], seq: int) -> None:
    tx.schema.settle(_name(len(places)), str(seq))
    places.append(seq)


def _name(n: int) -> str:
    return f"migrations_recorded.{n + 1}"


def _named(row: ChainRow) -> tuple[str, ...]:
    """The migrations that a row records; none where it is another record."""
    try:
        record: Any = decode(row.canonical)
    except Malformed:
        return ()  # what is wrong with the log is found where it is verified
    if not isinstance(record, dict) or record.get("event") != STORE_MIGRATE.name:
        return ()
    details = record.get("details")
    names = details.get("migrations") if isinstance(details, dict) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()
