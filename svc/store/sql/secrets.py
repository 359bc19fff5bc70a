"""What people without a provider sign in by."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.account import ISecrets
from svc.model.cluster.account import PersonSecret, SecretKind
from svc.store.sql.columns import RowColumns, RowInsert
from svc.store.sql.statements import Statements

_SECRETS = RowColumns(
    PersonSecret,
    "person_secrets s LEFT JOIN sign_in_codes c ON c.secret_id = s.id",
    "s.id, s.person_id, s.kind, s.sealed, s.added_at, c.counter, s.expires_at",
    kind=SecretKind,
    sealed=bytes,
)
_ADD = RowInsert("person_secrets", "id, person_id, kind, sealed, added_at, expires_at")


@implementer(ISecrets)
@frozen
class Secrets:
    """See :class:`ISecrets`."""

    _db: Statements

    def add(self, secret: PersonSecret) -> None:
        if not _ADD(self._db, secret):
            raise AlreadyExists("store: this id of a secret is taken")
        if secret.counter is not None:
            self.count(secret.id, secret.counter)

    def get(self, secret_id: str) -> PersonSecret | None:
        return _SECRETS.one(self._db, "WHERE s.id = ?", secret_id)

    def of(self, person_id: str) -> tuple[PersonSecret, ...]:
        return _SECRETS.all(self._db, "WHERE s.person_id = ? ORDER BY s.id", person_id)

    def all(self) -> tuple[PersonSecret, ...]:
        return _SECRETS.all(self._db, "ORDER BY s.id")

    def count(self, secret_id: str, counter: int) -> None:
        self._db.change(
            "INSERT INTO sign_in_codes (secret_id, counter) VALUES (?, ?)"
            " ON CONFLICT (secret_id) DO UPDATE SET counter = excluded.counter",
            secret_id,
            counter,
        )

    def remove(self, secret_id: str) -> bool:
        return self._db.change("DELETE FROM person_secrets WHERE id = ?", secret_id) > 0
