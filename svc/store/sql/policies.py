"""Versions of the policy text.  The invariant: what is in force only counts upwards."""

from __future__ import annotations

from hashlib import sha256

from attrs import evolve, frozen
from zope.interface import implementer

from svc.errors import AlreadyExists, NoSuchRow
from svc.interfaces.facets import IPolicies
from svc.model.policy.version import PolicyVersion
from svc.store.sql.columns import RowColumns
from svc.store.sql.statements import Statements

_VERSIONS = RowColumns(
    PolicyVersion,
    "policy_versions",
    "version, text, sha256, author, created_at, activated_at",
    sha256=bytes,
)


@implementer(IPolicies)
@frozen
class Policies:
    """See :class:`IPolicies`."""

    _db: Statements

    def add(self, text: str, author: str, at: float) -> PolicyVersion:
        row = self._db.one(
            "INSERT INTO policy_versions (version, text, sha256, author, created_at)"
            " VALUES ((SELECT coalesce(max(version), 0) + 1 FROM policy_versions), ?, ?, ?, ?)"
            f" RETURNING {_VERSIONS.listed}",
            text,
            sha256(text.encode("utf-8")).digest(),
            author,
            at,
        )
        assert row is not None, "an INSERT that returns gives its row"
        return _VERSIONS.value(row)

    def activate(self, version: int, at: float) -> PolicyVersion:
        chosen = self.get(version)
        if chosen is None:
            raise NoSuchRow(f"store: there is no policy version {version}")
        current = self.active()
        if current is not None and current.version >= version:
            raise AlreadyExists(
                f"store: policy version {current.version} is in force; "
                "to go back, add the older text as a new version"
            )
        self._db.change(
            "UPDATE policy_versions SET activated_at = ? WHERE version = ?", at, version
        )
        return evolve(chosen, activated_at=at)

    def active(self) -> PolicyVersion | None:
        return _VERSIONS.one(
            self._db, "WHERE activated_at IS NOT NULL ORDER BY version DESC LIMIT 1"
        )

    def get(self, version: int) -> PolicyVersion | None:
        return _VERSIONS.one(self._db, "WHERE version = ?", version)

    def newer(self, version: int, limit: int) -> tuple[PolicyVersion, ...]:
        return _VERSIONS.all(self._db, "WHERE version > ? ORDER BY version LIMIT ?", version, limit)

    def history(self, limit: int) -> tuple[PolicyVersion, ...]:
        return _VERSIONS.all(self._db, "ORDER BY version DESC LIMIT ?", limit)
