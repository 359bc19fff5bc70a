"""Versions of the policy text.  The invariant: what is in force only counts upwards."""

from __future__ import annotations

from hashlib import sha256

from attrs import evolve, frozen
from zope.interface import implementer

from svc.errors import AlreadyExists, NoSuchRow
from svc.interfaces.facets import IPolicies
from svc.model.policy.version import PolicyVersion
from svc.store.sql.statements import Row, Statements

_SELECT = "SELECT version, text, sha256, author, created_at, activated_at FROM policy_versions "


def _version(row: Row) -> PolicyVersion:
    version, text, digest, author, created_at, activated_at = row
    return PolicyVersion(
        version=version,
        text=text,
        sha256=bytes(digest),
        author=author,
        created_at=created_at,
        activated_at=activated_at,
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
            " RETURNING version, text, sha256, author, created_at, activated_at",
            text,
            sha256(text.encode("utf-8")).digest(),
            author,
            at,
        )
        assert row is not None, "an INSERT that returns gives its row"
        return _version(row)

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
        row = self._db.one(_SELECT + "WHERE activated_at IS NOT NULL ORDER BY version DESC LIMIT 1")
        return None if row is None else _version(row)

    def get(self, version: int) -> PolicyVersion | None:
        row = self._db.one(_SELECT + "WHERE version = ?", version)
        return None if row is None else _version(row)

    def newer(self, version: int, limit: int) -> tuple[PolicyVersion, ...]:
        rows = self._db.all(_SELECT + "WHERE version > ? ORDER BY version LIMIT ?", version, limit)
        return tuple(map(_version, rows))

    def history(self, limit: int) -> tuple[PolicyVersion, ...]:
        rows = self._db.all(_SELECT + "ORDER BY version DESC LIMIT ?", limit)
        return tuple(map(_version, rows))
