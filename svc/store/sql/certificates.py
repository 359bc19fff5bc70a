"""Certificates issued to persons."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists, NoSuchRow
from svc.interfaces.facets import ICertificates
from svc.model.cluster.person import IssuedCertificate
from svc.store.sql.columns import RowColumns, RowInsert
from svc.store.sql.statements import Statements

_CERTIFICATES = RowColumns(
    IssuedCertificate,
    "person_certificates",
    "sha256, serial, person_id, issued_at, expires, revoked_at, sign_in_id, signed_out",
    sha256=bytes,
    signed_out=bool,
)
_ADD = RowInsert("person_certificates", _CERTIFICATES.listed)


@implementer(ICertificates)
@frozen
class Certificates:
    """See :class:`ICertificates`."""

    _db: Statements

    def issued(self, certificate: IssuedCertificate) -> None:
        holder = self._db.one("SELECT 1 FROM persons WHERE id = ?", certificate.person_id)
        if holder is None:
            raise NoSuchRow("store: there is no such person")
        if not _ADD(self._db, certificate):
            raise AlreadyExists("store: a certificate with this hash or serial already exists")

    def put(self, certificate: IssuedCertificate) -> None:
        sql = "DELETE FROM person_certificates WHERE sha256 = ? OR serial = ?"
        self._db.change(sql, certificate.sha256, certificate.serial)
        self.issued(certificate)

    def get(self, sha256: bytes) -> IssuedCertificate | None:
        return _CERTIFICATES.one(self._db, "WHERE sha256 = ?", sha256)

    def of(self, person_id: str) -> tuple[IssuedCertificate, ...]:
        return _CERTIFICATES.all(
            self._db, "WHERE person_id = ? ORDER BY issued_at DESC, serial", person_id
        )

    def unexpired(self, at: float) -> tuple[IssuedCertificate, ...]:
        return _CERTIFICATES.all(self._db, "WHERE expires > ? ORDER BY sha256", at)

    def revoked(self, at: float) -> tuple[IssuedCertificate, ...]:
        where = "WHERE expires > ? AND revoked_at IS NOT NULL ORDER BY sha256"
        return _CERTIFICATES.all(self._db, where, at)

    def revoke(self, sha256: bytes, at: float, *, signed_out: bool = False) -> bool:
        if signed_out:
            mark = "UPDATE person_certificates SET revoked_at = ?, signed_out = 1"
            where = " WHERE sha256 = ? AND revoked_at IS NULL"
            return bool(self._db.change(mark + where, at, sha256))
        sql = (
            "UPDATE person_certificates SET revoked_at = coalesce(revoked_at, ?), signed_out = 0"
            " WHERE sha256 = ? AND (revoked_at IS NULL OR signed_out = 1)"
        )
        return bool(self._db.change(sql, at, sha256))
