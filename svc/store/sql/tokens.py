"""Join tokens.  The invariant: of any number of attempts at one token, one succeeds."""

from __future__ import annotations

from hmac import compare_digest
from typing import Any

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.facets import ITokens
from svc.model.cluster.node import KeptToken, Spending, SpentToken, TokenRecord, TokenRole
from svc.store.sql.columns import RowColumns, RowInsert, words
from svc.store.sql.statements import Statements


def _kept(spent_at: float | None, **token: Any) -> KeptToken:
    return KeptToken(TokenRecord(**token), spent_at)


_TOKENS = RowColumns(
    _kept,
    "join_tokens",
    "id, secret_sha256, role, expires_at, bound_to, public_names AS names, spent_at",
    secret_sha256=bytes,
    role=TokenRole,
    names=words,
)
_ADD = RowInsert(
    "join_tokens",
    "id, secret_sha256, role, expires_at, bound_to, public_names AS names",
    also="added_at",
)


@implementer(ITokens)
@frozen
class Tokens:
    """See :class:`ITokens`."""

    _db: Statements

    def add(self, token: TokenRecord, at: float) -> None:
        if not _ADD(self._db, token, added_at=at):
            raise AlreadyExists("store: a join token with this id already exists")

    def spend(self, token_id: str, secret_sha256: bytes, at: float) -> SpentToken:
        kept = self.get(token_id)
        if kept is None:
            return SpentToken(Spending.UNKNOWN)
        token = kept.token
        if not compare_digest(token.secret_sha256, secret_sha256):
            return SpentToken(Spending.WRONG_SECRET, token)
        if kept.spent_at is not None:
            return SpentToken(Spending.ALREADY_SPENT, token)
        if token.expires_at <= at:
            return SpentToken(Spending.EXPIRED, token)
        won = self._mark_spent(token_id, at)
        return SpentToken(Spending.SPENT if won else Spending.ALREADY_SPENT, token)

    def waiting(self, at: float) -> tuple[TokenRecord, ...]:
        waiting = "WHERE spent_at IS NULL AND expires_at > ? ORDER BY expires_at, id"
        return tuple(kept.token for kept in _TOKENS.all(self._db, waiting, at))

    def get(self, token_id: str) -> KeptToken | None:
        return _TOKENS.one(self._db, "WHERE id = ?", token_id)

    def unexpired(self, at: float) -> tuple[KeptToken, ...]:
        return _TOKENS.all(self._db, "WHERE expires_at > ? ORDER BY id", at)

    def withdraw(self, token_id: str, at: float) -> bool:
        good = self._db.one(
            "SELECT 1 FROM join_tokens WHERE id = ? AND expires_at > ?", token_id, at
        )
        return good is not None and self._mark_spent(token_id, at)

    def _mark_spent(self, token_id: str, at: float) -> bool:
        """The atomic step: the row changes for one transaction only."""
        sql = "UPDATE join_tokens SET spent_at = ? WHERE id = ? AND spent_at IS NULL"
        return bool(self._db.change(sql, at, token_id))
