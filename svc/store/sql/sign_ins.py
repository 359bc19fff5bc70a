"""People's identities at a provider, and their sign-ins."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.sign_in import ISignIns
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.store.sql.columns import RowColumns, RowInsert
from svc.store.sql.statements import Statements

_LINKS = RowColumns(
    IdentityLink,
    "person_identities",
    "id, issuer, subject, person_id, salt",
    salt=bytes,
)
_ADD_LINK = RowInsert("person_identities", _LINKS.listed)
_SIGN_INS = RowColumns(
    SignIn,
    "sign_ins",
    "id, identity_id, person_id, auth_time, began_at, ends_at, certificate_sha256, key_sha256, "
    "generation, refresh, ended_at",
    certificate_sha256=bytes,
    key_sha256=bytes,
    refresh=bytes,
)
_ADD_SIGN_IN = RowInsert("sign_ins", _SIGN_INS.listed, rest="")


@implementer(ISignIns)
@frozen
class SignIns:
    """See :class:`ISignIns`."""

    _db: Statements

    def link(self, link: IdentityLink) -> None:
        if not _ADD_LINK(self._db, link):
            raise AlreadyExists("store: this account is linked to a person already")

    def identity(self, link_id: str) -> IdentityLink | None:
        return _LINKS.one(self._db, "WHERE id = ?", link_id)

    def of(self, issuer: str, subject: str) -> IdentityLink | None:
        return _LINKS.one(self._db, "WHERE issuer = ? AND subject = ?", issuer, subject)

    def identities(self) -> tuple[IdentityLink, ...]:
        return _LINKS.all(self._db, "ORDER BY id")

    def put(self, sign_in: SignIn) -> None:
        self._db.change("DELETE FROM sign_ins WHERE id = ?", sign_in.id)
        _ADD_SIGN_IN(self._db, sign_in)

    def get(self, sign_in_id: str) -> SignIn | None:
        return _SIGN_INS.one(self._db, "WHERE id = ?", sign_in_id)

    def unlink(self, link_id: str) -> tuple[SignIn, ...]:
        ended = _SIGN_INS.all(self._db, "WHERE identity_id = ? ORDER BY id", link_id)
        self._db.change("DELETE FROM sign_ins WHERE identity_id = ?", link_id)
        self._db.change("DELETE FROM person_identities WHERE id = ?", link_id)
        return ended

    def unexpired(self, at: float) -> tuple[SignIn, ...]:
        return _SIGN_INS.all(self._db, "WHERE ends_at > ? ORDER BY id", at)
