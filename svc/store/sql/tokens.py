"""Join tokens.  The invariant: of any number of attempts at one token, one succeeds."""

from __future__ import annotations

from hmac import compare_digest

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.facets import ITokens
from svc.model.cluster.node import KeptToken, Spending, SpentToken, TokenRecord, TokenRole
from svc.store.sql.statements import Row, Statements

_COLUMNS = "id, secret_sha256, role, expires_at, bound_to, public_names"


def _token(row: Row) -> TokenRecord:
    token_id, secret_sha256, role, expires_at, bound_to, names = row
    return TokenRecord(
        id=token_id,
        secret_sha256=bytes(secret_sha256),
        role=TokenRole(role),
        expires_at=expires_at,
        bound_to=bound_to,
        names=tuple(names.split()),
    )


@implementer(ITokens)
@frozen
class Tokens:
    """See :class:`ITokens`."""

    _db: Statements

    def add(self, token: TokenRecord, at: float) -> None:
        added = self._db.change(
            "INSERT INTO join_tokens (id, secret_sha256, role, bound_to, added_at, expires_at,"
            " public_names) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            token.id,
            token.secret_sha256,
            token.role.value,
            token.bound_to,
            at,
            token.expires_at,
            " ".join(token.names),
        )
        if not added:
            raise AlreadyExists("store: a join token with this id already exists")

    def spend(self, token_id: str, secret_sha256: bytes, at: float) -> SpentToken:
        row = self._db.one(f"SELECT spent_at, {_COLUMNS} FROM join_tokens WHERE id = ?", token_id)
        if row is None:
            return SpentToken(Spending.UNKNOWN)
        token = _token(row[1:])
        if not compare_digest(token.secret_sha256, secret_sha256):
            return SpentToken(Spending.WRONG_SECRET, token)
        if row[0] is not None:
            return SpentToken(Spending.ALREADY_SPENT, token)
        if token.expires_at <= at:
            return SpentToken(Spending.EXPIRED, token)
        won = self._mark_spent(token_id, at)
        return SpentToken(Spending.SPENT if won else Spending.ALREADY_SPENT, token)

    def waiting(self, at: float) -> tuple[TokenRecord, ...]:
        rows = self._db.all(
            f"SELECT {_COLUMNS} FROM join_tokens WHERE spent_at IS NULL AND expires_at > ?"
            " ORDER BY expires_at, id",
            at,
        )
        return tuple(map(_token, rows))

    def get(self, token_id: str) -> KeptToken | None:
        row = self._db.one(f"SELECT spent_at, {_COLUMNS} FROM join_tokens WHERE id = ?", token_id)
        return None if row is None else KeptToken(_token(row[1:]), row[0])

    def unexpired(self, at: float) -> tuple[KeptToken, ...]:
        rows = self._db.all(
            f"SELECT spent_at, {_COLUMNS} FROM join_tokens WHERE expires_at > ? ORDER BY id", at
        )
        return tuple(KeptToken(_token(row[1:]), row[0]) for row in rows)

    def withdraw(self, token_id: str, at: float) -> bool:
        good = self._db.one(
            "SELECT 1 FROM join_tokens WHERE id = ? AND expires_at > ?", token_id, at
        )
        return good is not None and self._mark_spent(token_id, at)

    def _mark_spent(self, token_id: str, at: float) -> bool:
        """The atomic step: the row changes for one transaction only."""
        sql = "UPDATE join_tokens SET spent_at = ? WHERE id = ? AND spent_at IS NULL"
        return bool(self._db.change(sql, at, token_id))
