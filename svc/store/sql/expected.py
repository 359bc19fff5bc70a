"""Keys that may join without a token.  The invariant: each is used once."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.expected import IExpectedKeys
from svc.model.cluster.node import ExpectedKey, TokenRole
from svc.store.sql.statements import Row, Statements

_SELECT = (
    "SELECT id, role, name, key_sha256, issuer, expires_at, public_names, used_at"
    " FROM bootstrap_identities "
)


def _expected(row: Row) -> ExpectedKey:
    key_id, role, name, key_sha256, issuer, expires_at, names, used_at = row
    return ExpectedKey(
        id=key_id,
        role=TokenRole(role),
        name=name,
        key_sha256=bytes(key_sha256),
        issuer=issuer,
        expires_at=expires_at,
        names=tuple(names.split()),
        used_at=used_at,
    )


@implementer(IExpectedKeys)
@frozen
class ExpectedKeys:
    """See :class:`IExpectedKeys`."""

    _db: Statements

    def add(self, expected: ExpectedKey, at: float) -> None:
        added = self._db.change(
            "INSERT INTO bootstrap_identities (id, role, name, public_names, key_sha256, issuer,"
            " created_at, expires_at, used_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            expected.id,
            expected.role.value,
            expected.name,
            " ".join(expected.names),
            expected.key_sha256,
            expected.issuer,
            at,
            expected.expires_at,
            expected.used_at,
        )
        if not added:
            raise AlreadyExists("store: this key was already expected once, or the id is in use")

    def get(self, key_id: str) -> ExpectedKey | None:
        row = self._db.one(_SELECT + "WHERE id = ?", key_id)
        return None if row is None else _expected(row)

    def of_key(self, key_sha256: bytes) -> ExpectedKey | None:
        row = self._db.one(_SELECT + "WHERE key_sha256 = ?", key_sha256)
        return None if row is None else _expected(row)

    def use(self, key_id: str, at: float) -> bool:
        sql = "UPDATE bootstrap_identities SET used_at = ? WHERE id = ? AND used_at IS NULL"
        return bool(self._db.change(sql, at, key_id))

    def unexpired(self, at: float) -> tuple[ExpectedKey, ...]:
        rows = self._db.all(_SELECT + "WHERE expires_at > ? ORDER BY id", at)
        return tuple(map(_expected, rows))
