"""Reads the log inside a copy without a database, to verify a backup in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from attrs import define, field

from svc.errors import Malformed
from svc.interfaces.copies import CopyHead
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.store.copy.lines import BESIDE, LOG, CopyReader, Table

_STATE = "state_changes"
_FACTS = "store_facts"


@define
class CopiedLog:
    """Goes through a copy once.

    Args:
        wanted: Sequence numbers of records whose hash is asked for afterwards.

    Attributes:
        hashes: By sequence number, of those wanted.
        states: Sequence numbers of the records of state, of those wanted, by their n.
        facts: The facts of the store.
    """

    _lines: Iterable[bytes]
    wanted: frozenset[int] = frozenset()
    hashes: dict[int, bytes] = field(init=False, factory=dict)
    states: dict[int, int] = field(init=False, factory=dict)
    facts: dict[str, str] = field(init=False, factory=dict)
    _reader: CopyReader = field(init=False)
    _sections: Iterator[tuple[Table, list[list[Any]]]] = field(init=False)
    _ahead: tuple[Table, list[list[Any]]] | None = field(init=False, default=None)
    _personal: dict[int, list[PersonalValue]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._reader = CopyReader(iter(self._lines))
        self._sections = self._reader.sections()

    def head(self) -> CopyHead:
        """See :class:`CopyReader`; to be asked for first."""
        return self._reader.head()

    @property
    def rows(self) -> Mapping[str, int]:
        """How many each table has; whole at the end."""
        return self._reader.rows

    def batches(self) -> Iterator[Sequence[ChainRow]]:
        """The log, some records at a time; everything else is seen on the way.

        Raises:
            Malformed: the copy is malformed.
        """
        while (section := self._next()) is not None:
            table, rows = section
            if table.name == LOG:
                yield self._chain(table, rows)
            else:
                self._look_at(table, rows)

    def personal(self, first: int, last: int) -> Mapping[int, Sequence[PersonalValue]]:
        """The personal values of the batch that was given last."""
        return self._personal

    def _next(self) -> tuple[Table, list[list[Any]]] | None:
        section, self._ahead = self._ahead, None
        return next(self._sections, None) if section is None else section

    def _chain(self, table: Table, rows: list[list[Any]]) -> list[ChainRow]:
        seq, prev, link, text = _places(table, "seq", "prev_hash", "hash", "canonical")
        (signed,) = _places(table, "signature") if "signature" in table.columns else (None,)
        found = [
            ChainRow(
                seq=r[seq],
                prev_hash=r[prev],
                hash=r[link],
                canonical=r[text].encode("utf-8"),
                signature=b"" if signed is None else r[signed] or b"",
            )
            for r in rows
        ]
        for row in found:
            if row.seq in self.wanted:
                self.hashes[row.seq] = row.hash
        self._personal = {}
        while (following := self._next()) is not None and following[0].name == BESIDE:
            self._take_personal(*following, {row.seq for row in found})
        self._ahead = following
        return found

    def _take_personal(self, table: Table, rows: list[list[Any]], of: Set[int]) -> None:
        seq, path, salt, value = _places(table, "seq", "path", "salt", "value")
        for row in rows:
            if row[seq] not in of:
                raise Malformed(f"store copy: a personal value of record {row[seq]} is missing")
            personal = PersonalValue(row[path], row[salt], row[value])
            self._personal.setdefault(row[seq], []).append(personal)

    def _look_at(self, table: Table, rows: list[list[Any]]) -> None:
        if table.name == _STATE:
            n, seq = _places(table, "n", "seq")
            self.states.update({row[n]: row[seq] for row in rows if row[seq] in self.wanted})
        elif table.name == _FACTS:
            name, value = _places(table, "name", "value")
            self.facts.update({row[name]: row[value] for row in rows})


def _places(table: Table, *columns: str) -> list[int]:
    try:
        return [table.columns.index(each) for each in columns]
    except ValueError:
        raise Malformed(f"store copy: {table.name}: a column is missing") from None
