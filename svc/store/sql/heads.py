"""Signed heads in the store, for the other Authorities to fetch."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.facets import IHeads
from svc.store.sql.statements import Statements


@implementer(IHeads)
@frozen
class Heads:
    """See :class:`IHeads`."""

    _db: Statements

    def add(self, tree_size: int, line: bytes, kept: int) -> None:
        added = self._db.change(
            "INSERT INTO audit_heads (tree_size, line) VALUES (?, ?) ON CONFLICT DO NOTHING",
            tree_size,
            line.decode("ascii"),
        )
        if not added:
            raise AlreadyExists("store: a head over this number of records already exists")
        row = self._db.one(
            "SELECT tree_size FROM audit_heads ORDER BY tree_size DESC LIMIT 1 OFFSET ?", kept
        )
        if row is not None:
            self._db.change("DELETE FROM audit_heads WHERE tree_size <= ?", row[0])

    def after(self, tree_size: int, limit: int) -> tuple[bytes, ...]:
        rows = self._db.all(
            "SELECT line FROM audit_heads WHERE tree_size > ? ORDER BY tree_size LIMIT ?",
            tree_size,
            limit,
        )
        return tuple(line.encode("utf-8") for (line,) in rows)

    def drop_after(self, tree_size: int) -> int:
        return self._db.change("DELETE FROM audit_heads WHERE tree_size > ?", tree_size)
