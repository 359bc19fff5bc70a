"""People's identities at a provider, and their sign-ins."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.sign_in import ISignIns
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.store.sql.columns import RowColumns
from svc.store.sql.statements import Statements

_LINKS = RowColumns(
    IdentityLink,
    "person_identities",
    "id, issuer, subject, person_id, salt",
    salt=bytes,
)
_SIGN_INS = RowColumns(
    SignIn,
    "sign_ins",
    "id, identity_id, person_id, auth_time, began_at, ends_at, certificate_sha256, key_sha256, "
    "generation, refresh, ended_at",
    certificate_sha256=bytes,
    key_sha256=bytes,
    refresh=bytes,
)


@implementer(ISignIns)
@frozen
class SignIns:
    """See :class:`ISignIns`."""

    _db: Statements

    def link(self, link: IdentityLink) -> None:
        added = self._db.change(
            "INSERT INTO person_identities (id, issuer, subject, person_id, salt)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            link.id,
            link.issuer,
            link.subject,
            link.person_id,
            link.salt,
        )
        if not added:
            raise AlreadyExists("store: this account is linked to a person already")

    def identity(self, link_id: str) -> IdentityLink | None:
        return _LINKS.one(self._db, "WHERE id = ?", link_id)

    def of(self, issuer: str, subject: str) -> IdentityLink | None:
        return _LINKS.one(self._db, "WHERE issuer = ? AND subject = ?", issuer, subject)

    def identities(self) -> tuple[IdentityLink, ...]:
        return _LINKS.all(self._db, "ORDER BY id")

    def put(self, sign_in: SignIn) -> None:
        self._db.change("DELETE FROM sign_ins WHERE id = ?", sign_in.id)
        self._db.change(
            "INSERT INTO sign_ins (id, identity_id, person_id, auth_time, began_at, ends_at,"
            " certificate_sha256, key_sha256, generation, refresh, ended_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            sign_in.id,
            sign_in.identity_id,
            sign_in.person_id,
            sign_in.auth_time,
            sign_in.began_at,
            sign_in.ends_at,
            sign_in.certificate_sha256,
            sign_in.key_sha256,
            sign_in.generation,
            sign_in.refresh,
            sign_in.ended_at,
        )

    def get(self, sign_in_id: str) -> SignIn | None:
        return _SIGN_INS.one(self._db, "WHERE id = ?", sign_in_id)

    def unlink(self, link_id: str) -> tuple[SignIn, ...]:
        ended = _SIGN_INS.all(self._db, "WHERE identity_id = ? ORDER BY id", link_id)
        self._db.change("DELETE FROM sign_ins WHERE identity_id = ?", link_id)
        self._db.change("DELETE FROM person_identities WHERE id = ?", link_id)
        return ended

    def unexpired(self, at: float) -> tuple[SignIn, ...]:
        return _SIGN_INS.all(self._db, "WHERE ends_at > ? ORDER BY id", at)
