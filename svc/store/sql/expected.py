"""Keys that may join without a token.  The invariant: each is used once."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.expected import IExpectedKeys
from svc.model.cluster.node import ExpectedKey, TokenRole
from svc.store.sql.columns import RowColumns, RowInsert, words
from svc.store.sql.statements import Statements

_EXPECTED = RowColumns(
    ExpectedKey,
    "bootstrap_identities",
    "id, role, name, key_sha256, issuer, expires_at, public_names AS names, used_at",
    role=TokenRole,
    key_sha256=bytes,
    names=words,
)
_ADD = RowInsert("bootstrap_identities", _EXPECTED.listed, also="created_at")


@implementer(IExpectedKeys)
@frozen
class ExpectedKeys:
    """See :class:`IExpectedKeys`."""

    _db: Statements

    def add(self, expected: ExpectedKey, at: float) -> None:
        if not _ADD(self._db, expected, created_at=at):
            raise AlreadyExists("store: this key was already expected once, or the id is in use")

    def get(self, key_id: str) -> ExpectedKey | None:
        return _EXPECTED.one(self._db, "WHERE id = ?", key_id)

    def of_key(self, key_sha256: bytes) -> ExpectedKey | None:
        return _EXPECTED.one(self._db, "WHERE key_sha256 = ?", key_sha256)

    def use(self, key_id: str, at: float) -> bool:
        sql = "UPDATE bootstrap_identities SET used_at = ? WHERE id = ? AND used_at IS NULL"
        return bool(self._db.change(sql, at, key_id))

    def unexpired(self, at: float) -> tuple[ExpectedKey, ...]:
        return _EXPECTED.all(self._db, "WHERE expires_at > ? ORDER BY id", at)
